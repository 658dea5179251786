"""Lists from elsewhere that were scored on a bake-off's truth, side by side with its models."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.comparison.contest import Contest
from evalplugin.tracking.read.contests import read_contests, with_lists

pytestmark = pytest.mark.usefixtures("no_drawing")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A bake-off, and the truth and the lists of one of its models as they were logged."""
    folder = tmp_path_factory.mktemp("store")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    outcome = evalplugin.run(small_config(metrics=["ndcg@10", "recall@10"]), tracking_uri=uri)
    client = MlflowClient(uri)
    runs = [client.get_run(run_id) for run_id in outcome.links.compared]
    (run_id,) = [run.info.run_id for run in runs if run.info.run_name == "popularity"]
    truth, lists = (
        client.download_artifacts(run_id, f"data/{name}.parquet", str(folder)) for name in ("truth", "top_n")
    )
    return SimpleNamespace(uri=uri, truth=truth, lists=lists)


def compared(store: SimpleNamespace, name: str, lists: str, truth: str, *options: str) -> Contest:
    argv = ["--threshold", "4", "-m", "ndcg@10", "-m", "recall@10", "--log"]
    argv += ["--lists", lists, "--truth", truth, "--name", name, "--tracking-uri", store.uri, *options]
    assert main(["score", *argv]) == 0
    (contest,) = read_contests(store.uri, runs=["popularity", name])
    return contest


def assert_equal(contest: Contest) -> None:
    theirs, ours = (model.scores for model in contest.models)
    assert theirs is not None and ours is not None
    common = np.intersect1d(theirs.users, ours.users)
    rows, our_rows = (np.isin(scores.users, common) for scores in (theirs, ours))
    assert (contest.dataset, contest.split, contest.rules.candidates) == ("tiny", "last_n", "unseen")
    np.testing.assert_array_equal(theirs.users[rows], ours.users[our_rows])
    np.testing.assert_array_equal(theirs.values[rows], ours.values[our_rows])


def test_the_order_of_rows_does_not_matter(store: SimpleNamespace, tmp_path: Path) -> None:
    pd.read_parquet(store.lists).to_csv(tmp_path / "lists.csv", index=False)
    truth = pd.read_parquet(store.truth).sample(frac=1, random_state=0)
    truth.drop(columns="timestamp").to_csv(tmp_path / "truth.csv", index=False)
    files = str(tmp_path / "lists.csv"), str(tmp_path / "truth.csv")
    contest = compared(store, "rows", *files)
    assert_equal(contest)
    complete = with_lists(contest, store.uri)
    assert complete.background is not None
    evalplugin.compare("popularity", "rows", tracking_uri=store.uri).to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").is_file()


def test_lists_under_other_rules_are_left_out_unless_they_are_named(store: SimpleNamespace) -> None:
    argv = ["-m", "ndcg@10", "--log", "--experiment", "shop", "--name", "other", "--tracking-uri"]
    assert main(["score", "--lists", store.lists, "--truth", store.truth, *argv, store.uri]) == 0
    (contest,) = read_contests(store.uri, experiment="shop")
    assert [model.model for model in contest.models] == ["random", "popularity"]
    assert "left out: other is the only model on" in " ".join(contest.notes)
    with pytest.raises(DataError, match=r"relevance threshold: 4.0 in popularity .*; None in other"):
        read_contests(store.uri, runs=["popularity", "other"])


def test_extra_users_are_left_out_and_another_truth_is_refused(
    store: SimpleNamespace, tmp_path: Path
) -> None:
    extra = pd.DataFrame({"user": [9001], "item": [1], "rank": [1], "score": [0.5]})
    lists, truth = pd.read_parquet(store.lists), pd.read_parquet(store.truth)
    pd.concat([lists, extra]).to_parquet(tmp_path / "lists.parquet")
    more = pd.DataFrame({"user": [9002], "item": [1], "rating": np.float32([5]), "timestamp": [0]})
    pd.concat([truth, more]).to_parquet(tmp_path / "truth.parquet")
    contest = compared(store, "listed", str(tmp_path / "lists.parquet"), store.truth)
    assert "users in common: 60 of 60 in popularity" in " ".join(contest.notes)
    assert_equal(contest)
    with pytest.raises(DataError, match="popularity is the only model"):
        compared(store, "held", store.lists, str(tmp_path / "truth.parquet"))
