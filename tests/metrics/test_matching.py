from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.metrics import matching
from evalplugin.metrics.matching import TruthPairs
from evalplugin.models.selection import NO_ITEM


def by_hand(item: np.ndarray, truth_row: np.ndarray, truth_item: np.ndarray) -> list[tuple[int, int, int]]:
    position = {pair: p for p, pair in enumerate(zip(truth_row.tolist(), truth_item.tolist(), strict=True))}
    return [
        (row, rank, position[row, code])
        for row, listed in enumerate(item.tolist())
        for rank, code in enumerate(listed, start=1)
        if (row, code) in position
    ]


def matched(item: np.ndarray, truth_row: np.ndarray, truth_item: np.ndarray) -> list[tuple[int, int, int]]:
    result = TruthPairs.of(truth_row, truth_item, len(item)).match(item)
    return list(zip(result.row.tolist(), result.rank.tolist(), result.truth.tolist(), strict=True))


def case(
    seed: int, rows: int, n: int, n_items: int, density: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lists, and a truth whose items are in any order within a user."""
    rng = np.random.default_rng(seed)
    item = np.argsort(rng.random((rows, n_items)), axis=1)[:, :n].astype(np.int32)
    item[rng.random(rows) < 0.1] = NO_ITEM
    truth_row, truth_item = np.nonzero(rng.random((rows, n_items)) < density)
    if seed % 2:
        truth_item = truth_item[np.lexsort((rng.random(len(truth_row)), truth_row))]
    return item, truth_row, truth_item.astype(np.int32)


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 20),
    n=st.integers(1, 15),
    n_items=st.integers(15, 60),
    density=st.floats(0, 1),
)
def test_the_listed_items_of_the_truth_are_found_in_order(seed, rows, n, n_items, density):
    item, truth_row, truth_item = case(seed, rows, n, n_items, density)
    assert matched(item, truth_row, truth_item) == by_hand(item, truth_row, truth_item)


@pytest.mark.parametrize("factor", [0, 2**31])
def test_matching_is_exact_when_all_hashes_collide(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    monkeypatch.setattr(matching, "_ITEM_FACTOR", factor)
    item, truth_row, truth_item = case(1, 30, 10, 40, 0.3)
    assert matched(item, truth_row, truth_item) == by_hand(item, truth_row, truth_item)


def test_a_user_with_a_long_truth_is_matched_among_users_with_a_short_one() -> None:
    item = np.random.default_rng(0).permuted(np.tile(np.arange(3000, dtype=np.int32), (50, 1)), axis=1)[
        :, :20
    ]
    truth_row = np.r_[np.zeros(2500, np.int64), np.arange(1, 50)]
    truth_item = np.r_[np.arange(2500), item[1:, 3]].astype(np.int32)
    assert matched(item, truth_row, truth_item) == by_hand(item, truth_row, truth_item)


def test_codes_near_the_largest_are_told_apart() -> None:
    top = 2**31 - 1
    item = np.array([[top, 0, top - 1]], dtype=np.int32)
    truth = np.array([top - 1, top], dtype=np.int32)
    assert matched(item, np.array([0, 0]), truth) == [(0, 1, 1), (0, 3, 0)]


def test_without_truth_or_lists_nothing_is_found() -> None:
    none = np.empty(0, np.int64), np.empty(0, np.int32)
    for shape in ((3, 2), (0, 2)):
        assert matched(np.zeros(shape, dtype=np.int32), *none) == []


def test_the_lowest_repeated_pair_is_found() -> None:
    def repeated(*items: int) -> tuple[int, int] | None:
        truth_item = np.array(items, dtype=np.int32)
        return TruthPairs.of(np.array([0, 0, 2, 2, 2]), truth_item, 3).repeated()

    assert repeated(5, 7, 7, 5, 6) is None
    assert repeated(5, 7, 9, 8, 9) == (2, 9)
    assert repeated(5, 5, 9, 8, 9) == (0, 5)
