"""Bake-offs of queries: every event of a test session has a list, as a user has one elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bakeoffs import run_bakeoff
from mlflow import MlflowClient
from samples import small_config

import evalplugin
from evalplugin.base.errors import ConfigError, DataError
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.base import Bakeoff
from evalplugin.features.checks.feature import data_findings
from evalplugin.features.config import load

DAY = 86_400
# Lists what was clicked last, and then the items of the train data in order; notes the rows that it was given.
LAST = """
import sys
import pandas as pd
train, users, history, out = sys.argv[1:]
train, users, history = map(pd.read_csv, (train, users, history))
history.to_csv("history.csv", index=False)
train.to_csv("train.csv", index=False)
last = history.groupby("user", sort=False)["item"].last()
rows = [(user, item, rank) for user in users["user"]
        for rank, item in enumerate(dict.fromkeys([last[user], *sorted(set(train["item"]))]), 1) if rank <= 10]
pd.DataFrame(rows, columns=["user", "item", "rank"]).to_csv(out, index=False)
"""
COMMAND = [sys.executable, "last.py", "{train}", "{users}", "{history}", "{out}"]
PROGRAM = {"name": "last", "type": "command", "params": {"command": COMMAND, "format": "csv", "version": "1"}}
pytestmark = [pytest.mark.usefixtures("store", "no_drawing"), pytest.mark.filterwarnings("ignore:.*EV1")]


def clicks(sessions: int = 60) -> pd.DataFrame:
    """Return a log of sessions whose items follow each other, some of them repeated; the last 20 are of one day."""
    rng = np.random.default_rng(1)
    rows = []
    for session in range(sessions):
        item = int(rng.integers(0, 12))
        start = (20 if session >= sessions - 20 else session // 10) * DAY + 600 * (session % 10)
        for event in range(int(rng.integers(1, 7))):
            rows.append((session, item, start + event))
            item = (item + int(rng.choice([0, 1, 1, 1, 5]))) % 12
    return pd.DataFrame(rows, columns=["session", "item", "time"])


def config(**changes: Any) -> dict[str, Any]:
    clicks().to_csv("clicks.csv", index=False)
    Path("last.py").write_text(LAST)
    dataset = {
        "name": "clicks", "type": "csv", "path": str(Path("clicks.csv").absolute()), "user": "session", "item": "item",
        "timestamp": "time", "duplicates": "keep",
    }  # fmt: skip
    return small_config(
        datasets=[dataset],
        split={"type": "next_item"},
        relevance={},
        recommend={"n": 10},
        metrics=["hit@3", "rr@10", "ndcg@10"],
        models=["popularity", PROGRAM],
        compare={"baseline": "popularity"},
        tracking={"uri": "sqlite:///mlflow.db"},
        **changes,
    )


def run(**changes: Any) -> Bakeoff:
    return run_bakeoff(load(config(**changes)))


@pytest.mark.slow
def test_queries_are_listed_scored_logged_and_read_back():
    outcome = run()
    frame = clicks()
    tested = frame[frame["session"] >= 40]  # those of the last day
    place = tested.groupby("session").cumcount()
    expected = [f"{s}:{known}" for s, known in zip(tested["session"], place, strict=True) if known]
    for model in outcome.models:
        assert model.error is None, model.error
        assert model.per_user.units.noun == "query"
        assert sorted(model.per_user.users.tolist()) == sorted(expected)
    # The program was given the events in order, repeats included.
    history = pd.read_csv("history.csv")
    for (session, known), events in history.groupby(history["user"].str.split(":").map(tuple)):
        own = frame[frame["session"] == int(session)]["item"].tolist()
        assert events["item"].tolist() == own[: int(known)]
    assert len(pd.read_csv("train.csv")) == len(frame[frame["session"] < 40])
    # Its list begins with the last event: a hit at once where the session repeats it.
    scores = next(m.per_user for m in outcome.models if m.model == "last")
    item = dict(zip(expected, tested["item"][place > 0].tolist(), strict=True))
    before = history.groupby("user", sort=False)["item"].last()
    rr = dict(zip(scores.users.tolist(), scores.column("rr@10").tolist(), strict=True))
    assert all((rr[query] == 1) == (item[query] == before[query]) for query in expected)
    segments = [segment.name for segment in outcome.comparisons[0].contest.segments]
    assert segments[-2:] == ["position", "repeat"]

    (again,) = evalplugin.compare(tracking_uri="sqlite:///mlflow.db").comparisons
    assert again.contest.units.noun == "query"
    # The mean over sessions is logged beside that over queries.
    values = pd.Series(scores.column("rr@10")).groupby([str(u).split(":")[0] for u in scores.users])
    run_id = next(row.run_id for row in again.models if row.model == "last")
    assert run_id is not None
    metrics = MlflowClient(f"sqlite:///{Path.cwd()}/mlflow.db").get_run(run_id).data.metrics
    assert metrics["rr_at_10"] == pytest.approx(scores.column("rr@10").mean())
    assert metrics["dist/rr_at_10.cluster_mean"] == pytest.approx(values.mean().mean())
    assert metrics["dist/rr_at_10.cluster_mean_low"] < values.mean().mean()
    assert metrics["dist/rr_at_10.cluster_mean_high"] > values.mean().mean()
    logged = next(row.scores for row in again.models if row.model == "last")
    np.testing.assert_array_equal(logged.units.codes, scores.units.codes)
    assert len(np.unique(scores.units.codes)) == tested[place > 0]["session"].nunique()
    for pair, other in zip(again.pairs, outcome.comparisons[0].pairs, strict=True):
        assert pair.paired == other.paired


def test_notes_tell_how_many_queries_repeat_an_item_of_their_session():
    (data,) = prepare(load(config()), None, Observer())
    fold = data.folds[0]
    told = fold.history_events
    seen = set(zip(told.user.tolist(), told.item.tolist(), strict=True))
    repeats = sum(pair in seen for pair in zip(fold.test.user.tolist(), fold.test.item.tolist(), strict=True))
    assert 0 < repeats < len(fold.test)
    assert any(note.startswith(f"{repeats} of {len(fold.test)} queries (") for note in data.info.notes)


def test_checks_know_that_models_do_not_learn_from_histories():
    def codes(**changes: Any) -> list[str]:
        checked = load(config() | {"metrics": ["ndcg@10"], "checks": {"ignore": ["EV109"]}, **changes})
        return [finding.code for finding in data_findings(checked, prepare(checked, None, Observer()))]

    assert codes() == []
    # No seed draws the order of events at the same time.
    frame = pd.read_csv("clicks.csv")
    frame.assign(time=frame.groupby("session")["time"].transform("min")).to_csv("equal.csv", index=False)
    assert codes(datasets=[config()["datasets"][0] | {"path": str(Path("equal.csv").absolute())}]) == []
    # Test sessions that are not the last ones: their train data is later.
    frame = pd.read_csv("clicks.csv")
    parts = [frame[frame["session"] >= 10], frame[frame["session"] < 10]]
    for part, name in zip(parts, ("train.csv", "test.csv"), strict=True):
        part.to_csv(name, index=False)
    paths = {part: str(Path(f"{part}.csv").absolute()) for part in ("train", "test")}
    given = config()["datasets"][0] | {"path": paths}
    assert codes(datasets=[given], split={"type": "next_item", "test": "given"}) == ["EV101"]


def test_models_of_sessions_tell_that_data_without_times_is_read_in_the_order_of_its_rows():
    dataset = {key: value for key, value in config()["datasets"][0].items() if key != "timestamp"}
    changes = {
        "datasets": [dataset],
        "split": {"type": "holdout"},
        "models": ["popularity", "session.markov"],
    }
    (data,) = prepare(load(config() | changes), None, Observer())
    note = "the data has no times: for session.markov, events are in the order of the rows"
    assert note in data.info.notes
    (data,) = prepare(load(config() | changes | {"models": ["popularity"]}), None, Observer())
    assert note not in data.info.notes


def pooled(pool: pd.DataFrame, **recommend: Any) -> dict[str, Any]:
    """Return a config whose queries have the pools of a table."""
    pool.to_csv("pool.csv", index=False)
    path = str(Path("pool.csv").absolute())
    return config() | {
        "recommend": {"n": 3, "candidates": "given", "path": path, **recommend},
        "metrics": ["hit@3", "pool_recall"],
        "models": ["session.popularity"],
        "compare": {},
    }


def asked() -> list[tuple[str, int, list[int]]]:
    """Return each query's id, its next item and the items of its history."""
    tested = clicks().query("session >= 40").groupby("session")["item"].agg(list).items()
    return [(f"{s}:{n}", items[n], items[:n]) for s, items in tested for n in range(1, len(items))]


@pytest.mark.slow
def test_each_query_has_a_pool_by_its_id():
    odd = [query for query, _, _ in asked()[1::2]]
    pool = [(query, item) for query, _, _ in asked() for item in ((0, 1, 2) if query in odd else (5, 6))]
    (model,) = run_bakeoff(load(pooled(pd.DataFrame(pool, columns=["user", "item"])))).models
    assert model.error is None, model.error
    inside = {query: float(item in ((0, 1, 2) if query in odd else (5, 6))) for query, item, _ in asked()}
    assert 0 < sum(inside.values()) < len(inside)
    # Three items at most: all of the pool is listed, repeats of the session included.
    for metric in ("hit@3", "pool_recall"):
        column = model.per_user.column(metric).tolist()
        assert dict(zip(model.per_user.users.tolist(), column, strict=True)) == inside


def test_notes_on_pools_count_queries_and_their_histories():
    (first, *_), queries = asked()[0], asked()
    pool = [(query, item) for query, _, _ in queries[1:] for item in range(6)]
    pool += [("3", 0), ("99:1", 0), ("41", 0)]  # of a train session, of no session, of no query
    (data,) = prepare(load(pooled(pd.DataFrame(pool, columns=["user", "item"]))), None, Observer())
    seen = sum(len({i for i in history if i < 6}) for _, _, history in queries[1:])
    inside = sum(item < 6 for _, item, _ in queries[1:])
    expected = [
        "2 queries left out that the data does not have, such as '41'",
        f"1 of {len(pool):,} rows left out of queries that are not tested",
        f"{seen} pairs are in the history of the query: ranked too",
        f"1 of {len(queries)} test queries have no pool, such as {first!r}: they get no list and score 0",
        f"6 to 6 items a query (median 6) for {len(queries) - 1} test queries",
    ]
    notes = [note.removeprefix("pool pool.csv: ") for note in data.info.notes if note.startswith("pool ")]
    assert notes[:-1] == expected
    assert notes[-1].startswith(f"it has {inside} of {len(queries)} relevant held-out items")


def test_pools_of_sessions_are_refused_with_the_ids_of_queries():
    pool = pd.DataFrame({"user": range(40, 60), "item": 1})
    with pytest.raises(
        DataError, match=r"pool.csv: none of its queries is in the data: .* such as '40:\d', '4"
    ):
        prepare(load(pooled(pool)), None, Observer())


@pytest.mark.slow
def test_repeats_are_items_of_the_session():
    config_ = config() | {"metrics": ["hit@3", "hit(truth=repeat)@3", "hit(truth=explore)@3"]}
    (contest,) = (comparison.contest for comparison in run_bakeoff(load(config_)).comparisons)
    segment = next(segment for segment in contest.segments if segment.name == "repeat")
    for model in contest.models:
        repeats = segment.of(model.scores.users) == segment.labels.index("seen in the session")
        hit, repeat, explore = model.scores.values.T
        np.testing.assert_array_equal(repeat, np.where(repeats, hit, np.nan))
        np.testing.assert_array_equal(explore, np.where(repeats, np.nan, hit))


def test_segments_of_queries_are_refused_for_users():
    message = (
        r"segments\[1\]: position divides queries, and the split last_n has users; .* with queries: next_item"
    )
    with pytest.raises(ConfigError, match=message):
        load(small_config(segments=["activity", "position"]))


def test_models_that_cannot_answer_a_history_are_refused():
    told = r"surprise\.SVD cannot list items for users who are not in the train data"
    with pytest.raises(ConfigError, match=told):
        load(config() | {"models": ["popularity", "surprise.SVD"]})
