"""Laws of the metrics of popularity bias: the long tail, exposure, and rates of groups."""

from __future__ import annotations

from itertools import pairwise
from math import isnan, nan

import numpy as np
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
def test_the_number_of_tail_items_is_their_share_times_the_listed_items(lists, train, tail, k):
    shares, numbers = (measured(f"{name}(tail={tail})@{k}", lists, train) for name in ("aplt", "aclt"))
    listed = [min(len(row), k) for row in lists]
    assert numbers == pytest.approx([share * n for share, n in zip(shares, listed, strict=True)], rel=1e-15)


@given(train=TRAIN, tail=TAILS)
def test_the_head_holds_its_share_and_no_smaller_set_of_more_popular_items_does(train, tail):
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


@given(lists=LISTS, train=TRAIN, k=st.integers(1, 9))
def test_groups_whose_items_are_all_listed_have_the_same_rate(lists, train, k):
    given = {"train": train, "catalogue": range(12)}
    everything = [list(range(12))] * len(lists)
    for name in ("popularity_parity", "popularity_opportunity"):
        (value,) = evaluate(name, lists=everything, truth=[set(range(12))] * len(lists), **given)
        assert value == pytest.approx(0, abs=1e-15) or isnan(value)
    (value,) = evaluate(f"popularity_parity@{k}", lists=lists, truth=[{}] * len(lists), **given)
    assert isnan(value) or 0 <= value <= 1 + 1e-12  # the root of two groups less one


@given(lists=LISTS, train=TRAIN, truth=st.lists(st.sets(ITEMS, min_size=1), min_size=6, max_size=6))
def test_parity_and_opportunity_agree_with_the_definition(lists, train, truth):
    """The same by sets of items and users, as Zhu et al. and Elliot's PopRSP and PopREO count."""
    train = [*train, *[set()] * len(lists)]
    truth = truth[: len(lists)]
    users = [sum(item in known for known in train) for item in range(12)]
    in_tail = measured("aclt", [[item] for item in range(12)], train)
    groups = [{item for item in range(12) if in_tail[item] == tail} for tail in (0, 1)]
    assert all(users[item] for item in groups[0])
    new = [set(range(12)) - known for known in train]
    listed = [set(row) for row in lists]

    def rate(group: set[int], could: list[set[int]]) -> float:
        pairs = [(len(group & c & row), len(group & c)) for c, row in zip(could, listed, strict=False)]
        return sum(a for a, _ in pairs) / sum(b for _, b in pairs) if sum(b for _, b in pairs) else nan

    for name, could in (("popularity_parity", new), ("popularity_opportunity", truth)):
        rates = np.array([rate(group, could) for group in groups])
        (value,) = evaluate(name, lists=lists, truth=truth, train=train, catalogue=range(12))
        if isnan(rates.sum()) or not rates.any():
            assert isnan(value)
        else:
            assert value == pytest.approx(rates.std() / rates.mean(), rel=1e-12)
