"""Queries of sessions: the split ``next_item``, ids of queries, and the segments of queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.data import SPLITS, DataFrame, Interactions, LoadContext, NewUsers, NextItem, Split
from evalplugin.data.attributes import Attributes
from evalplugin.data.queries import positions_of, query_ids, sessions_of
from evalplugin.segments import Position, Repeat, clustering_of, segmentation

DAY = 86_400
# Session 9 ends last and repeats item 5, 7 has one event, the rows of 3 are not in order of time.
EVENTS = [
    (1, 5, 10), (1, 6, 20), (2, 6, 10), (2, 7, 30), (3, 5, 45), (3, 7, 40), (4, 8, DAY), (7, 5, 2 * DAY),
    (8, 5, 2 * DAY), (8, 6, 2 * DAY),
    (9, 5, 2 * DAY + 1), (9, 6, 2 * DAY + 2), (9, 5, 2 * DAY + 3), (9, 99, 2 * DAY + 4),
]  # fmt: skip


def log(events: Iterable[tuple[Any, int, float]] = EVENTS, **changes: Any) -> Interactions:
    frame = pd.DataFrame(events, columns=["user", "item", "time"])
    return Interactions.from_frame(frame, timestamp="time", duplicates="keep", **changes)


def of(split: NextItem, data: Interactions | None = None) -> Split:
    [fold] = split.split(log() if data is None else data, np.random.default_rng(0))
    return fold


def rows(data: Interactions | None) -> list[tuple[str, int]]:
    pairs = list(zip(data.users[data.user].tolist(), data.items[data.item].tolist(), strict=True))
    return sorted(pairs, key=lambda pair: pair[0])  # stable: the order of a query's events counts


def test_every_event_after_the_first_is_a_query_with_the_events_before_it():
    fold = of(NextItem())
    assert fold.unit == "query"
    assert rows(fold.test) == [("8:1", 6), ("9:1", 6), ("9:2", 5), ("9:3", 99)]
    assert rows(fold.history_events) == [
        ("8:1", 5), ("9:1", 5), ("9:2", 5), ("9:2", 6), ("9:3", 5), ("9:3", 6), ("9:3", 5),
    ]  # fmt: skip
    # In order of time, and each pair once where a model does not ask for events.
    assert rows(fold.train_events) == [("1", 5), ("1", 6), ("2", 6), ("2", 7), ("3", 7), ("3", 5), ("4", 8)]
    assert sorted(set(rows(fold.history))) == sorted(set(rows(fold.history_events)))
    assert len(fold.history or ()) == 6
    assert fold.notes == (
        "1 of 3 test sessions have one event, and so no query",
        "1 of 4 train sessions have one event: no item follows another one in them",
        "1 events of 1 sessions have the time of the event before: these are in the order of the rows",
        "the truth of 1 of 4 queries is an item without train data; kept: no list of a model that learns from items "
        "can have it",
        "4 queries of 2 sessions",
    )


def clustered(visitors: dict[int, Any], **columns: Any) -> Interactions:
    """Return the log with the visitor of each session."""
    frame = pd.DataFrame(EVENTS, columns=["user", "item", "time"])
    frame["visitor"] = frame["user"].map(visitors)
    data = DataFrame(frame, timestamp="time", duplicates="keep", **columns)
    return data.load(LoadContext(user_columns=("visitor",)))


VISITORS = {1: "a", 2: "b", 3: "c", 4: "a", 7: "b", 8: "c", 9: "a"}


def test_queries_have_the_clusters_that_a_column_names():
    data = clustered(VISITORS)
    assert dict(zip(data.users.tolist(), data.user_columns["visitor"].tolist(), strict=True)) == VISITORS
    fold, plain = of(NextItem(cluster="visitor"), data), of(NextItem())
    named = dict(zip(fold.test.users.tolist(), fold.clusters.ids.tolist(), strict=True))
    assert {query: named[query] for query, _ in rows(fold.test)} == {
        "8:1": "c", "9:1": "a", "9:2": "a", "9:3": "a",
    }  # fmt: skip
    assert fold.notes[-1] == "4 queries of 2 sessions of 2 visitors"
    # Nothing else depends on it: not the content, not what models see.
    assert plain.clusters is None
    assert data.digest == log().digest
    assert [part.digest for part in (fold.train, fold.test)] == [p.digest for p in (plain.train, plain.test)]
    assert not fold.train.user_columns
    grouped = clustering_of([fold])
    assert (grouped.name, grouped.labels) == ("visitor", ("a", "c"))
    assert grouped.users.tolist() == ["8:1", "9:1", "9:2", "9:3"]
    assert grouped.group.tolist() == [1, 0, 0, 0]


def test_filters_keep_the_clusters_of_the_sessions_that_stay():
    data = clustered(VISITORS)
    kept = data.restrict(np.isin(data.users[data.user], [1, 2, 8, 9]))
    assert kept.user_columns["visitor"].tolist() == ["a", "b", "c", "a"]


def test_clusters_are_not_sought_in_validation_data():
    assert NextItem(cluster="visitor").of_train_data() == NextItem()
    assert NextItem(test="given", cluster="visitor").of_train_data() == NextItem()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([1.0, 2.0, 3.0, 4.0, 5.0, np.nan, 7.0]), "1 of 2 tested sessions have no value in the column"),
        (np.full(7, 2.5), "column 'visitor' puts all tested sessions into one cluster, '2.5'"),
        (None, "the data has no column 'visitor' of clusters of sessions; did you mean 'visitors'?"),
    ],
)  # fmt: skip
def test_clusters_by_attributes_of_any_dataset_are_checked(values: Any, message: str):
    named = {"visitors": np.ones(7)} if values is None else {"visitor": values}
    data = replace(log(), user_attributes=Attributes(named))
    with pytest.raises(DataError, match=message) as refused:
        of(NextItem(cluster="visitor"), data)
    assert refused.value.parameter == "cluster"


def test_attributes_of_any_dataset_name_clusters():
    data = replace(log(), user_attributes=Attributes({"visitor": np.array([1.0, 2, 3, 1, 2, 3, 1.5])}))
    fold = of(NextItem(cluster="visitor"), data)
    named = dict(zip(fold.test.users.tolist(), fold.clusters.ids.tolist(), strict=True))
    assert (named["8:1"], named["9:1"]) == ("3", "1.5")


def test_the_last_event_alone_is_a_query():
    assert rows(of(NextItem(queries="last")).test) == [("8:1", 6), ("9:3", 99)]


def test_queries_for_items_without_train_data_can_be_dropped():
    fold = of(NextItem(cold="drop"))
    assert [query for query, _ in rows(fold.test)] == ["8:1", "9:1", "9:2"]
    assert "9:3" not in {query for query, _ in rows(fold.history)}


def test_histories_are_cut_to_the_latest_events_and_counted():
    fold = of(NextItem(max_history=1))
    assert rows(fold.history_events) == [("8:1", 5), ("9:1", 5), ("9:2", 6), ("9:3", 5)]
    assert "2 histories of more than 1 events are cut to the latest of them" in fold.notes


@pytest.mark.parametrize(
    ("split", "sessions"),
    [
        (NextItem(days=1.5), "4 8 9"),  # session 4 has one event, and so no query
        (NextItem(test="n_sessions", n_sessions=1), "9"),
        (NextItem(test="n_sessions", n_sessions=2), "8 9"),
        (NextItem(test="n_sessions", n_sessions=5), "3 8 9"),
    ],
)
def test_sessions_that_end_last_are_tested(split: NextItem, sessions: str):
    fold = of(split)
    tested = {query.split(":")[0] for query, _ in rows(fold.test)}
    train = {session for session, _ in rows(fold.train)}
    assert tested == set(sessions.split()) - {"4"}
    assert not train & set(sessions.split())


def test_given_sessions_are_tested():
    data = log()
    part = np.isin(data.users[data.user], [2, 9]).astype(np.int8)
    parts = replace(data, part=part, parts=("train", "test"))
    fold = of(NextItem(test="given"), parts)
    assert {query for query, _ in rows(fold.test)} == {"2:1", "9:1", "9:2", "9:3"}
    assert NextItem(test="given").of_train_data() == NextItem()
    with pytest.raises(DataError, match="takes one train and one test part, and the data has 2 folds"):
        of(NextItem(test="given"), replace(parts, parts=("1", "2")))
    both = replace(parts, part=np.arange(len(data), dtype=np.int8) % 2)
    shown = r"5 of 7 sessions are in the train part and in the test part: 1 \(1 event and 1\), 2 \(.*, \.{3}"
    with pytest.raises(DataError, match=shown):
        of(NextItem(test="given"), both)
    with pytest.raises(DataError, match="the test part has no events; does a filter"):
        of(NextItem(test="given"), parts.select(part == 0))


def test_train_data_is_split_again_for_tuning():
    fold = of(NextItem(test="n_sessions", n_sessions=2))
    inner = of(NextItem(test="n_sessions", n_sessions=4), fold.train_events)
    assert [query for query, _ in rows(inner.test)] == ["2:1", "3:1"]
    assert {session for session, _ in rows(inner.train)} == {"1"}


def test_attributes_of_sessions_are_those_of_their_queries():
    data = log()
    device = np.array([f"device {user}" for user in data.users.tolist()], dtype=object)
    fold = of(NextItem(), replace(data, user_attributes=Attributes({"device": device})))
    shown = dict(zip(fold.test.users.tolist(), fold.test.user_attributes["device"].tolist(), strict=True))
    assert shown == {session: f"device {session.split(':')[0]}" for session in shown}


START = 1_760_000_000_000  # in milliseconds
TIMELESS = Interactions.from_frame(pd.DataFrame({"user": [1, 2], "item": [1, 2]}))
MILLISECONDS = [(session, item, START + 1000 * session + item) for session in range(9) for item in range(2)]


@pytest.mark.parametrize(
    ("split", "data", "message", "parameter"),
    [
        (NextItem(days=10), None, "all of the 7 sessions end within the last 10 days, from 20 to 172,804, so .*; lower "
         "days, or choose", "days"),
        (NextItem(test="n_sessions", n_sessions=7), None, "n_sessions is 7, but there are 7 sessions", "n_sessions"),
        (NextItem(test="given"), None, "test: given needs data that comes in parts", "test"),
        (NextItem(test="n_sessions", n_sessions=1, cold="drop"), [(1, 1, 0), (2, 2, 9), (2, 3, 10)],
         r"the truth of every query \(1\) is an item without train data, and cold: drop", "cold"),
        (NextItem(), [("a:1", 1, 0), ("a:1", 2, 1), ("a", 1, 2 * DAY), ("a", 2, 2 * DAY + 1)],
         "'a:1' is the id of a session, and of a query of another one", None),
        (NextItem(), TIMELESS, "split next_item needs timestamps", None),
        (NextItem(), replace(TIMELESS, unused=(("timestamp", "clicked_at"),)),
         r"by the dataset's timestamp; did you mean 'clicked_at'\?", None),
        (NextItem(), [(1, 1, 0), (1, 2, 1), (2, 1, 2 * DAY)],
         r"there is no query, as no test session has two events \(1 have one\)", "test"),
        # Mostly the column of the session is another one.
        (NextItem(), [("a", 1, 0), ("a", 2, 1), ("a", 3, 2)],
         "all 3 events are of one session, 'a': two are needed at least, one to learn", None),
        (NextItem(), MILLISECONDS, "takes timestamps in seconds, and these are up to 1760000008001, perhaps milli",
         "test"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_split_is_refused(split, data, message, parameter):
    with pytest.raises(DataError, match=message) as refused:
        of(split, data if isinstance(data, Interactions) else log(*[] if data is None else [data]))
    assert refused.value.parameter == parameter


def test_the_last_sessions_are_tested_whatever_the_unit_of_the_times():
    assert len(of(NextItem(test="n_sessions", n_sessions=3), log(MILLISECONDS)).test) == 3


def test_sessions_that_end_with_the_first_tested_one_are_counted():
    events = [(session, item, 10 * (session > 1) + item) for session in range(6) for item in range(2)]
    fold = of(NextItem(test="n_sessions", n_sessions=2), log(events))
    assert [query for query, _ in rows(fold.test)] == ["4:1", "5:1"]
    assert fold.notes[0] == (
        "2 train sessions end at the same time as 2 tested ones: of these, those with the larger ids are tested"
    )
    notes = of(NextItem(test="n_sessions", n_sessions=4), log(events)).notes
    assert not [note for note in notes if "same time" in note]


def test_sessions_of_more_than_a_day_are_counted():
    """The ids of sessions may be unique to a user alone, so that sessions of several users become one."""
    start = 1_760_000_000
    after = [(1, 1, 0), (1, 2, 9), (2, 1, 0), (2, 2, 3 * DAY), (3, 1, 4 * DAY), (3, 2, 4 * DAY + 9)]
    after += [(4, 3, 0), (4, 1, DAY)]
    events = [(session, item, start + time) for session, item, time in after]
    note = (
        "1 of 4 sessions last longer than a day, the longest, 2, 3d: see that no two sessions, such as those of two "
        "users, have the same id"
    )
    assert note in of(NextItem(), log(events)).notes
    assert not [note for note in of(NextItem(), log(after)).notes if "last longer" in note]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"test": "n_sessions"}, "takes n_sessions with test: n_sessions"),
        ({"n_sessions": 5}, "takes n_sessions with test: n_sessions"),
        ({"test": "n_sessions", "n_sessions": 5, "days": 2}, "goes with test: last_day, not with test"),
        ({"test": "lastday"}, "last_day"),
        ({"max_history": 0}, "max_history"),
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any], message: str):
    with pytest.raises(ParameterError) as caught:
        SPLITS.create("next_item", params)
    assert message in str(caught.value)


@given(st.lists(st.tuples(st.text(max_size=4), st.integers(1, 10**6)), min_size=1, max_size=20))
def test_ids_of_queries_tell_session_and_position(named: list[tuple[str, int]]):
    sessions = np.array([name for name, _ in named], dtype=object)
    known = np.array([number for _, number in named])
    ids = query_ids(sessions, known)
    np.testing.assert_array_equal(positions_of(ids), known)
    expected = pd.factorize(sessions)[0]
    np.testing.assert_array_equal(sessions_of(ids), expected)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 50)), min_size=8, max_size=40))
def test_histories_and_truths_are_the_sessions_in_order(events: list[tuple[int, int, int]]):
    data = log([*events, (98, 0, 0), (99, 0, 10 * DAY), (99, 1, 10 * DAY + 1)])
    fold = of(NextItem(test="n_sessions", n_sessions=2), data)
    told: dict[str, list[int]] = {}
    for query, item in rows(fold.history_events):
        told.setdefault(query, []).append(item)
    for query, truth in rows(fold.test):
        session, known = query.split(":")
        own = sorted((e for e in data_rows(data) if str(e[0]) == session), key=lambda event: event[2])
        items = [item for _, item, _ in own]
        assert told[query] == items[: int(known)]
        assert truth == items[int(known)]


def data_rows(data: Interactions) -> list[tuple[int, int, int]]:
    columns = (data.users[data.user], data.items[data.item], data.timestamp)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_queries_are_grouped_by_position_and_by_repeats():
    fold = of(NextItem())
    position = segmentation("position", Position(groups=2), [fold], LoadContext(base=Path()))
    assert position.labels == ("after 1 event", "after 2 events or more")
    assert position.group.tolist() == [0, 0, 1, 1]
    repeat = segmentation("repeat", Repeat(), [fold], LoadContext(base=Path()))
    assert repeat.from_truth
    groups = [repeat.labels[group] for group in repeat.group]
    assert dict(zip(repeat.users.tolist(), groups, strict=True)) == {
        "8:1": "new to the session",
        "9:1": "new to the session",
        "9:2": "seen in the session",
        "9:3": "new to the session",
    }


@pytest.mark.parametrize("segmenter", [Position(), Repeat()])
def test_users_are_not_grouped_as_queries(segmenter: Any):
    [fold] = NewUsers(n_users=1, fold_in=0.5).split(
        log([(u, i, 0) for u in range(3) for i in range(4)]), np.random.default_rng(0)
    )
    with pytest.raises(
        DataError, match="segment 'it': divides queries, such as those of the split next_item; here are users"
    ):
        segmentation("it", segmenter, [fold], LoadContext(base=Path()))
