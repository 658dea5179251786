"""Random streams: what may change the numbers that a split or a model draws, and what must not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalplugin import model
from evalplugin.config import CheckedConfig
from evalplugin.data import Interactions
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job, PreparedData, jobs_of, prepare, results_of
from evalplugin.features.config import load
from evalplugin.features.tuning.feature import studies_of
from evalplugin.models import MODELS, Recommender, defines
from evalplugin.tracking.registry.served import make_lists

# Models that make all lists at once need a file or a program; LensKit has an environment of its own.
REGISTERED = [
    entry.name
    for entry in MODELS
    if entry.is_own
    and not defines(entry.cls, Recommender.recommend_task)
    and not entry.name.startswith("lenskit.")
]
SMALL: Mapping[str, dict[str, Any]] = {
    "implicit.AlternatingLeastSquares": {"factors": 3},
    "implicit.BayesianPersonalizedRanking": {"factors": 3, "iterations": 3},
    "implicit.LogisticMatrixFactorization": {"factors": 3, "iterations": 3},
    "session.knn": {"sampling": "random", "sample_size": 4},
    "sklearn.NMF": {"n_components": 3, "max_iter": 2000},
    "sklearn.TruncatedSVD": {"n_components": 3},
}
ITEMS = {"path": "items.csv", "item": "item", "title": "title", "columns": ["genre"]}
USERS = {"path": "users.csv", "user": "user", "columns": ["age"]}


def ratings() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((30, 25)) < 0.4)
    table = pd.DataFrame({"user": user, "item": item, "rating": rng.integers(1, 6, len(user))})
    return table.assign(timestamp=rng.permutation(len(table)))


def write_tables(folder: Path, table: pd.DataFrame, *, genre: str = "drama") -> None:
    table.to_csv(folder / "ratings.csv", index=False)
    titles = [f"Title {n}" for n in range(25)]
    pd.DataFrame({"item": range(25), "title": titles, "genre": genre}).to_csv(
        folder / "items.csv", index=False
    )
    pd.DataFrame({"user": range(30), "age": range(30)}).to_csv(folder / "users.csv", index=False)


def jobs(folder: Path, models: list[str], config: Mapping[str, Any], **dataset: Any) -> list[Job]:
    return jobs_of(*planned(folder, models, config, **dataset))


def planned(
    folder: Path, models: list[str], config: Mapping[str, Any], **dataset: Any
) -> tuple[CheckedConfig, list[PreparedData]]:
    """Return the config and its data; ``dataset``: further parameters of the dataset."""
    columns = {"path": str(folder / "ratings.csv"), "rating": "rating", "timestamp": "timestamp"}
    tables = {
        key: {**value, "path": str(folder / value["path"])} if key in ("items", "users") else value
        for key, value in dataset.items()
    }
    checked = load(
        {
            "experiment": "e",
            "datasets": [{"type": "csv", "name": "shop", **columns, **tables}],
            "split": "holdout",
            "recommend": {"n": 10},
            "metrics": ["ndcg@10"],
            "models": [{"name": name, "type": name, "params": SMALL.get(name, {})} for name in models],
            **config,
        }
    )
    return checked, prepare(checked, None, Observer())


def lists(folder: Path, models: list[str] = REGISTERED, **dataset: Any) -> dict[str, pd.DataFrame]:
    """Return each model's lists with their scores."""
    results = [r for _, r in results_of(jobs(folder, models, {}, **dataset), sequential_executor(Observer()))]
    assert [result.error for result in results if result.error] == []
    return {r.model: r.top_n.to_pandas() for r in results if r.top_n is not None}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    """Return the lists of all registered models on the table of ratings alone."""
    folder = tmp_path_factory.mktemp("plain")
    write_tables(folder, ratings())
    made = lists(folder)
    assert len(made) == len(REGISTERED) > 30
    return made


def changed(before: dict[str, pd.DataFrame], after: dict[str, pd.DataFrame]) -> list[str]:
    return [name for name, table in after.items() if not table.equals(before[name])]


def test_tables_of_items_and_users_change_no_list_of_a_model_that_does_not_read_them(tmp_path, plain):
    write_tables(tmp_path, ratings())
    assert changed(plain, lists(tmp_path, items=ITEMS, users=USERS)) == []


def test_the_order_of_rows_changes_no_list(tmp_path: Path, plain: dict[str, pd.DataFrame]) -> None:
    write_tables(tmp_path, ratings().sample(frac=1, random_state=1))
    assert changed(plain, lists(tmp_path)) == []


def test_times_change_no_list_of_a_model_that_does_not_read_them(tmp_path, plain):
    models = [name for name in REGISTERED if not name.startswith("session.")]
    write_tables(tmp_path, ratings())
    assert changed(plain, lists(tmp_path, models, timestamp=None)) == []


@pytest.mark.parametrize(
    "split",
    [
        {"type": "sample_users", "n_users": 12, "n": 3},
        {"type": "sample_users", "fraction": 0.3, "n": 2, "hold": "random"},
        {"type": "kfold", "k": 3},
        {"type": "new_users", "n_users": 8},
        {"type": "new_items", "n_items": 5, "candidates": "catalogue"},
    ],
    ids=lambda split: split["type"],
)
def test_tables_of_items_and_users_change_no_split(tmp_path: Path, split: Mapping[str, Any]) -> None:
    write_tables(tmp_path, ratings())
    config = {"split": split, "models": [{"type": "popularity"}]}
    if split["type"] == "new_items":
        config |= {"models": [{"type": "random"}]}
    without, *others = (
        [fold for data in planned(tmp_path, [], config, **dataset)[1] for fold in data.folds]
        for dataset in ({}, {"items": ITEMS, "users": USERS}, {"items": {**ITEMS, "catalogue": True}})
    )
    for folds in others:
        assert [fold.test.pairs_digest for fold in folds] == [fold.test.pairs_digest for fold in without]


def test_tables_of_items_and_users_change_no_negatives_and_no_trial_of_tuning(tmp_path: Path) -> None:
    write_tables(tmp_path, ratings())
    tuned = {"name": "als", "type": "implicit.AlternatingLeastSquares", "tune": {"factors": [2, 3, 4]}}
    config = {
        "recommend": {"n": 10, "candidates": "sampled", "negatives": 7},
        "models": [tuned],
        "tune": {"metric": "ndcg@10", "budget": {"trials": 3}},
    }
    drawn = []
    for dataset in ({}, {"items": ITEMS, "users": USERS}):
        checked, prepared = planned(tmp_path, [], config, **dataset)
        (study,) = studies_of(checked, prepared, jobs_of(checked, prepared))
        points = [trial.values for trial in study.ask()]
        of_trials = study.base.stream, study.base.split.test.pairs_digest, study.base.candidates.digest
        drawn.append((prepared[0].candidates[0].digest, of_trials, points))
    assert drawn[0] == drawn[1]


def test_tables_of_items_and_users_change_no_lists_that_are_registered(tmp_path: Path) -> None:
    write_tables(tmp_path, ratings())
    without, with_tables = (
        make_lists(checked.models[0], prepared[0].info.full, checked.spec.recommend, seed=1).top_n
        for checked, prepared in (
            planned(tmp_path, ["random"], {}, **dataset) for dataset in ({}, {"items": ITEMS, "users": USERS})
        )
    )
    np.testing.assert_array_equal(without.item, with_tables.item)


def test_an_attribute_changes_the_lists_of_a_model_that_reads_it(tmp_path: Path) -> None:
    @model("genres")
    @dataclass
    class Genres:
        def fit(self, train: Interactions, rng: np.random.Generator) -> None:
            known = np.array([len(genre) for genre in train.item_attributes["genre"]], dtype=float)
            self.score = known + rng.random(train.n_items)

        def scores(self, users: Any) -> Any:
            return np.broadcast_to(self.score, (len(users), len(self.score)))

    write_tables(tmp_path, ratings())
    drama = lists(tmp_path, ["genres"], items=ITEMS)
    write_tables(tmp_path, ratings(), genre="comedy")
    assert changed(drama, lists(tmp_path, ["genres"], items=ITEMS)) == ["genres"]


@given(
    drawn=st.data(),
    pairs=st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=30
    ),
    keep=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_stream_is_named_by_pairs_alone(drawn, pairs, keep):
    def interactions(rows: list[tuple[int, int, int]], **columns: str) -> Interactions:
        frame = pd.DataFrame(rows, columns=["user", "item", "value"]).assign(time=range(len(rows)))
        return Interactions.from_frame(frame, duplicates="keep" if keep else "last", **columns)

    data = interactions(pairs)
    shuffled = interactions(drawn.draw(st.permutations(pairs)), rating="value", timestamp="time")
    wider = shuffled.on_catalogue(np.arange(-5, 20))
    assert data.pairs_digest == shuffled.pairs_digest == wider.pairs_digest
    other = interactions([*pairs, (7, 0, 0)])
    assert other.pairs_digest != data.pairs_digest
    renamed = interactions([(user + 1, item, value) for user, item, value in pairs])
    assert renamed.pairs_digest != data.pairs_digest
