"""Filters: what each keeps, what they leave in the vocabularies, what they say, and their contract."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import TINY, small_config

from evalplugin.base.errors import ConfigError, DataError, ParameterError
from evalplugin.components.parameters import as_mapping, parameters_of, schema_of
from evalplugin.data import (
    FILTERS,
    Filter,
    Interactions,
    KCore,
    Kept,
    MinCount,
    Period,
    RatingRange,
    filtered,
)
from evalplugin.data.attributes import Attributes
from evalplugin.features.config import load
from evalplugin.testing import check_filter

PARAMS: dict[str, dict[str, Any]] = {
    "k_core": {"k": 4},
    "min_count": {"users": 6, "items": 10},
    "rating": {"min": 2.5, "max": 4},
    "period": {"from": 200, "to": 800},
}


def made(pairs: list[tuple[int, int]]) -> Interactions:
    frame = pd.DataFrame(pairs, columns=["user", "item"])
    frame["rating"] = np.arange(len(frame)) % 5 + 1.0
    frame["time"] = np.arange(len(frame))
    return Interactions.from_frame(frame, rating="rating", timestamp="time")


def pairs_of(data: Interactions) -> set[tuple[int, int]]:
    return set(zip(data.users[data.user].tolist(), data.items[data.item].tolist(), strict=True))


def plain_core(pairs: set[tuple[int, int]], k: int) -> set[tuple[int, int]]:
    """The definition: leave out whoever has too few, until nobody has."""
    while True:
        users, items = [user for user, _ in pairs], [item for _, item in pairs]
        left = {(u, i) for u, i in pairs if users.count(u) >= k and items.count(i) >= k}
        if left == pairs:
            return left
        pairs = left


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=70, unique=True),
    st.integers(2, 5),
)
def test_k_core_is_what_repeated_counting_leaves(pairs: list[tuple[int, int]], k: int) -> None:
    data = made(pairs)
    kept = KCore(k).keep(data).mask
    assert pairs_of(data.select(kept)) == plain_core(set(pairs), k)


def test_k_core_of_a_chain_peels_it_from_both_ends() -> None:
    chain = [(i // 2 + i % 2, i // 2) for i in range(20)]  # user 0 - item 0 - user 1 - item 1 - ...
    square = [(50, 50), (50, 51), (51, 50), (51, 51)]
    kept = KCore(2).keep(made(chain + square))
    assert kept.mask.sum() == 4
    assert kept.detail == "10 rounds"


def test_min_count_counts_both_once_before_anything_is_left_out() -> None:
    # Item 9 has one interaction; without it, user 1 has one.
    data = made([(0, 0), (0, 1), (1, 0), (1, 9), (2, 1), (2, 0)])
    assert pairs_of(data.restrict(MinCount(users=2, items=2).keep(data).mask)) == {
        (0, 0), (0, 1), (1, 0), (2, 1), (2, 0)
    }  # fmt: skip
    one_by_one = filtered(data, [("min_count", MinCount(items=2)), ("min_count", MinCount(users=2))])
    assert pairs_of(one_by_one) == {(0, 0), (0, 1), (2, 1), (2, 0)}


def test_rating_and_period_state_which_ends_are_included() -> None:
    data = made([(0, item) for item in range(5)])  # ratings 1 to 5, times 0 to 4
    assert RatingRange(min=2, max=4).keep(data).mask.tolist() == [False, True, True, True, False]
    assert Period(1, 3).keep(data).mask.tolist() == [False, True, True, False, False]
    assert Period(to=3).keep(data).mask.tolist() == [True, True, True, False, False]
    low = replace(data, rating=np.full(5, 3.3, dtype=np.float32))
    assert RatingRange(min=3.3, max=3.3).keep(low).mask.all()  # ratings are float32


def test_period_compares_dates_in_utc() -> None:
    day = 1_735_689_600  # 2025-01-01
    data = replace(made([(0, 0), (0, 1), (0, 2)]), timestamp=np.array([day - 1, day, day + 86_400]))
    assert Period("2025-01-01", "2025-01-02").keep(data).mask.tolist() == [False, True, False]
    assert Period("2025-01-01T01:00:00+01:00").keep(data).mask.tolist() == [False, True, True]


def test_users_and_items_that_are_left_out_leave_the_vocabularies() -> None:
    data = made([(10, 5), (10, 6), (11, 6), (12, 7)])
    data = replace(
        data,
        titles=np.array(["five", "six", "seven"], dtype=object),
        item_attributes=Attributes({"price": np.array([5.0, 6.0, 7.0])}),
        user_attributes=Attributes({"age": np.array([10.0, 11.0, 12.0])}),
        notes=("a note",),
    )
    left = filtered(data, [("min_count", MinCount(items=2))])
    assert left.users.tolist() == [10, 11]
    assert left.items.tolist() == [6]
    assert left.user.tolist() == [0, 1]
    assert left.user.dtype == left.item.dtype == np.int32
    assert left.titles is not None and left.titles.tolist() == ["six"]
    assert left.item_attributes["price"].tolist() == [6.0]
    assert left.user_attributes["age"].tolist() == [10.0, 11.0]
    assert left.notes == (
        "a note",
        "filter min_count (items: 2): 2 of 4 interactions left out, 1 of 3 users, 2 of 3 items",
    )


def test_filters_run_in_their_order_with_a_note_each() -> None:
    data = made([(user, item) for user in range(4) for item in range(4)])
    first, second = ("rating", RatingRange(min=2)), ("k_core", KCore(4))
    assert len(filtered(data, [second, first])) == 12
    with pytest.raises(DataError, match=r"^filter k_core \(k: 4\) leaves nothing: there are 12 interactions"):
        filtered(data, [first, second])
    assert [note.partition(":")[0] for note in filtered(data, [second, first]).notes] == [
        "filter k_core (k", "filter rating (min"
    ]  # fmt: skip


def test_a_filter_that_leaves_nothing_says_what_there_is() -> None:
    data = made([(0, 0), (0, 1), (1, 0)])
    with pytest.raises(DataError) as caught:
        filtered(data, [("k_core", KCore(5))])
    assert str(caught.value) == (
        "filter k_core (k: 5) leaves nothing: there are 3 interactions of 2 users (the most active has 2) with 2 items "
        "(the most popular has 2), ratings from 1 to 3, timestamps from 0 to 2"
    )
    dated = replace(data, timestamp=np.array([1_735_689_600, 1_735_689_600, 1_767_225_600]))
    with pytest.raises(DataError, match=r"from 1735689600 \(2025-01-01\) to 1767225600 \(2026-01-01\)"):
        filtered(dated, [("period", Period("2027-01-01"))])


def test_period_needs_timestamps() -> None:
    data = replace(made([(0, 0)]), timestamp=None)
    with pytest.raises(DataError, match=r"^filter period \(to: 9\): needs timestamps, and the data has none"):
        filtered(data, [("period", Period(to=9))])


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("k_core", {"k": 1}, "greater than or equal to 2"),
        ("min_count", {}, "min_count takes users, items or both"),
        ("rating", {}, "rating takes min, max or both"),
        ("rating", {"min": 4, "max": 3}, "min must be at most max, not 4 with max: 3"),
        ("period", {}, "period takes from, to or both"),
        ("period", {"from": "2025-02-01", "to": "2025-01-01"}, "from must be before to"),
        ("period", {"from": "January"}, "from must be a timestamp or an ISO 8601 date such as 2020-01-31"),
        ("period", {"since": 3}, "unknown parameter 'since' of period; allowed: from, to"),
    ],
)
def test_parameters_that_make_no_filter_are_refused(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        FILTERS.create(name, params)
    assert message in str(caught.value)


def test_a_parameter_may_have_the_name_of_a_keyword() -> None:
    period = FILTERS.create("period", {"from": 3})
    assert period == Period(from_=3)
    assert as_mapping(period) == {"from": 3, "to": None}
    assert [one.name for one in parameters_of(Period)] == ["from", "to"]
    assert set(schema_of(Period)["properties"]) == {"from", "to"}


def test_filters_of_a_config_are_checked_and_change_its_hash() -> None:
    plain = load(small_config())
    assert "filters" not in plain.resolved["datasets"][0]
    with_filter = load(small_config(datasets=[{**TINY, "filters": [{"type": "k_core", "k": 3}, "k_core"]}]))
    assert with_filter.resolved["datasets"][0]["filters"] == [
        {"type": "k_core", "k": 3},
        {"type": "k_core", "k": 5},
    ]
    assert with_filter.hash != plain.hash
    assert load(small_config(datasets=[{**TINY, "filters": []}])).hash == plain.hash
    assert load(with_filter.resolved).resolved == with_filter.resolved
    with pytest.raises(ConfigError) as caught:
        load(small_config(datasets=[{**TINY, "filters": [{"type": "k-core"}, {"type": "rating", "mni": 3}]}]))
    assert list(caught.value.lines) == [
        "python: datasets[0].filters[0]: unknown filter 'k-core'; did you mean 'k_core'?",
        "python: datasets[0].filters[1].mni: unknown parameter 'mni' of rating; did you mean 'min'?",
    ]


@pytest.mark.parametrize("name", FILTERS.names())
def test_every_registered_filter_keeps_the_contract(name: str) -> None:
    check_filter(name, **PARAMS.get(name, {}))


@dataclass
class Broken:
    """A filter that breaks one rule."""

    depends_on_others: ClassVar[bool] = False

    rule: str

    def keep(self, data: Interactions) -> Kept:
        """Return a mask as the rule says."""
        if self.rule == "shape":
            return Kept(np.ones(3, dtype=np.bool_))
        if self.rule == "type":
            return Kept(np.ones(len(data), dtype=np.int64))
        if self.rule == "global state":
            return Kept(np.random.random(len(data)) < 0.5)  # noqa: NPY002
        if self.rule == "order":
            return Kept(np.arange(len(data)) % 2 == 0)
        if self.rule == "others":
            return Kept(data.timestamp < np.median(data.timestamp))
        rating = data.rating.base
        rating.flags.writeable = True
        rating[0] += 1
        return Kept(np.ones(len(data), dtype=np.bool_))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("shape", "the mask must be bool"),
        ("type", "the mask must be bool"),
        ("global state", "the same data must give the same mask"),
        ("order", "the order of rows must not matter"),
        ("others", "declare depends_on_others"),
        ("changes", "the data must stay as it is"),
    ],
)
def test_the_contract_finds_each_broken_rule(rule: str, message: str) -> None:
    filter: type[Filter] = Broken
    with pytest.raises(AssertionError, match=message):
        check_filter(filter, rule=rule)
