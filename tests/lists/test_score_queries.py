"""Scores of lists of queries: intervals and differences take the queries of a session together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.cli import main
from evalplugin.comparison.statistics.intervals import mean_interval
from tests.lists.test_partitions_on_engines import Engine

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
    return evalplugin.score(lists, truth, ["rr", "hit@3"], **{"columns": {"query": "query"}, **changes})


def test_intervals_take_the_queries_of_a_session_together():
    own, as_users = score(), score(columns={"user": "query"})
    assert own.means == as_users.means
    assert own.scores.units.noun == "query"
    for metric in ("rr", "hit@3"):
        interval, naive = own.interval(metric), as_users.interval(metric)
        assert (interval.n, interval.clusters, naive.clusters) == (SESSIONS * EACH, SESSIONS, None)
        assert interval.design_effect == pytest.approx(EACH, rel=0.05)
        assert interval.high - interval.low > 1.7 * (naive.high - naive.low)
    one = own.per_user.groupby(lambda query: query.split(":")[0], sort=False).first()["rr"]
    of_sessions, found = (
        mean_interval(one.to_numpy(), method="t", rng=np.random.default_rng(0)),
        own.interval("rr"),
    )
    # No end is nearer to the mean than by Student's t, nor than by the exact interval of values at the bounds.
    assert found.low <= of_sessions.low + 1e-9
    assert found.high >= of_sessions.high - 1e-9
    assert found.high - found.low < 1.1 * (of_sessions.high - of_sessions.low)


def test_differences_take_the_queries_of_a_session_together():
    lists, truth = tables(1)
    (compared,) = evalplugin.score({"a": tables()[0], "b": lists}, truth, ["rr"], columns={"query": "query"})
    paired = compared.pairs[0].paired
    assert (paired.users, paired.clusters) == (SESSIONS * EACH, SESSIONS)
    assert paired.design_effect == pytest.approx(EACH, rel=0.05)


@pytest.fixture
def parts() -> None:
    """Two files of lists, each with queries of all sessions, and the truth."""
    lists, truth = tables()
    Path("lists").mkdir()
    for number, part in lists.sample(frac=1, random_state=0).groupby(lists["query"].str[-1].astype(int) % 2):
        part.to_parquet(f"lists/{number}.parquet", index=False)
    truth.to_parquet("truth.parquet", index=False)


@pytest.mark.usefixtures("parts")
@pytest.mark.parametrize("how", [{"memory": "1KB"}, {"partitioned": True}, {"engine": True}])
def test_queries_in_parts_give_the_same_bits_as_in_memory(how: dict[str, Any]):
    if "engine" in how:
        how = {"engine": Engine()}
    more = pd.DataFrame({"query": ["99:1"], "item": [3]})
    pd.concat([pd.read_parquet("truth.parquet"), more]).to_parquet("truth.parquet", index=False)
    found = evalplugin.score("lists", "truth.parquet", ["rr", "hit@3"], columns={"query": "query"}, **how)
    expected = evalplugin.score(
        tables()[0], pd.read_parquet("truth.parquet"), ["rr", "hit@3"], columns={"query": "query"}
    )
    assert found.unlisted == expected.unlisted == 1
    pd.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=True)
    assert found.means == expected.means
    for metric in ("rr", "hit@3"):
        assert found.interval(metric) == expected.interval(metric)


WRONG = [["1:1", "7:x", "1:2"], ["1:1", "7", "1:2"], ["1:1", ":3", "1:2"], [1, 2, 3]]
NOT_A_QUERY = (
    r"column 'query', row {} \(counted from 1\) is {} \(\w+\): ids of queries are texts SESSION:NUMBER"
)


@pytest.mark.parametrize("in_truth", [False, True])
@pytest.mark.parametrize("memory", [None, "1KB"])
@pytest.mark.parametrize("ids", WRONG)
def test_ids_that_name_no_session_are_refused_with_their_row(ids, memory, in_truth, tmp_path):
    wrong = pd.DataFrame({"query": ids, "item": [1, 2, 3]})
    right = pd.DataFrame({"query": ["1:1", "1:2"], "item": 1})
    lists, truth = (right, wrong) if in_truth else (wrong, right)
    files = [str(tmp_path / f"{name}.parquet") for name in ("lists", "truth")]
    lists.assign(rank=1).to_parquet(files[0])
    truth.to_parquet(files[1])
    row, shown = (1, "1") if ids[0] == 1 else (2, repr(ids[1]))
    message = rf"{'truth' if in_truth else 'lists'}.parquet: {NOT_A_QUERY.format(row, shown)}"
    with pytest.raises(DataError, match=message):
        evalplugin.score(*files, ["rr"], columns={"query": "query"}, memory=memory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query", "qery"], r"lists.csv: no query column 'qery'; did you mean 'query'\?"),
        (["--query", ""], "lists.csv: no query column ''"),
        (["--query", "query", "--user", "visitor"], "leave out 'query' \\(query\\) or 'visitor' \\(user\\)"),
        (["--query", "query", "--truth-user", "sesion"], r"truth.csv: no query column 'sesion'; "),
    ],
)
def test_wrong_columns_are_errors_of_the_command_line(arguments: list[str], message: str, capsys: Any):
    for name, table in zip(("lists", "truth"), tables(), strict=True):
        table.to_csv(f"{name}.csv", index=False)
    assert main(["score", "--lists", "lists.csv", "--truth", "truth.csv", "-m", "rr", *arguments]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_train_data_of_sessions_needs_no_queries():
    """Its users are sessions, not queries."""
    lists, truth = tables()
    train = pd.DataFrame({"query": [f"session {i}" for i in range(9)], "item": [i % 6 for i in range(9)]})
    found = evalplugin.score(lists, truth, ["novelty@3"], train=train, columns={"query": "query"})
    assert 0 < found.means["novelty@3"] < 10


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
    assert comparison.contest.units.noun == "query"
    assert [pair.paired.clusters for pair in comparison.pairs] == [SESSIONS]
    assert main(["score", *files, "--as", "ranx"]) == 2
    assert "--query does not go with it" in capsys.readouterr().err


def test_queries_without_a_list_and_without_a_truth_are_counted(capsys: pytest.CaptureFixture[str]):
    lists, truth = tables()
    lists[lists["query"] != "0:1"].to_csv("lists.csv", index=False)
    truth[~truth["query"].isin(["5:1", "5:2"])].to_csv("truth.csv", index=False)
    files = ["score", "--lists", "lists.csv", "--truth", "truth.csv", "-m", "rr", "--query", "query"]
    assert main(files) == 0
    shown = capsys.readouterr()
    assert re.search(r"rr .* 238 +2 *$", shown.out, re.MULTILINE)  # with a value, undefined
    assert "1 query of the truth has no list: nothing is found." in shown.out
    assert not shown.err
    truth.assign(query="other " + truth["query"]).to_csv("truth.csv", index=False)
    assert main(files) == 0
    shown = capsys.readouterr()
    assert "240 queries of the truth have no list: nothing is found." in shown.out
    assert "has both a list and a relevant truth: see that the ids in lists.csv and in truth.csv" in shown.err
