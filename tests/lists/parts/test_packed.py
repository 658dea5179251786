"""Lists that are packed into memory: the same scores and messages as from partitions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import list_tables

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.data.tables import Table
from evalplugin.lists import ListScores
from evalplugin.lists.columns import ListColumns, PairColumns
from evalplugin.lists.parts import packed, plan
from tests.lists.parts.test_out_of_core import FREE, METRICS, scored
from tests.lists.parts.test_ranges import assert_same

MEMORY = "100KB"  # less than rows take in memory, more than packed ones
PARTITIONED = "3KB"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "_BASE_BYTES", 0)
    monkeypatch.setattr(plan, "_READ_ROWS", 100)
    monkeypatch.setattr(plan, "_PACKED_ROWS", 40)
    monkeypatch.setattr(packed, "_CHUNK", 30)
    monkeypatch.setattr(packed, "_RANGE_PLACES", 200)
    return tmp_path


def tables(users: int = 200) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    return list_tables(users, rank=True)


def write(lists: pd.DataFrame, truth: pd.DataFrame, train: pd.DataFrame | None = None) -> None:
    Path("lists").mkdir(exist_ok=True)
    lists[: len(lists) // 3].to_parquet("lists/1.parquet", index=False, row_group_size=70)
    lists[len(lists) // 3 :].to_parquet("lists/2.parquet", index=False, row_group_size=250)
    truth.to_parquet("truth.parquet", index=False, row_group_size=90)
    if train is not None:
        train.to_parquet("train.parquet", index=False)


def score(metrics: tuple[str, ...] = FREE, memory: str = MEMORY, **asked: Any) -> tuple[ListScores, str]:
    """Return scores, and how rows were brought together."""
    said: list[str] = []
    scores = scored("lists", "truth.parquet", metrics, memory=memory, report=said.append, **asked)
    return scores, said[0].split()[0]


@pytest.mark.parametrize("metrics", [METRICS, FREE])
@pytest.mark.parametrize(
    ("kind", "user", "item"),
    [
        (np.int64, 0, 0),
        pytest.param(np.int16, -77, -9, marks=pytest.mark.slow),
        pytest.param(np.uint64, 2**62, 2**63 - 40, marks=pytest.mark.slow),
        (np.int64, -(2**63), 2**40),
    ],
)
def test_packed_lists_give_the_same_to_the_last_bit(
    folder: Path, metrics: tuple[str, ...], kind: type[np.integer[Any]], user: int, item: int
) -> None:
    def with_ids(table: pd.DataFrame) -> pd.DataFrame:
        first = {"user": kind(user), "item": kind(item)}
        return table.assign(**{name: table[name].to_numpy().astype(kind) + first[name] for name in first})

    lists, truth, train = map(with_ids, tables())
    write(lists, truth, train)
    asked: dict[str, Any] = {"train": "train.parquet", "threshold": 2.0, "curves": True}
    expected = scored(lists, truth, metrics, **{**asked, "train": train})
    found, how = score(metrics, **asked)
    assert how == "packing"
    assert_same(found, expected)
    assert_same(score(metrics, PARTITIONED, **asked)[0], expected)


@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=30),
    step=st.sampled_from([1, 8, 64]),
    size=st.integers(1, 40),
    seed=st.integers(0, 9),
)
def test_packed_ranges_have_the_rows_by_user_and_rank(
    lengths: list[int], step: int, size: int, seed: int
) -> None:
    first, lowest = 64, 5
    rank = np.concatenate([np.arange(1, length + 1) for length in lengths])
    user = np.repeat(np.arange(len(lengths)) + first, lengths)
    item = lowest + np.random.default_rng(seed).permutation(len(user))
    ordered = pd.DataFrame({"user": user, "item": item, "rank": rank})
    shuffled = ordered.sample(frac=1, random_state=seed)
    lists = packed.PackedLists(
        "lists", "rank", first, step, lowest, np.zeros((len(lengths), 12), dtype=np.int32)
    )
    for at in range(0, len(shuffled), size):
        assert lists.write(PairColumns.read(Table(shuffled[at : at + size], "lists"), "lists", ListColumns()))
    assert lists.n_rows == len(ordered)
    assert max(part.longest for part in lists.ranges()) == max(lengths)
    pieces = [part.pairs() for part in lists.ranges()]
    bounds = [first, *lists.bounds, first + len(lengths)]
    for piece, low, high in zip(pieces, bounds[:-1], bounds[1:], strict=True):
        assert all(low <= user < high for user in piece.user.values)
    for name, columns in (
        ("user", [piece.user.values for piece in pieces]),
        ("item", [piece.item.values for piece in pieces]),
        ("rank", [piece.values for piece in pieces]),
    ):
        np.testing.assert_array_equal(np.concatenate(columns), ordered[name])


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        ({"user": 7, "item": 999, "rank": 2}, "must be 1, 2, 3 and so on, and another row has this one"),
        ({"user": 7, "item": 999, "rank": 29}, "must be 1, 2, 3 and so on, but no row has rank"),
        ({"user": 7, "item": 999, "rank": 0}, "must be 1, 2, 3 and so on, the best item first"),
        ({"user": 7, "item": 999, "rank": -(2**63)}, "must be 1, 2, 3 and so on, the best item first"),
        ({"user": 7, "item": None, "rank": 1}, "no item id may be missing"),
        ({"user": 7, "item": "first", "rank": "next"}, "the list of user 7 has item "),
    ],
)
def test_errors_of_packed_lists_are_those_of_partitions(
    folder: Path, rows: dict[str, Any], rule: str
) -> None:
    lists, truth, _ = tables()
    of_user = lists[lists["user"] == rows["user"]]
    if rows["item"] == "first":
        rows = {**rows, "item": of_user["item"].iloc[0], "rank": len(of_user) + 1}
    lists = pd.concat([lists, pd.DataFrame([rows])]).astype({"item": "Int64"})
    write(lists, truth)
    messages = []
    for memory in (MEMORY, PARTITIONED):
        with pytest.raises(DataError, match=re.escape(rule)) as caught:
            score(memory=memory)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "of 2.parquet" in messages[0]


@pytest.mark.parametrize("column", ["user", "item", "rank"])
@pytest.mark.parametrize("low", [True, False])
def test_wrong_statistics_of_a_file_are_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, column: str, low: bool
) -> None:
    lists, truth, _ = tables()
    write(lists.assign(item=lists["item"] + 2**31 - 40), truth)
    expected = score(memory=PARTITIONED)[0]
    true, asked = packed._range, iter(["user", "item", "rank"])

    def wrong(groups: Any) -> tuple[int, int] | None:
        found = true(groups)
        if next(asked) != column or found is None:
            return found
        return (found[0] + 1, found[1]) if low else (found[0], found[1] - 1)

    monkeypatch.setattr(packed, "_range", wrong)
    found, how = score()
    assert how == "packing"
    assert_same(found, expected)


def test_only_lists_of_near_integers_with_ranks_are_packed(folder: Path) -> None:
    lists, truth, _ = tables()
    for change in (
        {"user": lists["user"] * 10**4},
        {"item": lists["item"] * 10**9},
        {"rank": None, "score": 1.0 / lists["rank"]},
        {"user": lists["user"].astype(str)},
        {"item": lists["item"].astype(str)},
    ):
        changed = lists.assign(**change).dropna(axis="columns")
        kinds = {name: changed[name].dtype for name in ("user", "item")}
        write(changed, truth.astype(kinds))
        assert score()[1] == "spreading", change
    one = pd.DataFrame({"user": 0, "item": np.arange(3000), "rank": np.arange(1, 3001)})
    write(pd.concat([lists[lists["user"] > 0], one]).sample(frac=1, random_state=0), truth)
    assert score()[1] == "spreading"
    write(lists, truth)
    assert score()[1] == "packing"


def test_packed_lists_write_nothing_and_read_each_row_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists, truth, _ = tables()
    write(lists, truth)
    rows: list[int] = []
    written = packed.PackedLists.write
    monkeypatch.setattr(
        packed.PackedLists, "write", lambda self, pairs: rows.append(len(pairs.user)) or written(self, pairs)
    )
    monkeypatch.setattr(
        plan.tempfile, "TemporaryDirectory", lambda **options: pytest.fail("a folder is made")
    )
    assert_same(score()[0], evalplugin.score(lists, truth, FREE))
    assert sum(rows) == len(lists)
    assert max(rows) <= 40


@pytest.mark.parametrize("ordered", [False, True])
def test_shuffled_files_with_ranks_are_packed_in_memory_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    monkeypatch.setattr(plan, "_LEAST_ROWS", 10)
    lists, truth, _ = tables()
    if ordered:
        lists, truth = (table.sort_values("user") for table in (lists, truth))
    write(lists, truth)
    packings: list[bool] = []
    true = plan._packed
    monkeypatch.setattr(plan, "_packed", lambda *args: packings.append(True) or true(*args))
    assert_same(scored("lists", "truth.parquet", FREE), evalplugin.score(lists, truth, FREE))
    assert packings == ([] if ordered else [True])
    twice = pd.concat([lists, lists[:1]])
    write(twice, truth)
    messages = []
    for source, held_out in (("lists", "truth.parquet"), (twice, truth)):
        with pytest.raises(DataError, match="and another row has this one") as caught:
            scored(source, held_out, FREE)
        messages.append(str(caught.value).rpartition(": ")[2])
    assert messages[0] == messages[1]
