from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from evalplugin.metrics import Blocks
from evalplugin.metrics.grouped_rows import GroupedRows, Users
from evalplugin.models.selection import NO_ITEM


class Lists:
    def __init__(self, lengths: np.ndarray) -> None:
        self.lengths = lengths
        self.cells = 0

    def block(self, users: Users) -> np.ndarray:
        lengths = self.lengths[users]
        item = np.arange(max(1, lengths.max()), dtype=np.int32)
        self.cells += len(lengths) * len(item)
        return np.where(item < lengths[:, None], item, NO_ITEM).astype(np.int32)


def blocks_of(lengths: np.ndarray) -> Blocks:
    n = len(lengths)
    truth = GroupedRows(np.zeros(n, np.int64), np.zeros(n, np.int64), {"item": np.empty(0, np.int32)}, True)
    return Blocks(np.arange(n), Lists(lengths), truth, int(lengths.max()), 10**6, int)


ONE_LONG = np.concatenate([np.full(10_000, 10), [20_000], np.full(10_000, 10)])
LENGTHS = {
    "one list in 200 is long": np.tile(np.r_[np.full(199, 10), 20_000], 50),
    "log-normal": np.exp(np.random.default_rng(0).normal(3, 1.5, 20_000)).astype(np.int64),
    "some are empty": np.random.default_rng(0).integers(0, 3, 50_000) * 50,
    "one is long": ONE_LONG,
    "ascending": np.arange(3000),
}


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_blocks_of_uneven_lists_are_few_and_hardly_larger_than_the_lists(lengths: np.ndarray) -> None:
    blocks = blocks_of(lengths)
    positions = [np.arange(len(lengths))[users] for users, _ in blocks]
    assert np.array_equal(np.sort(np.concatenate(positions)), np.arange(len(lengths)))
    assert isinstance(blocks.lists, Lists)
    assert blocks.lists.cells <= 2 * np.maximum(lengths, 1).sum()
    assert len(positions) <= 20 + 2 * lengths.sum() // 2**18 + len(lengths) // 2**13


@pytest.mark.parametrize(("users", "length", "most"), [(9000, 100, 2621), (20_000, 2, 8192)])
def test_blocks_of_even_lists_have_consecutive_users(users: int, length: int, most: int) -> None:
    starts = [*range(0, users, most), users]
    assert blocks_of(np.full(users, length)).cuts() == [slice(*ends) for ends in pairwise(starts)]


def test_one_long_list_takes_no_more_memory_than_its_rows() -> None:
    def peak(lengths: np.ndarray) -> int:
        blocks = blocks_of(lengths)
        tracemalloc.start()
        for _, context in blocks:
            assert context.n_listed.min() >= 0
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(ONE_LONG) < 1.5 * peak(np.full(22_000, 10))
