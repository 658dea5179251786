from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.metrics import matching
from evalplugin.metrics.matching import PairTable
from evalplugin.models.selection import NO_ITEM


def by_hand(item: np.ndarray, truth_row: np.ndarray, truth_item: np.ndarray) -> list[tuple[int, int, int]]:
    position = {pair: p for p, pair in enumerate(zip(truth_row.tolist(), truth_item.tolist(), strict=True))}
    return [
        (row, rank, position[row, code])
        for row, listed in enumerate(item.tolist())
        for rank, code in enumerate(listed, start=1)
        if (row, code) in position
    ]


def found(item: np.ndarray, truth_row: np.ndarray, truth_item: np.ndarray) -> list[tuple[int, int, int]]:
    result = PairTable.of(truth_row, truth_item, len(item)).match(item)
    return list(zip(result.row.tolist(), result.rank.tolist(), result.truth.tolist(), strict=True))


def case(
    seed: int, rows: int, n: int, n_items: int, density: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    item = np.argsort(rng.random((rows, n_items)), axis=1)[:, :n].astype(np.int32)
    item[rng.random(rows) < 0.1] = NO_ITEM
    truth_row, truth_item = np.nonzero(rng.random((rows, n_items)) < density)
    return item, truth_row, truth_item.astype(np.int32)


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 20),
    n=st.integers(1, 15),
    n_items=st.integers(15, 60),
    density=st.floats(0, 1),
)
def test_the_listed_items_of_the_truth_are_found_in_order(
    seed: int, rows: int, n: int, n_items: int, density: float
) -> None:
    item, truth_row, truth_item = case(seed, rows, n, n_items, density)
    assert found(item, truth_row, truth_item) == by_hand(item, truth_row, truth_item)


@pytest.mark.parametrize("factor", [0, 2**31])
def test_matching_is_exact_when_all_hashes_collide(monkeypatch: pytest.MonkeyPatch, factor: int) -> None:
    monkeypatch.setattr(matching, "_ITEM_FACTOR", np.uint32(factor))
    item, truth_row, truth_item = case(1, 30, 10, 40, 0.3)
    assert found(item, truth_row, truth_item) == by_hand(item, truth_row, truth_item)


def test_matching_more_pairs_than_uint16_can_number() -> None:
    item, truth_row, truth_item = case(2, 100, 5, 1000, 0.8)
    assert len(truth_item) > 2**16
    assert found(item, truth_row, truth_item) == by_hand(item, truth_row, truth_item)


def test_codes_near_the_largest_are_told_apart() -> None:
    top = 2**31 - 1
    item = np.array([[top, 0, top - 1]], dtype=np.int32)
    assert found(item, np.array([0, 0]), np.array([top - 1, top], dtype=np.int32)) == [(0, 1, 1), (0, 3, 0)]


def test_without_truth_nothing_is_found() -> None:
    assert found(np.zeros((3, 2), dtype=np.int32), np.empty(0, np.int64), np.empty(0, np.int32)) == []
