"""What may come in, what is refused and how, and what it becomes."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import refusal

import evalplugin
from evalplugin.base import arrays
from evalplugin.base.errors import DataError
from evalplugin.data import Csv, Interactions, LoadContext, Split
from evalplugin.data.interactions import rows_by_time


def encoded(user: Any, item: Any, **columns: Any) -> Interactions:
    named = {name: name for name in columns}
    return Interactions.from_frame(pd.DataFrame({"user": user, "item": item, **columns}), **named)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"user": [7, 3, 7], "item": ["b", "b", "a"], "rating": [1.0, 2.5, 4.0], "timestamp": [30, 10, 20]}
    )


def test_codes_follow_the_sorted_ids_and_rows_keep_their_order(frame: pd.DataFrame) -> None:
    data = Interactions.from_frame(frame, rating="rating", timestamp="timestamp")
    assert data.users.tolist() == [3, 7]
    assert data.items.tolist() == ["a", "b"]
    assert data.user.tolist() == [1, 0, 1]
    assert data.item.tolist() == [1, 1, 0]
    assert data.rating.tolist() == [1.0, 2.5, 4.0]
    assert data.timestamp.tolist() == [30, 10, 20]
    arrays = (data.user, data.item, data.rating, data.timestamp, data.users, data.items)
    assert [a.dtype for a in arrays] == [np.int32, np.int32, np.float32, np.int64, np.int64, object]
    assert all(type(item) is str for item in data.items)


def test_data_without_a_rating_column_is_all_ones(frame: pd.DataFrame) -> None:
    data = Interactions.from_frame(frame)
    assert data.rating.tolist() == [1.0, 1.0, 1.0]
    assert data.timestamp is None


def test_arrays_cannot_be_changed_even_after_a_pickle(frame: pd.DataFrame) -> None:
    data = Interactions.from_frame(frame, rating="rating", timestamp="timestamp")
    rows = data.rows
    again = pickle.loads(pickle.dumps(data))
    assert again.digest == data.digest
    for array in (data.rating, again.rating, again.users, again.rows.item, rows.rating):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_rows_have_each_users_items_ascending_with_their_ratings(frame: pd.DataFrame) -> None:
    rows = Interactions.from_frame(frame, rating="rating").rows
    assert rows.counts.tolist() == [1, 2]
    assert rows[0].tolist() == [1]
    assert rows[1].tolist() == [0, 1]
    assert rows.rating.tolist() == [2.5, 4.0, 1.0]
    assert (rows.indptr.dtype, rows.item.dtype, rows.rating.dtype) == (np.int64, np.int32, np.float32)


@given(
    events=st.lists(st.tuples(st.integers(0, 6), st.sampled_from([-(2**63), -1, 0, 1, 2**62, 2**63 - 1]))),
    size=st.integers(1, 9),
    with_keys=st.booleans(),
)
def test_rows_by_time_are_those_of_a_stable_sort_for_any_times_and_blocks(events, size, with_keys):
    user, time = np.array([*events, (0, 0)], dtype=np.int64).T
    data = encoded(user, np.arange(len(user)), timestamp=time)
    hashes = np.random.default_rng(0).integers(0, 3, len(user))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_BLOCK_ENTRIES", size)
        start, rows = rows_by_time(data, (lambda rows: (hashes[rows],)) if with_keys else None)
    keys = (hashes, time, data.user) if with_keys else (time, data.user)
    assert rows.tolist() == np.lexsort(keys).tolist()
    assert np.diff(start).tolist() == np.bincount(data.user).tolist()


@given(
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, unique=True), cut=st.data()
)
def test_pairs_of_both_parts_are_found(pairs: list[tuple[int, int]], cut: st.DataObject) -> None:
    data = encoded(*np.array(pairs).T)
    train, test = (
        np.array(cut.draw(st.lists(st.booleans(), min_size=len(data), max_size=len(data)))) for _ in "ab"
    )
    train[0] = test[-1] = True
    split = Split(data.select(train), data.select(test), overlap_allowed=True)
    pair = data.user.astype(np.int64) * data.n_items + data.item
    assert split.shared_pairs(split.train).tolist() == sorted(pair[train & test].tolist())


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.text(max_size=3), st.integers(0, 9)), min_size=1, max_size=30)
)
def test_to_frame_inverts_from_frame(triples: list[tuple[int, str, int]]) -> None:
    unique = {(user, item): rating for user, item, rating in triples}
    frame = pd.DataFrame(
        [(u, i, float(r)) for (u, i), r in unique.items()], columns=["user", "item", "rating"]
    )
    data = Interactions.from_frame(frame, rating="rating")
    assert data.users.tolist() == sorted({user for user, _ in unique})
    assert data.items.tolist() == sorted({item for _, item in unique})
    back = data.to_frame()
    assert list(zip(back["user"], back["item"], back["rating"], strict=True)) == [
        (*k, float(v)) for k, v in unique.items()
    ]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (np.array([3, 1], dtype=np.uint8), [1, 3]),
        (pd.array([3, 1], dtype="Int64"), [1, 3]),
        (pd.Series([3, 1], dtype="int64[pyarrow]"), [1, 3]),
        (pd.Series([3, 1], dtype=object), [1, 3]),
        (pd.Categorical([3, 1]), [1, 3]),
        (pd.Series(["b", "a"], dtype=object), ["a", "b"]),
        (pd.Series(["b", "a"], dtype="string"), ["a", "b"]),
        (pd.Series(["b", "a"], dtype="string[pyarrow]"), ["a", "b"]),
        (pd.Categorical(["b", "a"], categories=["b", "a", "never"]), ["a", "b"]),
        (["z", "Ä"], ["z", "Ä"]),
        ([-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
    ],
)
def test_ids_of_any_integer_or_text_type_are_read(ids: Any, expected: list[Any]) -> None:
    data = encoded(ids, [1, 1])
    assert data.users.tolist() == expected
    assert data.users.dtype == (np.int64 if isinstance(expected[0], int) else object)


@pytest.mark.parametrize(
    ("column", "values", "row", "message"),
    [
        ("user", [1.0, None, 3.0], 2, "empty: no user id may be missing (this made floats"),
        ("user", [1.0, 2.0, 3.0], 1, "1.0 (float): user ids must be integers or text, not floats; convert"),
        ("user", [1.5, 2.0, 3.0], 1, "1.5 (float): user ids must be integers or text, not floats"),
        ("user", [True, False, True], 1, "True (bool): user ids must be integers or text, all of one type"),
        ("user", ["a", None, None], 2, "empty, and 1 more rows: no user id may be missing"),
        ("user", pd.array([1, None, 2], dtype="Int64"), 2, "empty: no user id may be missing"),
        ("user", ["a", "b", 3], 3, "3 (int): user ids must be integers or text, all of one type"),
        ("user", [1, 2, "c"], 3, "'c' (str): user ids must be integers or text, all of one type"),
        ("user", [1, 2, True], 3, "True (bool): user ids must be integers or text"),
        ("user", [1, 2, 2**63], 3, "9223372036854775808 (int): user ids must fit into 64 bits"),
        ("user", pd.Series([1, 2**70], dtype=object), 2, "1180591620717411303424 (int): user ids must fit"),
        ("user", pd.Series(["a", "b\ud800"], dtype=object), 2, r"'b\ud800' (str): text ids must be"),
        ("user", [b"a", b"b", b"c"], 1, "b'a' (bytes): user ids must be integers or text"),
        ("user", pd.to_datetime(["2020-01-01"] * 3), 1, "Timestamp('2020-01-01 00:00:00')"),
        ("stars", [1.0, np.nan, 2.0], 2, "nan (float): ratings must be finite numbers"),
        ("stars", [1.0, np.inf, np.nan], 2, "inf (float), and 1 more rows: ratings must be finite"),
        ("stars", [1.0, 1e300, 2.0], 2, "1e+300 (float): ratings must be finite numbers (float32)"),
        ("stars", ["1", "2", "3"], 1, "'1' (str): ratings must be finite numbers"),
        ("stars", [1, "two", 3], 2, "'two' (str): ratings must be finite numbers"),
        ("stars", [True, False, True], 1, "True (bool): ratings must be finite numbers"),
        ("stars", pd.array([1, None, 2], dtype="Int64"), 2, "empty: no rating may be missing"),
        ("stars", ["1", None, "3"], 2, "empty: no rating may be missing"),
        ("when", [1.0, np.nan], 2, "empty: no timestamp may be missing"),
        ("when", [1.0, np.inf], 2, "inf (float): timestamps must be finite and fit into 64 bits"),
        ("when", [1.0, 1e19], 2, "1e+19 (float): timestamps must be finite and fit into 64 bits"),
        ("when", [1, 2**63], 2, "9223372036854775808 (int): timestamps must fit into 64 bits"),
        ("when", [pd.Timestamp(0), pd.NaT], 2, "empty: no timestamp may be missing"),
        ("when", ["2020-01-01", "x"], 2, "'x' (str): timestamps must be numbers or datetimes"),
    ],
)
def test_invalid_values_name_row_and_value(column: str, values: Any, row: int, message: str) -> None:
    names = {"stars": {"rating": "stars"}, "when": {"timestamp": "when"}}.get(column, {})
    rows = range(len(values))
    frame = pd.DataFrame({"user": rows, "item": rows} | {column: values})
    found = refusal(Interactions.from_frame, frame, **names)
    assert f"column {column!r}, row {row} (counted from 1) is {message}" in found


def test_counts_and_numbers_held_as_objects_are_ratings() -> None:
    assert encoded([1, 2], [1, 2], rating=[3, 40]).rating.tolist() == [3.0, 40.0]
    assert encoded([1, 2], [1, 2], rating=pd.Series([3, 0.5], dtype=object)).rating.tolist() == [3.0, 0.5]


@pytest.fixture
def repeated() -> pd.DataFrame:
    rows = [
        ("u", "a", 1.0, 1),
        ("v", "a", 2.0, 2),
        ("u", "a", 4.0, 3),
        ("u", "b", 3.0, 4),
        ("u", "a", 2.0, 5),
    ]
    return pd.DataFrame(rows, columns=["user", "item", "rating", "timestamp"])


def test_duplicates_are_refused_with_the_first_pair_and_its_rows(repeated: pd.DataFrame) -> None:
    assert refusal(Interactions.from_frame, repeated) == (
        "data: user 'u' meets item 'a' more than once: row 1 (counted from 1) and row 3 (counted from 1) "
        "(2 surplus rows in all); set duplicates to last, mean or max to merge such rows, or to keep if each "
        "is an event of its own"
    )


@pytest.mark.parametrize(("policy", "rating"), [("last", 2.0), ("mean", (1 + 4 + 2) / 3), ("max", 4.0)])
def test_duplicates_are_merged_at_the_last_row_and_counted(repeated, policy, rating):
    data = Interactions.from_frame(repeated, rating="rating", timestamp="timestamp", duplicates=policy)
    assert data.timestamp.tolist() == [2, 4, 5]
    assert data.rating.tolist() == [2.0, 3.0, np.float32(rating)]
    assert data.notes == (f"merged 2 duplicate user-item pairs (policy {policy})",)


def test_an_unknown_duplicates_policy_is_refused(repeated: pd.DataFrame) -> None:
    expected = "data: duplicates must be one of error, last, mean, max, keep, not 'first'"
    assert refusal(Interactions.from_frame, repeated, duplicates="first") == expected


def test_the_digest_depends_on_every_part_of_the_content(frame: pd.DataFrame) -> None:
    def digest(changed: pd.DataFrame) -> str:
        return Interactions.from_frame(changed, rating="rating", timestamp="timestamp").digest

    changed = [
        frame.assign(user=[7, 4, 7]),
        frame.assign(item=["b", "b", "c"]),
        frame.assign(rating=[1.0, 2.5, 4.5]),
        frame.assign(timestamp=[30, 10, 21]),
        frame.iloc[::-1],
    ]
    digests = {digest(frame), *map(digest, changed)}
    assert len(digests) == 6
    assert digest(frame.copy()) in digests
    assert all(len(d) == 32 for d in digests)


def test_selecting_keeps_vocabularies_and_notes(frame: pd.DataFrame) -> None:
    data = Interactions.from_frame(frame, rating="rating").noting("a note")
    part = data.select(np.array([True, False, False]))
    assert (len(part), part.n_users, part.n_items, part.notes) == (1, 2, 2, ("a note",))
    assert part.item_counts.tolist() == [0, 1]
    assert data.rating_scale == (1.0, 4.0)


def test_every_wrong_column_is_named() -> None:
    frame = pd.DataFrame({"who": [1], "what": [2], "stars": [5]})
    both = "no user column 'user'; columns: who, what, stars; no rating column 'star'; did you mean 'stars'?"
    with pytest.raises(DataError) as caught:
        Interactions.from_frame(frame, user="user", item="what", rating="star", source="log")
    assert str(caught.value) == f"log: {both}"
    frame.to_csv("log.csv", index=False)
    with pytest.raises(DataError) as caught:
        Csv("log.csv", item="what", rating="star").load(LoadContext())
    assert str(caught.value).endswith(f"log.csv: {both}")
    with pytest.raises(DataError, match=r"lists: no user column 'user'.*; no item column 'itm'"):
        evalplugin.score(frame, frame, ["rr"], columns={"item": "itm", "rank": "stars"})
    with pytest.raises(
        DataError, match=r": no unit column 'q'.*; no model column 'm'.*; no score column 'value'"
    ):
        evalplugin.compare_scores(frame, unit="q", model="m", value="value")
