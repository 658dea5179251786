"""Lists and truth of several folds: a column ``fold``, as bake-offs log them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main

pytestmark = [pytest.mark.usefixtures("no_drawing"), pytest.mark.filterwarnings("ignore:.*with fewer than")]
METRICS = ["ndcg@10", "rr", "ap"]
ROLLING: dict[str, Any] = {
    "split": {"type": "temporal", "every": "30d", "folds": 3},
    "metrics": METRICS,
    "experiment": "rolling",
    "models": ["random", "popularity"],
    "compare": {"baseline": "random"},
}


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A bake-off of three rolling folds, and the tables that one of its models has logged."""
    folder = tmp_path_factory.mktemp("rolling")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    outcome = evalplugin.run(small_config(**ROLLING), tracking_uri=uri)
    (result,) = (model for model in outcome.models if model.model == "popularity")
    client = MlflowClient(uri)
    runs = [client.get_run(run_id) for run_id in outcome.links.compared]
    (run_id,) = [run.info.run_id for run in runs if run.info.run_name == "popularity"]
    tables = {
        name: client.download_artifacts(run_id, f"data/{name}.parquet", str(folder))
        for name in ("truth", "history", "top_n")
    }
    return SimpleNamespace(uri=uri, result=result, run_id=run_id, folder=folder, **tables)


def test_truth_and_history_of_every_fold_are_logged(logged: SimpleNamespace) -> None:
    truth, history = pd.read_parquet(logged.truth), pd.read_parquet(logged.history)
    tests = [logged.result.data.test, *(test for _, test in logged.result.data.later)]
    assert truth["fold"].dtype == np.int32
    assert truth.groupby("fold").size().to_dict() == {1 + fold: len(test) for fold, test in enumerate(tests)}
    first = truth["timestamp"].groupby(truth["fold"]).min()
    for fold, known in history.groupby("fold"):
        assert known["timestamp"].max() < first[fold]
        assert set(known["user"]) <= set(truth[truth["fold"] == fold]["user"])


@pytest.mark.parametrize("kind", ["files", "frames", "CSV"])
def test_lists_scored_on_the_logged_truth_have_the_scores_of_the_bake_off(logged, kind, tmp_path):
    lists, truth = logged.top_n, logged.truth
    if kind != "files":
        lists, truth = (pd.read_parquet(file).sample(frac=1, random_state=0) for file in (lists, truth))
    if kind == "CSV":
        lists.to_csv(tmp_path / "lists.csv", index=False)
        truth.to_csv(tmp_path / "truth.csv", index=False)
        lists, truth = tmp_path / "lists.csv", tmp_path / "truth.csv"
    scores = evalplugin.score(lists, truth, METRICS, threshold=4)
    expected = logged.result.per_user
    np.testing.assert_array_equal(scores.per_user.index, expected.users)
    np.testing.assert_array_equal(scores.per_user.to_numpy(), expected.values)
    assert scores.fold_means == logged.result.fold_means


def test_a_mistake_in_a_fold_is_named_by_its_user(logged: SimpleNamespace) -> None:
    lists, truth = pd.read_parquet(logged.top_n), pd.read_parquet(logged.truth)
    row = int(np.flatnonzero(lists["fold"] == 2)[0])
    lists.loc[row, "rank"] = 0
    with pytest.raises(DataError, match=rf"^lists: the ranks of user {lists['user'][row]} must be"):
        evalplugin.score(lists, truth, METRICS)


def test_tables_without_the_folds_of_others_are_refused(logged: SimpleNamespace) -> None:
    lists, truth = pd.read_parquet(logged.top_n), pd.read_parquet(logged.truth)
    for given, held_out, message in (
        (
            lists[lists["fold"] == 1].drop(columns="fold"),
            truth,
            r"^lists: no rows of fold 1, 2, 3: the folds are 1, 2, 3 \(column 'fold'\): keep the rows",
        ),
        (
            lists,
            truth[truth["fold"] == 1].drop(columns="fold"),
            r"^truth: no rows of fold 1, 2, 3: the folds are 1, 2, 3 \(column 'fold'\): keep the rows",
        ),
        (lists, truth[truth["fold"] == 1], "^truth: no rows of fold 2, 3: the folds are 1, 2, 3 "),
    ):
        with pytest.raises(DataError, match=message):
            evalplugin.score(given, held_out, METRICS)
    with pytest.raises(DataError, match=r"^train: no rows of fold 1, 2, 3: "):
        evalplugin.score(lists, truth, ["coverage@10"], train=truth.drop(columns="fold"))
    one = evalplugin.score(lists[lists["fold"] == 2], truth[truth["fold"] == 2], METRICS, threshold=4)
    assert one.means == logged.result.fold_means[1]


def test_what_takes_one_fold_refuses_several(logged, capsys):
    for options in ({"memory": "1KB"}, {"partitioned": True}, {"duplicates": "keep"}):
        with pytest.raises(DataError, match=r"takes a single fold; the folds are 1, 2, 3 \(column 'fold'\)"):
            evalplugin.score(logged.top_n, logged.truth, METRICS, **options)
    argv = ["score", "--lists", logged.top_n, "--truth", logged.truth, "-m", "ndcg@10", "--as", "recbole"]
    assert main(argv) == 2
    assert "--as: takes a single fold" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["run", "path"])
def test_a_model_of_lists_takes_the_rows_of_its_fold(logged, place, store):
    params = {"run": logged.run_id} if place == "run" else {"path": logged.top_n}
    models = [{"name": "again", "type": "lists", "params": params}, "random"]
    (again, _) = evalplugin.run(small_config(**{**ROLLING, "models": models}), tracking_uri=logged.uri).models
    assert again.error is None
    assert again.fold_means == logged.result.fold_means


def test_a_fold_without_lists_fails_the_model(logged: SimpleNamespace, store: Path) -> None:
    lists = pd.read_parquet(logged.top_n)
    lists.assign(fold=lists["fold"] - 1).to_parquet("lists.parquet")
    models = [
        {"name": "again", "type": "lists", "params": {"path": str(Path("lists.parquet").absolute())}},
        "random",
    ]
    outcome = evalplugin.run(small_config(**{**ROLLING, "models": models}), tracking_uri=logged.uri)
    assert "no rows of fold 3: the folds are 0, 1, 2 (column 'fold')" in str(outcome.models[0].error)
