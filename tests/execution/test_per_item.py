"""Counts by item: arithmetic, sums over folds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import coded, of_pairs

from evalplugin.data import Split
from evalplugin.execution.per_item import items_table
from evalplugin.metrics.relevance import Relevance
from evalplugin.models.selection import TopN

TRAIN = of_pairs([(0, 0), (1, 0), (2, 0), (0, 1), (1, 2)], 4, 6)


def split(user: list[int], item: list[int], rating: list[int]) -> Split:
    return Split(TRAIN, coded(user, item, rating, users=4, items=6))


def lists(user: list[int], items: list[list[int]]) -> TopN:
    item = np.array(items, dtype=np.int32)
    return TopN(np.array(user, dtype=np.int32), item, np.where(item < 0, np.nan, 1.0))


def test_items_are_counted_in_lists_in_the_relevant_truth_and_in_both() -> None:
    truth = split([0, 1, 2, 2], [3, 3, 1, 4], [5, 5, 5, 2])  # the last one is not relevant
    made = lists([0, 1, 2], [[3, 2], [1, -1], [1, 3]])
    assert items_table([made], [truth], Relevance(threshold=4)).to_pydict() == {
        "item": [1, 2, 3],  # of 4, no list and no relevant truth
        "train": [1, 1, 0],
        "truth": [1, 0, 2],
        "listed": [2, 1, 2],
        "hit": [1, 0, 1],  # 3 is listed for users 0 and 2, and relevant for 0 and 1
    }


@given(st.integers(0, 999), st.integers(1, 4))
def test_counts_are_those_of_a_walk_through_lists_and_truth(seed: int, at_once: int) -> None:
    rng = np.random.default_rng(seed)
    made = lists([0, 2, 3], [rng.permutation([0, 1, 2, 3, 4, 5, -1])[:4].tolist() for _ in range(3)])
    pairs = rng.permutation(24)[: rng.integers(1, 15)]
    test = coded(pairs // 6, pairs % 6, rng.integers(1, 6, len(pairs)), users=4, items=6)
    truth = Split(TRAIN, test, overlap_allowed=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalplugin.execution.per_item._LISTS", at_once)
        table = items_table([made], [truth], Relevance(threshold=3)).to_pydict()
    listed = {
        (u, i)
        for u, items in zip(made.user.tolist(), made.item.tolist(), strict=True)
        for i in items
        if i >= 0
    }
    relevant = {
        (u, i) for u, i, r in zip(test.user.tolist(), test.item.tolist(), test.rating, strict=True) if r >= 3
    }
    for name, wanted in (("listed", listed), ("truth", relevant), ("hit", listed & relevant)):
        counts = Counter(item for _, item in wanted)
        assert table[name] == [counts[item] for item in table["item"]]


def test_counts_of_folds_add_up() -> None:
    first, second = split([0], [3], [5]), split([1, 2], [3, 4], [5, 5])
    made = lists([0], [[3, 5]]), lists([1, 2], [[3, 4], [3, 2]])
    table = items_table(made, [first, second], Relevance(threshold=4))
    assert table.to_pydict() == {
        "item": [2, 3, 4, 5],
        "train": [1, 0, 0, 0],
        "truth": [0, 2, 1, 0],
        "listed": [1, 3, 1, 1],
        "hit": [0, 2, 0, 0],
    }


def test_popularity_does_not_depend_on_what_a_model_lists() -> None:
    later = of_pairs([(0, 4), (1, 4), (2, 3)], 4, 6)
    folds = [split([0], [3], [5]), Split(later, split([0], [3], [5]).test)]
    tables = [
        items_table((lists([0], [[listed, -1]]), lists([0], [[4, -1]])), folds, Relevance(threshold=4))
        for listed in (4, 5)
    ]
    popularity = [table.select(["item", "train"]).to_pydict() for table in tables]
    # Of the first fold, also where only the second lists them.
    assert popularity == [{"item": [3, 4], "train": [0, 0]}, {"item": [3, 4, 5], "train": [0, 0, 0]}]
