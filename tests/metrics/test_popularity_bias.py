"""Laws of the metrics of popularity bias: the long tail, and exposure."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.metrics import evaluate

ITEMS = st.integers(0, 11)
LISTS = st.lists(st.lists(ITEMS, min_size=1, max_size=8, unique=True), min_size=1, max_size=6)
TRAIN = st.lists(st.sets(ITEMS), max_size=8)
TAILS = st.sampled_from([0.2, 0.5, 0.8, 0.95])


def measured(name: str, lists: list[list[int]], train: list[set[int]]) -> list[float]:
    return evaluate(name, lists=lists, truth=[{}] * len(lists), train=train, catalogue=range(12))


@given(lists=LISTS, train=TRAIN, tail=TAILS, k=st.integers(1, 9))
def test_the_number_of_tail_items_is_their_share_times_the_listed_items(
    lists: list[list[int]], train: list[set[int]], tail: float, k: int
) -> None:
    shares, numbers = (measured(f"{name}(tail={tail})@{k}", lists, train) for name in ("aplt", "aclt"))
    listed = [min(len(row), k) for row in lists]
    assert numbers == pytest.approx([share * n for share, n in zip(shares, listed, strict=True)], rel=1e-15)


@given(train=TRAIN, tail=TAILS)
def test_the_head_holds_its_share_and_no_smaller_set_of_more_popular_items_does(
    train: list[set[int]], tail: float
) -> None:
    in_tail = measured(f"aclt(tail={tail})", [[item] for item in range(12)], train)
    users = [sum(item in known for known in train) for item in range(12)]
    head = [n for n, outside in zip(users, in_tail, strict=True) if not outside]
    wanted = tail * sum(users) - 1e-9
    assert sum(head) >= wanted
    assert all(n < min(head) for n, outside in zip(users, in_tail, strict=True) if outside and head)
    if head:
        assert sum(n for n in head if n > min(head)) < wanted


@given(lists=LISTS, train=TRAIN)
def test_a_larger_head_leaves_a_smaller_tail(lists: list[list[int]], train: list[set[int]]) -> None:
    numbers = [measured(f"aclt(tail={tail})", lists, train) for tail in (0.2, 0.5, 0.8)]
    for larger, smaller in pairwise(numbers):
        assert all(a >= b for a, b in zip(larger, smaller, strict=True))


@given(lists=LISTS, k=st.integers(1, 9))
def test_exposure_does_not_depend_on_how_often_all_lists_are_there(lists: list[list[int]], k: int) -> None:
    (once,), (thrice,) = (measured(f"exposure_gini@{k}", lists * n, []) for n in (1, 3))
    assert thrice == pytest.approx(once, abs=1e-14)


@given(lists=LISTS)
def test_exposure_of_first_ranks_alone_is_the_number_of_lists(lists: list[list[int]]) -> None:
    assert measured("exposure_gini@1", lists, []) == pytest.approx(measured("gini@1", lists, []), rel=1e-14)
