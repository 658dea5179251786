"""Metrics of fairness to groups of items: how unlike the rates are at which items of each group are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import NO_ITEM, Codes, Ints, row_entries
from evalplugin.metrics.base import OverallMetric, metric
from evalplugin.metrics.context import ScoringContext
from evalplugin.metrics.novelty_diversity import TailShare
from evalplugin.metrics.train_data import ItemCategories, TrainData, check_attribute

POPULARITY = "popularity"
_SHOWN = 20  # groups of a sentence


@dataclass(frozen=True)
class ItemGroupMetric(OverallMetric):
    """Standard deviation over mean of the rates of groups of items: listed items / items that could be."""

    higher_is_better = False
    bounds = (0.0, float("inf"))
    needs = ("train",)

    groups: Annotated[
        str, Field(min_length=1, description="Groups of items: popularity (head and tail), or an attribute")
    ] = POPULARITY
    tail: TailShare = 0.8

    def __post_init__(self) -> None:
        """Check that the parameters are compatible; set the needs, which depend on ``groups``."""
        if self.groups != POPULARITY:
            if self.tail != type(self).tail:
                raise ValueError("tail goes with groups=popularity only")
            object.__setattr__(self, "needs", (*self.needs, "item_attributes"))

    def check_attributes(self, items: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Check that the items have the attribute of the groups.

        Raises:
            DataError: They have none of the name; the message has the nearest one.
        """
        if self.groups != POPULARITY:
            check_attribute(self.groups, items)

    def groups_of(self, train: TrainData) -> ItemCategories:
        """Return the groups of the items."""
        return train.head_and_tail(self.tail) if self.groups == POPULARITY else train.categories(self.groups)

    def sizes_note(self, train: TrainData) -> str:
        """Return a sentence with the groups and the numbers of their items, largest first."""
        groups = self.groups_of(train)
        order = np.argsort(-groups.sizes, kind="stable")
        shown = [f"{groups.names[group]} {groups.sizes[group]:,}" for group in order[:_SHOWN]]
        more = [f"{groups.n - _SHOWN} smaller ones"] if groups.n > _SHOWN else []
        by = f"popularity, tail={self.tail:g}" if self.groups == POPULARITY else self.groups
        return f"items of each group by {by}: {', '.join([*shown, *more]) or 'there is no group'}"

    def start(self, n_items: int) -> npt.NDArray[np.generic]:
        """Return no counts: object (1,)."""
        return np.array([None], dtype=object)

    def update(self, state: npt.NDArray[np.generic], context: ScoringContext, k: int) -> None:
        """Add the counts of a block: int64 (2, groups), listed items and items that could be."""
        assert context.train is not None  # `needs` says so
        groups = self.groups_of(context.train)
        state[0] = _sum(state[0], np.stack(self._counts(context, groups, k)))

    def merge(self, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the counts of both."""
        state = self.start(0)
        state[0] = _sum(a[0], b[0])
        return state

    def finish(self, state: npt.NDArray[np.generic]) -> float:
        """Return the standard deviation over the mean; NaN with an empty group, one group or no listed item."""
        if state[0] is None:
            return float("nan")
        listed, possible = state[0]
        if len(listed) < 2 or not possible.all() or not listed.any():
            return float("nan")
        rate = listed / possible
        return float(rate.std() / rate.mean())

    def _counts(self, context: ScoringContext, groups: ItemCategories, k: int) -> tuple[Ints, Ints]:
        """Return the numbers of listed items and of items that could be, by group: int64 (groups,) each."""
        raise NotImplementedError


@metric("popularity_parity")
@dataclass(frozen=True)
class PopularityParity(ItemGroupMetric):
    """Inequality of the rates at which items of each group are listed: 0 where all groups have the same.

    popularity_parity@k = standard deviation / mean over groups g of P(g), with P(g) = listings of items of g in the
    top k / pairs of a user and an item of g that is not in the user's train data, over all users with a list; listed
    items of the user's train data do not count. Groups are those of ``popularity_opportunity``. One number a model.
    Undefined (NaN) where a group is empty or has no pair, with one group, and where no item of any is listed. From 0
    to the root of the number of groups less 1, lower is better.

    Source: Zhu et al., SIGIR 2020 (ranking-based statistical parity, RSP); the PopRSP of Elliot, for groups by
    popularity.

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a"}, {"a"}, {"a"}, {"b"}]  # the head is a and b, the tail c and d
    >>> given = {"truth": [{}] * 4, "train": train, "catalogue": "abcd"}
    >>> evaluate("popularity_parity@1", lists=[["b"], ["c"], ["d"], ["a"]], **given)  # 2 of 4 pairs, 2 of 8
    [0.3333333333333333]
    """

    def _counts(self, context: ScoringContext, groups: ItemCategories, k: int) -> tuple[Ints, Ints]:
        assert context.train is not None and context.user is not None  # `needs` says so
        item = context.item[:, :k]
        row, rank = np.nonzero(item != NO_ITEM)
        listed = item[row, rank]
        listed = listed[~context.train.has(context.user[row], listed)]
        with_list = context.user[context.n_listed > 0]
        known = _by_group(groups, context.train.items_of(with_list))
        return _by_group(groups, listed), groups.sizes * len(with_list) - known


@metric("popularity_opportunity")
@dataclass(frozen=True)
class PopularityOpportunity(ItemGroupMetric):
    """Inequality of the rates at which relevant items of each group are found: 0 where all groups have the same.

    popularity_opportunity@k = standard deviation / mean over groups g of P(g), with P(g) = hits in the top k that are
    of g / relevant items of g, over all users: the recall of a group of items. Groups are the head and the long tail,
    as in ``aplt``, or with ``groups=ATTRIBUTE`` those of an attribute of the items, where an item may be in several
    or none. The deviation is divided by the number of groups. One number a model. Undefined (NaN) where a group is
    empty or has no relevant item, with one group, and without a hit. From 0 to the root of the number of groups less
    1, lower is better.

    Source: Zhu et al., SIGIR 2020 (ranking-based equal opportunity, REO); the PopREO of Elliot, for groups by
    popularity.

    >>> from evalplugin.metrics import evaluate
    >>> train = [{"a"}, {"a"}, {"a"}, {"b"}]  # the head is a and b, the tail c and d
    >>> given = {"truth": [{"b"}, {"c", "d"}], "train": train, "catalogue": "abcd"}
    >>> evaluate("popularity_opportunity@1", lists=[["b"], ["c"]], **given)  # 1 of 1, 1 of 2
    [0.3333333333333333]
    """

    def _counts(self, context: ScoringContext, groups: ItemCategories, k: int) -> tuple[Ints, Ints]:
        relevant = context.truth_relevant
        found = context.found.truth[context.found.rank <= k]
        hit = context.truth_item[found[relevant[found]]]
        return _by_group(groups, hit), _by_group(groups, context.truth_item[relevant])


def _by_group(groups: ItemCategories, item: Ints | Codes) -> Ints:
    """Return how many of the items (m,) are of each group: int64 (groups,)."""
    entries, _ = row_entries(groups.indptr, item)
    return np.bincount(groups.category[entries], minlength=groups.n)


def _sum(a: Any, b: Any) -> Any:
    """Return the sum of two arrays of counts; None stands for no counts yet."""
    return b if a is None else a if b is None else a + b
