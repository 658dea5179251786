"""``configs/blobs.yaml`` gives the published scores and orders of object 8, read back from what was logged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalplugin
from evalplugin.features.base import Bakeoff

ROOT = Path(__file__).parents[1]

KNN_SCORES = [
    0.911927, 0.360036, 0.563100, 0.763004, 0.638666, 0.253009, 0.348827, 0.563100, 0.673895, 0.638666,
    0.653047, 0.430756, 0.186026, 0.350962, 0.771011, 0.454776, 0.737111, 0.350962, 0.555094, 0.552959,
    0.738984, 0.172943, 0.537218, 0.631957, 0.272497, 0.462782, 0.443032, 0.642905, 0.354960, 0.644799,
]  # fmt: skip
KNN_ORDER = [
    0, 14, 3, 20, 16, 8, 10, 29, 27, 4, 9, 23, 2, 7, 18, 19, 22, 25, 15, 26, 11, 1, 28, 13, 17, 6, 24, 5, 12, 21,
]  # fmt: skip
RANDOM_ORDER = [
    20, 8, 15, 9, 6, 22, 27, 13, 17, 1, 28, 21, 25, 14, 18, 10, 5, 11, 26, 16, 24, 29, 19, 12, 4, 23, 2, 3, 7, 0,
]  # fmt: skip
RELEVANT = {0, 2, 7, 8, 10, 11, 16, 18, 19, 20, 22, 23, 27}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Bakeoff:
    folder = tmp_path_factory.mktemp("blobs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return evalplugin.run(ROOT / "configs" / "blobs.yaml", tracking_uri=f"sqlite:///{folder}/mlflow.db")


def lists(outcome: Bakeoff, model: str) -> pd.DataFrame:
    from mlflow import MlflowClient

    bakeoff = outcome.plan
    client = MlflowClient(outcome.links.tracking_uri)
    experiment = client.get_experiment_by_name(bakeoff.experiment)
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`evalplugin.model` = '{model}'")
    table = pd.read_parquet(Path(run.info.artifact_uri.removeprefix("file://")) / "data" / "top_n.parquet")
    assert list(table.columns) == ["user", "item", "rank", "score"]
    return table[table["user"] == 8].sort_values("rank")


def test_the_knn_scores_and_order_of_object_8(outcome: Bakeoff) -> None:
    table = lists(outcome, "knn")
    assert table["item"].tolist() == KNN_ORDER
    assert table["rank"].tolist() == list(range(1, 31))
    np.testing.assert_allclose(table.sort_values("item")["score"], KNN_SCORES, atol=5e-7)


def test_items_with_equal_knn_scores_stand_in_catalogue_order(outcome: Bakeoff) -> None:
    score = lists(outcome, "knn").set_index("item")["score"]
    for lower, higher in ((4, 9), (2, 7), (13, 17)):
        assert score[lower] == score[higher]
        assert KNN_ORDER.index(higher) == KNN_ORDER.index(lower) + 1


def test_the_random_order_of_object_8(outcome: Bakeoff) -> None:
    assert lists(outcome, "random")["item"].tolist() == RANDOM_ORDER


def test_the_metrics_of_object_8_follow_from_its_lists(outcome: Bakeoff) -> None:
    for model, order in zip(outcome.models, (RANDOM_ORDER, KNN_ORDER), strict=True):
        row = model.per_user.to_frame().loc[8]
        hits = [item in RELEVANT for item in order[:10]]
        assert row["precision@10"] == sum(hits) / 10
        assert row["recall@10"] == sum(hits) / len(RELEVANT)
        assert row["rr"] == 1 / (1 + next(i for i, item in enumerate(order) if item in RELEVANT))
