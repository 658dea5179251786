"""Scores of lists of queries: intervals and differences take the queries of a session together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.comparison.statistics.intervals import mean_interval

SESSIONS, EACH = 60, 4


def tables(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return lists and truth of queries; the lists of a session hit or miss together."""
    rng = np.random.default_rng(seed)
    query = [f"{session}:{known}" for session in range(SESSIONS) for known in range(1, EACH + 1)]
    place = np.repeat(rng.integers(1, 8, SESSIONS), EACH)
    rows = [
        (q, item, rank)
        for q, p in zip(query, place, strict=True)
        for rank, item in enumerate(range(p, p + 3), 1)
    ]
    lists = pd.DataFrame(rows, columns=["query", "item", "rank"])
    return lists, pd.DataFrame({"query": query, "item": 3})


def score(**changes: Any) -> evalplugin.ListScores:
    lists, truth = tables()
    return evalplugin.score(lists, truth, ["rr", "hit@3"], **{"query": "query", **changes})


def test_intervals_take_the_queries_of_a_session_together():
    own, as_users = score(), score(query=None, user="query")
    assert own.means == as_users.means
    assert own.scores.unit == "query"
    for metric in ("rr", "hit@3"):
        interval, naive = own.interval(metric), as_users.interval(metric)
        assert (interval.n, interval.clusters, naive.clusters) == (SESSIONS * EACH, SESSIONS, None)
        assert interval.design_effect == pytest.approx(EACH, rel=0.05)
        assert interval.high - interval.low > 1.7 * (naive.high - naive.low)
    one = own.per_user.groupby(lambda query: query.split(":")[0], sort=False).first()["rr"]
    half = [mean_interval(one.to_numpy(), method="t", rng=np.random.default_rng(0)), own.interval("rr")]
    assert half[0].high - half[0].low == pytest.approx(half[1].high - half[1].low)


def test_differences_take_the_queries_of_a_session_together():
    lists, truth = tables(1)
    paired = score().difference(evalplugin.score(lists, truth, ["rr"], query="query"), "rr")
    assert (paired.users, paired.clusters) == (SESSIONS * EACH, SESSIONS)
    assert paired.design_effect == pytest.approx(EACH, rel=0.05)


@pytest.mark.parametrize("ids", [["7:x"] * 3, ["7"] * 3, [":3"] * 3, [1, 2, 3]])
def test_ids_that_name_no_session_are_refused(ids: list[Any]):
    lists = pd.DataFrame({"query": ids, "item": [1, 2, 3], "rank": [1, 2, 3]})
    truth = lists.head(1)[["query", "item"]]
    with pytest.raises(
        DataError, match=f"query: {ids[0]!r} is not the id of a query: .* SESSION:NUMBER, such as 1042:3"
    ):
        evalplugin.score(
            lists.assign(rank=lists.groupby("query").cumcount() + 1), truth, ["rr"], query="query"
        )


@pytest.mark.parametrize("how", [{"partitioned": True}, {"engine": "local"}, {"memory": "1KB"}])
def test_queries_are_not_scored_in_parts(how: dict[str, Any], tmp_path: Path):
    for name, table in zip(("lists", "truth"), tables(), strict=True):
        table.to_parquet(tmp_path / f"{name}.parquet")
    files = [str(tmp_path / f"{name}.parquet") for name in ("lists", "truth")]
    with pytest.raises(DataError, match="query: queries of a session are compared together, in memory"):
        evalplugin.score(*files, ["rr"], query="query", **how)


@pytest.mark.slow
@pytest.mark.usefixtures("store", "no_drawing")
def test_logged_scores_of_queries_are_compared_by_session(capsys: pytest.CaptureFixture[str]):
    for seed in (0, 1):
        lists, truth = tables(seed)
        lists.to_csv(f"lists{seed}.csv", index=False)
        truth.to_csv("truth.csv", index=False)
        files = ["--lists", f"lists{seed}.csv", "--truth", "truth.csv", "--query", "query", "-m", "rr"]
        assert main(["score", *files, "--log", "--tracking-uri", "sqlite:///mlflow.db"]) == 0
    (comparison,) = evalplugin.compare(
        tracking_uri="sqlite:///mlflow.db", experiment="lists", pairs="all"
    ).comparisons
    assert comparison.contest.unit == "query"
    assert [pair.paired.clusters for pair in comparison.pairs] == [SESSIONS]
    assert main(["score", *files, "--as", "ranx"]) == 2
    assert "--query does not go with it" in capsys.readouterr().err
