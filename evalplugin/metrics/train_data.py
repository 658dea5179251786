"""Views of the train data for metrics: popularity, self-information, cosines and categories of items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Codes, Flags, Floats, Ints, row_entries, search
from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pd, sparse
from evalplugin.metrics.rewards import RewardModel

if TYPE_CHECKING:
    from evalplugin.data.attributes import Attributes
    from evalplugin.data.interactions import Interactions

T = TypeVar("T")

_SEPARATOR = "|"  # between the categories of one item
_WORDS = 2**6  # of 64 users whose items are compared at a time; their number fits into uint16
_PAIR_WORDS = 2**16  # words of pairs of items that are compared at a time


def check_attribute(attribute: str, items: Mapping[str, npt.NDArray[np.generic]]) -> None:
    """Check that items have an attribute.

    Raises:
        DataError: They have none of the name; the message has the nearest one.
    """
    if not items:
        raise DataError(
            f"needs the attribute {attribute!r} of the items, and these have no attributes: name a table of them in "
            f"the dataset, such as items: {{path: items.csv}}; MovieLens has its genres with genres: true"
        )
    if attribute not in items:
        hint = did_you_mean(attribute, list(items), noun="columns")
        raise DataError(f"the items of the dataset: no column {attribute!r}{hint}")


@dataclass(frozen=True, eq=False)
class ItemCategories:
    """The categories of each item, as compressed sparse rows. An item counts as one, divided among its categories."""

    n: int  # number of different categories
    indptr: Ints  # (n_items + 1,) where each item's categories start
    category: Ints  # (c,) codes below n
    weight: Floats  # (c,) 1 / number of the item's categories
    names: tuple[str, ...]  # of the categories, by code

    @classmethod
    def of(cls, values: npt.NDArray[np.generic]) -> ItemCategories:
        """Return the categories of items (n_items,) from an attribute.

        A text is divided at ``|``, where empty and repeated parts do not count; a number is a category of its own. An
        item whose value is unknown (None, NaN) has no category.
        """
        code, distinct = pd.factorize(values)  # -1: unknown
        parts = [_parts(value) for value in distinct.tolist()]
        names = sorted({part for some in parts for part in some})
        code_of = {name: number for number, name in enumerate(names)}
        flat = np.array([code_of[part] for some in parts for part in some], dtype=np.int64)
        count = np.array([*map(len, parts), 0], dtype=np.int64)  # the last one counts for unknown values
        start = np.concatenate([[0], np.cumsum(count)])
        entries, item = row_entries(start, np.where(code < 0, len(parts), code))
        indptr = np.concatenate([[0], np.cumsum(count[code])])
        return cls(len(names), indptr, flat[entries], 1.0 / count[code][item], tuple(names))

    @classmethod
    def head_and_tail(cls, is_tail: Flags) -> ItemCategories:
        """Return two categories, of the items that are not in the tail (n_items,) and of those that are."""
        n_items = len(is_tail)
        return cls(
            2, np.arange(n_items + 1), is_tail.astype(np.int64), np.ones(n_items), names=("head", "tail")
        )

    @property
    def sizes(self) -> Ints:
        """Number of items of each category: int64 (n,)."""
        return np.bincount(self.category, minlength=self.n)

    def of_lists(self, item: Codes) -> tuple[Ints, Ints, Floats]:
        """Return user (position), category and weight of every category of every listed item, by user and then rank.

        ``item`` (B, K), NO_ITEM behind the end.
        """
        row, rank = np.nonzero(item != NO_ITEM)
        entries, listed = row_entries(self.indptr, item[row, rank])
        return row[listed], self.category[entries], self.weight[entries]

    def n_items_of_lists(self, item: Codes) -> Ints:
        """Return the number of items with a category in each list: int64 (B,)."""
        with_category = np.append(np.diff(self.indptr) > 0, False)  # NO_ITEM is the last
        n_items: Ints = np.count_nonzero(with_category[item], axis=1)
        return n_items


def _is_tail(counts: Ints, share: float) -> Flags:
    descending = np.sort(counts)[::-1]
    # A share such as 0.8 is not exact in binary: a millionth of an interaction is rounding.
    last = np.searchsorted(np.cumsum(descending), share * descending.sum() - 1e-6)
    least = int(descending[last : last + 1].max(initial=1))  # an item without interactions is in no head
    return np.less(counts, least)


def _parts(value: object) -> list[str]:
    if not isinstance(value, str):
        return [repr(value)]
    return list(dict.fromkeys(part.strip() for part in value.split(_SEPARATOR) if part.strip()))


@dataclass(frozen=True, eq=False)
class CategoryShares:
    """How each user's history divides into categories, as compressed sparse rows; categories ascend."""

    indptr: Ints  # (n_users + 1,)
    category: Ints  # (s,)
    share: Floats  # (s,) above 0; of each user with a categorised item they add up to 1

    @classmethod
    def of(cls, data: Interactions, categories: ItemCategories) -> CategoryShares:
        """Return the shares of all users: every item with a category weighs the same, whatever its rating."""
        rows = data.rows
        has = (np.ones(len(rows.item)), rows.item, rows.indptr)
        shape = (data.n_items, categories.n)
        weights = sparse.csr_array((categories.weight, categories.category, categories.indptr), shape=shape)
        table: sparse.csr_array = sparse.csr_array(has, shape=(data.n_users, data.n_items)) @ weights  # type: ignore[assignment]
        table.sort_indices()
        categorised = (np.diff(categories.indptr) > 0)[rows.item]
        owner = np.repeat(np.arange(data.n_users), rows.counts)
        n_items = np.bincount(owner[categorised], minlength=data.n_users)
        indptr = table.indptr.astype(np.int64)
        share = table.data / np.repeat(n_items, np.diff(indptr))
        return cls(indptr, table.indices.astype(np.int64), share)


class TrainData:
    """Views of the train data, each computed at its first use and cached for all blocks."""

    def __init__(
        self, data: Interactions, known: Interactions | None = None, shown: Interactions | None = None
    ) -> None:
        """Begin with the train data.

        Args:
            data: The train data.
            known: Of single users, if that is more than their train data.
            shown: The log of decisions that the train data was made of, on the same items; None: there is none.
        """
        self._data, self._known, self.shown = data, data if known is None else known, shown
        self._lock = RLock()
        self._views: dict[tuple[str, object], Any] = {}

    def _once(self, name: str, parameter: object, make: Callable[[], T]) -> T:
        """Return a view that depends on a parameter, made at its first use."""
        with self._lock:
            if (name, parameter) not in self._views:
                self._views[name, parameter] = make()
            view: T = self._views[name, parameter]
            return view

    @cached_property
    def n_users(self) -> int:
        """Number of users with any interaction."""
        return int(np.count_nonzero(np.bincount(self._data.user, minlength=1)))

    @property
    def counts(self) -> Ints:
        """Number of users who have each item: int64 (n_items,)."""
        return self._data.item_counts

    @cached_property
    def _pairs(self) -> Ints:
        return self._known.pairs()

    def has(self, user: Ints, item: npt.NDArray[np.integer]) -> Flags:
        """Return whether each user has interacted with an item: bool, one a pair."""
        return search(self._pairs, user * self._data.n_items + item)[1]

    @property
    def item_attributes(self) -> Attributes:
        """Attributes of the items, in the order of their codes, from the dataset's table of items."""
        return self._data.item_attributes

    def categories(self, attribute: str) -> ItemCategories:
        """Return the categories of the items by one of their attributes.

        Raises:
            DataError: The items have no such attribute.
        """
        check_attribute(attribute, self.item_attributes)
        values = self.item_attributes[attribute]
        return self._once("categories", attribute, lambda: ItemCategories.of(values))

    def history_shares(self, attribute: str) -> CategoryShares:
        """Return how each user's items divide into the categories of an attribute.

        Raises:
            DataError: The items have no such attribute.
        """
        categories = self.categories(attribute)
        return self._once("history", attribute, lambda: CategoryShares.of(self._known, categories))

    def inverse_propensity(self, power: float) -> Floats:
        """Return 1 / popularity^power of each item: float64 (n_items,), known up to a factor.

        An item without interactions counts as one user's.
        """
        counts = np.maximum(self.counts, 1)
        return self._once("weights", power, lambda: counts.astype(np.float64) ** -power)

    def rewards_at(self, position: int) -> Floats:
        """Return the reward to be expected of each item at a position, by the log of decisions: float64 (n_items,)."""
        assert self.shown is not None, "MetricSpec.needs says so"
        shown = self.shown
        model = self._once("rewards", None, lambda: RewardModel.of(shown))
        return self._once("rewards at", position, lambda: model.at(position))

    def is_tail(self, share: float) -> Flags:
        """Return whether each item is outside of the head: bool (n_items,).

        The head is the fewest most popular items that hold a ``share`` of the interactions, with all that are as
        popular as the last of them.
        """
        return self._once("tail", share, lambda: _is_tail(self.counts, share))

    def head_and_tail(self, share: float) -> ItemCategories:
        """Return the two groups of the items by popularity, the head and the tail of ``is_tail``."""
        return self._once("head and tail", share, lambda: ItemCategories.head_and_tail(self.is_tail(share)))

    def items_of(self, user: Ints) -> Codes:
        """Return the different items that each user has interacted with, one user's after the other's: (m,)."""
        rows = self._known.rows
        entries, row = row_entries(rows.indptr, user)
        item = rows.item[entries]
        again = (item[1:] == item[:-1]) & (row[1:] == row[:-1])  # items of a row ascend
        different: Codes = item[np.append(True, ~again)[: len(item)]]
        return different

    @cached_property
    def information(self) -> Floats:
        """Self-information of each item, -log2 of the share of users who have it: float64 (n_items,).

        An item without interactions counts as one user's.
        """
        information: Floats = -np.log2(np.maximum(self.counts, 1) / max(self.n_users, 1))
        return np.maximum(information, 0.0)  # no -0.0 where all users have the item

    @cached_property
    def _n_more_popular(self) -> Ints:
        ascending = np.sort(self.counts)
        return len(ascending) - np.searchsorted(ascending, self.counts, side="right")

    def popularity_rank(self, user: Ints, item: npt.NDArray[np.integer]) -> Ints:
        """Return the popularity rank, from 1, of an item among the items that are not the user's: int64, one a pair.

        Equally popular items share a rank. An item of the user's own has no rank: the result is the size of
        the catalogue plus 1.
        """
        rows, counts = self._known.rows, self.counts
        distinct, row = np.unique(user, return_inverse=True)
        entries, owner = row_entries(rows.indptr, distinct)
        owned = rows.item[entries]
        end = np.cumsum(rows.counts[distinct])
        stride = int(counts.max(initial=0)) + 1
        popularity = np.sort(owner * stride + counts[owned])
        more = end[row] - np.searchsorted(popularity, row * stride + counts[item], side="right")
        rank = self._n_more_popular[item] - more + 1
        known = owner * len(counts) + owned  # ascending, as owners and their items are
        _, is_owned = search(known, row * len(counts) + item)
        return np.where(is_owned, len(counts) + 1, rank)

    def cosine(self, first: npt.NDArray[np.integer], second: npt.NDArray[np.integer]) -> Floats:
        """Return the cosine between the users of two items, for many pairs: float64, one a pair.

        It is the number of users of both, divided by the geometric mean of the numbers of users of each; 0 where
        one of them has no user.
        """
        n_items = len(self.counts)
        pair = np.minimum(first, second).astype(np.int64) * n_items + np.maximum(first, second)
        different, position = np.unique(pair, return_inverse=True)
        low, high = np.divmod(different, n_items)
        size = np.sqrt(self.counts[low].astype(np.float64) * self.counts[high])
        both = self._users_of_both(low, high)
        return np.divide(both, size, out=np.zeros(len(size)), where=size > 0)[position]

    def _users_of_both(self, first: Ints, second: Ints) -> Ints:
        """Return the number of users who have both items, for many pairs: int64, one a pair.

        The users of each item are bits, some of them at a time, so that memory is bounded.
        """
        items, position = np.unique(np.concatenate([first, second]), return_inverse=True)
        left, right = np.split(position, 2)
        row_of_item = np.full(self._data.n_items, -1)
        row_of_item[items] = np.arange(len(items))
        both = np.zeros(len(first), dtype=np.int64)
        step = _PAIR_WORDS // _WORDS
        for low in range(0, self._data.n_users, 64 * _WORDS):
            bits = self._bits(row_of_item, len(items), low)
            for start in range(0, len(both), step):
                part = slice(start, start + step)
                words = bits.take(left[part], axis=0)
                words &= bits.take(right[part], axis=0)
                both[part] += np.bitwise_count(words).sum(axis=1, dtype=np.uint16)
        return both

    def _bits(self, row_of_item: Ints, n_rows: int, low: int) -> npt.NDArray[np.uint64]:
        """Return a bit for each of the users from ``low`` on who has an item: uint64 (n_rows, _WORDS).

        ``row_of_item`` (n_items,) is -1 for items that are not needed.
        """
        rows = self._data.rows
        counts = rows.counts[low : low + 64 * _WORDS]
        first = int(rows.indptr[low])
        row = row_of_item[rows.item[first : first + int(counts.sum())]]
        user = np.repeat(np.arange(len(counts)), counts)[row >= 0]
        bits = np.zeros((n_rows, _WORDS), dtype=np.uint64)
        np.bitwise_or.at(bits, (row[row >= 0], user // 64), np.uint64(1) << (user % 64).astype(np.uint64))
        return bits
