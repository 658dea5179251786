"""Hit rates by popularity of items: arithmetic, and what they do not depend on."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.report.hit_rates import HitRates, hit_rates_of

# Counts of items: train, truth, hit. Two items a group; the last item is in no relevant truth.
ITEMS = [
    (0, 1, 0), (0, 2, 0), (3, 1, 1), (4, 1, 0), (5, 4, 1), (5, 1, 0), (9, 2, 1), (9, 2, 2), (20, 10, 9), (30, 5, 5),
    (99, 0, 0),
]  # fmt: skip


def table(items: list[tuple[int, int, int]]) -> pa.Table:
    train, truth, hit = zip(*items, strict=True)
    return pa.table({"item": range(len(items)), "train": train, "truth": truth, "listed": hit, "hit": hit})


def shares(rates: HitRates, model: str) -> list[float]:
    return [hit / truth for hit, truth in zip(rates.hits[model], rates.truth, strict=True)]


def test_hit_rates_by_hand() -> None:
    nothing = [(train, truth, 0) for train, truth, _ in ITEMS]
    rates = hit_rates_of({"knn": table(ITEMS), "none": table(nothing)})
    assert rates.labels == ("0", "3-4", "5", "9", "20-30")
    assert rates.items == (2, 2, 2, 2, 2)
    assert rates.truth == (1 + 2, 1 + 1, 4 + 1, 2 + 2, 10 + 5)
    assert rates.hits == {"knn": (0, 1, 1, 3, 14), "none": (0,) * 5}
    assert shares(rates, "knn") == [0 / 3, 1 / 2, 1 / 5, 3 / 4, 14 / 15]


def test_equally_popular_items_stay_together() -> None:
    rates = hit_rates_of({"knn": table([(7, 1, 1)] * 9 + [(8, 1, 0)])})
    assert rates is not None
    assert (rates.labels, rates.items, shares(rates, "knn")) == (("7", "8"), (9, 1), [1.0, 0.0])


def test_there_are_none_without_counts_without_truth_or_of_different_truths() -> None:
    assert hit_rates_of({}) is None
    assert hit_rates_of({"knn": table([(3, 0, 0)])}) is None
    others = [(train, truth + 1, hit) for train, truth, hit in ITEMS]
    assert hit_rates_of({"knn": table(ITEMS), "of others": table(others)}) is None


counts = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(0, 4)).map(
        lambda c: (c[0], c[1], min(c[1:]))
    ),
    min_size=1,
    max_size=30,
).filter(lambda items: any(truth for _, truth, _ in items))


@given(counts, st.randoms(use_true_random=False))
def test_groups_divide_the_truth_in_any_order_of_items(items, random):
    rates = hit_rates_of({"knn": table(items)})
    assert sum(rates.items) == sum(truth > 0 for _, truth, _ in items)
    assert sum(rates.truth) == sum(truth for _, truth, _ in items)
    assert sum(rates.hits["knn"]) == sum(hit for _, _, hit in items)
    assert all(rates.truth)
    assert all(0 <= rate <= 1 for rate in shares(rates, "knn"))
    shuffled = list(items)
    random.shuffle(shuffled)
    again = hit_rates_of({"knn": table(shuffled), "same": table(items)})
    assert again is not None
    assert again == dataclasses.replace(rates, hits=dict.fromkeys(("knn", "same"), rates.hits["knn"]))


@pytest.mark.parametrize("items", [0, 5])
def test_items_that_are_listed_and_in_no_truth_change_nothing(items: int) -> None:
    assert hit_rates_of({"knn": table(ITEMS + [(1, 0, 0)] * items)}) == hit_rates_of({"knn": table(ITEMS)})
