"""Lists of an MLflow run in a bake-off: the scores of that run, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from samples import small_config, write_config

from evalplugin.base.errors import ConfigError, ParameterError
from evalplugin.execution.results import ModelResult
from evalplugin.features.config import load
from evalplugin.models import MODELS

pytestmark = [
    pytest.mark.usefixtures("store", "no_drawing"),
    pytest.mark.filterwarnings("ignore:.*with fewer than"),
]
KFOLD: dict[str, Any] = {"split": {"type": "kfold", "k": 2}, "experiment": "folds"}
KNN = {"name": "knn", "type": "sklearn.NearestNeighbors"}


def store_uri() -> str:
    return f"sqlite:///{Path.cwd()}/mlflow.db"


def run(models: list[Any], **changes: Any) -> list[ModelResult]:
    config = small_config(models=models, compare={}, **changes)
    return list(run_bakeoff(load(config), tracking_uri=store_uri()).models)


def run_ids(experiment: str) -> dict[str, str]:
    client = MlflowClient(store_uri())
    found = client.search_runs(
        [client.get_experiment_by_name(experiment).experiment_id], "tags.`evalplugin.role` = 'model'"
    )
    return {run.data.tags["evalplugin.model"]: run.info.run_id for run in found}


def lists(run_id: str, name: str = "again") -> dict[str, Any]:
    return {"name": name, "type": "lists", "params": {"run": run_id}}


def without_digests(run_id: str) -> None:
    """Make of a run one that does not say from which train data its lists were made."""
    client = MlflowClient(store_uri())
    file = Path(client.download_artifacts(run_id, "data/top_n.parquet", "."))
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), "top_n.parquet")
    client.log_artifact(run_id, "top_n.parquet", "data")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"experiment": "one"}, id="one split"),
        pytest.param(KFOLD, id="two folds", marks=pytest.mark.slow),
    ],
)
def test_lists_of_a_run_have_its_scores_to_the_last_bit(changes: dict[str, Any]) -> None:
    first = run([KNN, "random"], **changes)
    ids = run_ids(changes["experiment"])
    again = run(
        [lists(ids["knn"], "knn"), lists(ids["random"], "random")], **{**changes, "experiment": "again"}
    )
    for ours, theirs in zip(again, first, strict=True):
        assert ours.error is None
        for metric in theirs.per_user.metrics:
            np.testing.assert_array_equal(ours.per_user.column(metric), theirs.per_user.column(metric))
        assert ours.per_user.overall == theirs.per_user.overall
        assert ours.fold_means == theirs.fold_means

    # Of another split, and of a split with more folds.
    message = "its lists were made from other train data than that of "
    (refused,) = run([lists(ids["knn"])], **{**changes, "seed": 4, "split": {"type": "kfold", "k": 3}})
    assert f"{message}{'fold 1 of ' if changes == KFOLD else ''}this split (digest " in refused.failure
    without_digests(ids["knn"])
    (found,) = run([lists(ids["knn"])], **{**changes, "seed": 4})
    assert any("does not say from which train data its lists were made" in note for note in found.notes)


def test_scores_of_lists_from_elsewhere_are_logged_without_the_lists() -> None:
    from evalplugin.cli import main

    rows = pd.DataFrame({"user": np.arange(1, 61).repeat(20), "item": np.tile(np.arange(1, 21), 60)})
    rows.assign(rank=np.tile(np.arange(1, 21), 60)).to_csv("lists.csv", index=False)
    rows.iloc[::20].to_csv("truth.csv", index=False)
    logged = ["--log", "--name", "vendor", "--experiment", "shop", "--tracking-uri", store_uri()]
    assert main(["score", "--lists", "lists.csv", "--truth", "truth.csv", "-m", "ndcg@10", *logged]) == 0
    run_id = run_ids("shop")["vendor"]
    (found,) = run([lists(run_id)])
    assert "is FINISHED and has no lists (data/top_n.parquet)" in found.failure


def test_a_run_without_lists_is_refused() -> None:
    mlflow.set_tracking_uri(store_uri())
    try:
        with mlflow.start_run(run_name="own") as other:
            pass
    finally:
        mlflow.set_tracking_uri(None)
    (found,) = run([lists(other.info.run_id)])
    assert (
        f"run own ({other.info.run_id}) is FINISHED and has no lists (data/top_n.parquet): name the run of a model"
        in (found.failure)
    )
    write_config(small_config(models=["random", lists("0" * 32)]))
    with pytest.raises(ConfigError, match=r"models\[1\].params.run: .*Run with id=0+ not found"):
        run_bakeoff(load(Path("shop.yaml")), tracking_uri=store_uri())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "give a path or a run"),
        ({"path": "a.csv", "run": "0" * 32}, "give a path or a run, not both"),
        ({"run": "popularity"}, "run: .*match"),
        ({"run": "0" * 32, "score": "points"}, r"score is for files \(path\)"),
    ],
)
def test_either_a_path_or_a_run(params: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        MODELS.create("lists", params)


def test_a_path_is_no_uri_of_mlflow() -> None:
    write_config(
        small_config(models=["random", {"type": "lists", "params": {"path": "runs:/abc/lists.parquet"}}])
    )
    with pytest.raises(
        ConfigError, match=r"models\[1\].params.path: runs:/abc/lists.parquet is a URI of MLflow: .* run: ID"
    ):
        load(Path("shop.yaml"))


def test_the_metadata_of_lists_has_the_train_data_of_each_fold() -> None:
    (result,) = run(["popularity"], **KFOLD)
    (run_id,) = run_ids("folds").values()
    file = MlflowClient(store_uri()).download_artifacts(run_id, "data/top_n.parquet", ".")
    digests = json.loads(pq.read_schema(file).metadata[b"evalplugin"])["train_digests"]
    assert digests[0] == result.data.train.digest
    assert len(set(digests)) == 2
