from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import list_tables

from evalplugin.base.errors import DataError
from evalplugin.data.tables import Table
from evalplugin.lists import ListScores
from evalplugin.lists.columns import ListColumns, PairColumns
from evalplugin.lists.parts import plan
from evalplugin.lists.parts.ranges import bounds_of, joined, rows_within, split
from evalplugin.lists.parts.row_groups import RowGroup
from tests.lists.parts.test_out_of_core import FREE, METRICS, scored

_IDS = st.lists(st.integers(-(2**62), 2**62) | st.integers(-40, 40), max_size=60)


def pairs_of(users: list[int] | list[str]) -> PairColumns:
    table = pa.table({"user": pa.array(users), "item": pa.array(range(len(users)), pa.int32())})
    return PairColumns.read(Table(table, "truth"), "truth", ListColumns())


@given(
    users=_IDS.filter(bool), bounds=st.sets(st.integers(-(2**62), 2**62) | st.integers(-40, 40), max_size=9)
)
def test_split_puts_each_row_into_the_range_of_its_user_in_the_order_of_rows(
    users: list[int], bounds: set[int]
) -> None:
    for given_users in (users, sorted(users)):
        ordered = sorted(bounds)
        parts = split(pairs_of(given_users), ordered)
        assert len(parts) == len(ordered) + 1
        for part, low, high in zip(parts, [-(2**63), *ordered], [*ordered, 2**63 - 1], strict=True):
            expected = [(user, row) for row, user in enumerate(given_users) if low <= user < high]
            assert list(zip(part.user.values.tolist(), part.item.values.tolist(), strict=True)) == expected
        assert len(joined(parts).user) == len(users)


@given(users=st.lists(st.text(max_size=3), min_size=1), bounds=st.sets(st.text(max_size=3), max_size=4))
def test_the_rows_of_a_range_of_text_keep_their_order(users: list[str], bounds: set[str]) -> None:
    ordered = [None, *sorted(bounds), None]
    for given_users in (users, sorted(users)):
        for low, high in itertools.combinations(ordered, 2):
            within = rows_within(pairs_of(given_users), low, high)
            assert within.user.values.to_pylist() == [
                user for user in given_users if (low is None or low <= user) and (high is None or user < high)
            ]


@given(
    groups=st.lists(
        st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 2**62), st.integers(1, 10**6)), min_size=1
    ),
    n_parts=st.integers(2, 50),
)
def test_bounds_ascend_within_the_range_of_ids(groups: list[tuple[int, int, int]], n_parts: int) -> None:
    made_of = [RowGroup(0, n, 0, rows, low, low + span) for n, (low, span, rows) in enumerate(groups)]
    bounds = bounds_of(made_of, n_parts)
    assert bounds is not None and len(bounds) < n_parts
    assert bounds == sorted(set(bounds))
    assert all(min(g.low for g in made_of) < bound <= max(g.high for g in made_of) for bound in bounds)


def test_bounds_divide_rows_evenly_whatever_their_order() -> None:
    ordered = [RowGroup(0, n, 0, 1000, n * 100, n * 100 + 99) for n in range(10)]
    assert bounds_of(ordered, 5) == [200, 400, 600, 800]
    shuffled = [RowGroup(0, n, 0, 1000, 0, 999) for n in range(10)]
    assert bounds_of(shuffled, 5) == [200, 400, 600, 800]
    assert bounds_of([RowGroup(0, 0, 0, 5), *ordered], 5) is None
    text = [RowGroup(0, n, 0, 1000, f"u{n}", f"u{n}9") for n in range(10)]
    assert bounds_of(text, 5) == ["u2", "u4", "u6", "u8"]


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder; files of a few rows are scored by ranges."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "_LEAST_ROWS", 1)
    monkeypatch.setattr(plan, "_RANGE_ROWS", 50)
    monkeypatch.setattr(plan, "_READ_ROWS", 60)
    return tmp_path


def assert_same(found: ListScores, expected: ListScores) -> None:
    pd.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=True)
    assert found.means == expected.means
    np.testing.assert_equal(found.scores.at_k, expected.scores.at_k)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("metrics", [METRICS, FREE])
def test_ranges_give_the_same_to_the_last_bit(
    small: Path, monkeypatch: pytest.MonkeyPatch, text: bool, ordered: bool, metrics: tuple[str, ...]
) -> None:
    lists, truth, train = list_tables(text=text)
    if ordered:
        lists, truth = (t.sort_values(["user", "item"], ignore_index=True) for t in (lists, truth))
    asked = {"threshold": 2.0, "curves": True}
    expected = scored(lists, truth, metrics, train=train, **asked)
    Path("lists").mkdir()
    lists[: len(lists) // 3].to_parquet("lists/1.parquet", index=False, row_group_size=37)
    lists[len(lists) // 3 :].to_parquet("lists/2.parquet", index=False, row_group_size=90)
    truth.to_parquet("truth.parquet", index=False, row_group_size=41)
    train.to_parquet("train.parquet", index=False)
    results = []
    in_memory = plan.score_in_memory
    monkeypatch.setattr(
        "evalplugin.lists.inputs.score_in_memory",
        lambda *args, **options: results.append(in_memory(*args, **options)) or results[-1],
    )
    found = scored("lists", "truth.parquet", metrics, train="train.parquet", **asked)
    assert_same(found, expected)
    assert (results[0] is None) == text  # which is encoded faster at once


def test_errors_are_those_of_files_that_are_read_at_once(small: Path) -> None:
    lists, truth, _ = list_tables()
    truth.to_parquet("truth.parquet", index=False)
    twice = pd.concat([lists, lists[:1]])
    twice.to_parquet("lists.parquet", index=False, row_group_size=50)
    messages = []
    for source, name in (("lists.parquet", "lists.parquet"), (twice, "lists")):
        rule = rf"^{name}: the list of user \d+ has item \d+ twice: row 1 .* and row {len(twice)} "
        with pytest.raises(DataError, match=rule) as caught:
            scored(source, truth if source is twice else "truth.parquet", ["rr"])
        messages.append(str(caught.value).removeprefix(name))
    assert messages[0] == messages[1]
    lists.loc[lists.index[70], "score"] = np.inf
    lists.to_parquet("lists.parquet", index=False, row_group_size=50)
    with pytest.raises(Exception, match=r"lists.parquet: column 'score', row \d+ \(counted from 1\) is inf"):
        scored("lists.parquet", "truth.parquet", ["rr"])


@pytest.mark.parametrize("ordered", [False, True])
def test_ids_of_two_kinds_are_refused(small: Path, ordered: bool) -> None:
    lists, truth, _ = list_tables()
    _, text, _ = list_tables(text=True)
    lists.to_parquet("lists.parquet", index=False)
    text = text.assign(item=truth["item"])
    (text.sort_values("user") if ordered else text).to_parquet("truth.parquet", index=False)
    with pytest.raises(DataError, match=r"^user ids are integers in the lists .*, but text in the truth"):
        scored("lists.parquet", "truth.parquet", ["rr"])
