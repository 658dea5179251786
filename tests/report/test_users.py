"""Two models user by user."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from samples import CHANCE, small_config

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.data import Split
from evalplugin.features.base import Bakeoff
from evalplugin.segments import history_lengths

OTHER = {
    "split": {"type": "last_n", "n": 2},
    "models": [{"name": "other", "type": "popularity"}],
    "compare": {},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, no_drawing: None) -> tuple[str, Bakeoff]:
    """A store with a bake-off, and one on other data before it."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
    evalplugin.run(small_config(**OTHER), tracking_uri=uri)
    asked = small_config(models=["random", "popularity", CHANCE], segments=["activity"])
    return uri, evalplugin.run(asked, tracking_uri=uri)


@pytest.fixture
def outcome(ran: tuple[str, Bakeoff], monkeypatch: pytest.MonkeyPatch) -> Bakeoff:
    """The bake-off, whose store MLflow finds by itself."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", ran[0])
    return ran[1]


def test_users_are_listed_with_scores_history_and_groups_the_worst_first(outcome: object) -> None:
    kept = evalplugin.compare(outcome).users("popularity", "random")
    read = evalplugin.compare().users("popularity", "random")
    pd.testing.assert_frame_equal(kept, read)
    results = {model.model: model for model in outcome.models}
    scores = [results[name].per_user for name in ("popularity", "random")]
    row = kept.iloc[0]
    position = scores[0].users.tolist().index(row["user"])
    assert [row["score"], row["score_against"]] == [s.column("ndcg@10")[position] for s in scores]
    assert row["difference"] == np.nanmin(scores[0].column("ndcg@10") - scores[1].column("ndcg@10"))
    defined = kept["difference"].dropna()
    assert defined.is_monotonic_increasing
    assert kept["difference"].iloc[len(defined) :].isna().all()
    train = results["random"].data.train
    counts = pd.Series(np.bincount(train.user, minlength=train.n_users), train.users)
    assert kept["history"].tolist() == counts[kept["user"]].tolist()
    assert kept["segment_activity"].str.endswith("interactions").all()


def test_history_is_of_the_first_fold_that_tests_a_user(outcome: object) -> None:
    data = outcome.models[0].data
    first, other = Split(data.train, data.test), Split(data.test, data.train)
    once = history_lengths([first])
    assert history_lengths([first, other]).length.tolist() == once.length.tolist()
    assert history_lengths([other, first]).length.tolist() != once.length.tolist()
    assert np.isnan(once.of(np.array([10**9])))


def test_table_of_users_is_written_and_printed(outcome: object, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for out in ("users.csv", "users.parquet"):
        assert main(["compare", "--users", "popularity", "random", "--out", out]) == 0
    shown = capsys.readouterr().out
    assert "ndcg@10 of popularity is worse than that of random for" in shown
    assert "the first 20 of 60 users; all of them: --out users.csv" in shown
    csv, parquet = pd.read_csv("users.csv"), pd.read_parquet("users.parquet")
    names = ["dataset", "split", "user", "metric", "model", "score", "against", "score_against", "difference"]
    assert [*csv] == [*parquet] == [*names, "history", "segment_activity"]
    np.testing.assert_array_equal(csv["difference"], parquet["difference"])
    assert main(["compare", "--users", "popularity", "random", "--format", "json", "-m", "recall@10"]) == 0
    assert '"metric": "recall@10"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--users", "popularty", "random"], "no model is named 'popularty' on tiny, last_n; did you mean"),
        (["--users", "random", "random"], "'random' and 'random' are one model: name two"),
        (["--users", "random", "popularity", "-m", "coverage@10"], "'coverage@10' has no value for each user"),
        (["--users", "random", "popularity", "--format", "latex"], "allowed: table, json, csv"),
        (["--users", "random", "popularity", "--out", "users.txt"], "are written as .parquet or .csv, not '.txt'"),
        (["--out", "users.csv"], "--out writes the table of --users A B: name two models"),
    ],
)  # fmt: skip
def test_wrong_choices_of_users_are_refused(argv, expected, outcome, capsys):
    assert main(["compare", *argv]) == 2
    assert expected in " ".join(capsys.readouterr().err.split())


def test_users_of_other_data_are_refused(outcome: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "other", "random", "--users", "other", "random"]) == 2
    assert "cannot be compared" in capsys.readouterr().err


def test_failed_model_has_no_users(outcome: object) -> None:
    with pytest.raises(DataError, match="no model is named 'x'"):
        evalplugin.compare().users("x", "random")
