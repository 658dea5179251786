"""``ScoringContext``: lists, truth and train data of a block of users, the argument of every metric."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from evalplugin.base.arrays import NO_ITEM, Codes, Flags, Floats, Ints, row_entries, search
from evalplugin.base.errors import DataError
from evalplugin.metrics.matching import Matches, TruthPairs
from evalplugin.metrics.slates import Shown, Slates
from evalplugin.metrics.train_data import TrainData

if TYPE_CHECKING:
    from evalplugin.data.interactions import Rows

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class RankedItems:
    """Listed items of the truth, by user and then by rank; the gain of every other item is 0.

    ``row`` int64 (h,) position of the user in the block; ``rank`` int64 (h,) from 1; ``gain`` float64 (h,)
    the rating; ``relevant`` bool (h,).
    """

    row: Ints
    rank: Ints
    gain: Floats
    relevant: Flags


@dataclass(frozen=True, eq=False)
class ScoringContext:
    """A block of B users with lists of length N, and their truth.

    ``item`` (B, N): codes of the lists, ``NO_ITEM`` behind the end. ``truth_indptr`` (B + 1,): where each user's
    truth starts in ``truth_item``, ``truth_rating`` and ``truth_relevant`` (t,). ``n_items``: size of the catalogue.
    Where they are known, ``predictions`` (t,) of the truth, ``train``, ``user`` (B,) codes and ``n_candidates`` (B,).
    Of a log of decisions, ``shown``: where and how likely the truth was shown; users are decisions, ratings rewards.
    ``relevant``, ``gain`` and ``listed`` are dense; ``matches``, ``n_hits`` and ``total`` are faster.
    """

    item: Codes  # (B, N) the lists: codes into the catalogue, NO_ITEM behind the end of a short list
    truth_indptr: Ints  # (B + 1,) where each user's truth starts
    truth_item: Codes  # (t,) the user's held-out items
    truth_rating: Floats  # (t,) their gains, of float32 precision
    truth_relevant: Flags  # (t,)
    n_items: int  # size of the catalogue
    predictions: Floats | None = None  # (t,) ratings that the model predicts for the truth
    train: TrainData | None = None
    user: Ints | None = None  # (B,) codes of the users, to look them up in the train data
    n_candidates: Ints | None = None  # (B,) number of items that lists were chosen from; None: the catalogue
    pool: Rows | None = None  # given candidates, by user code; None: lists are chosen by another rule
    matched: Matches | None = None  # the matches, where they are known
    shown: Shown | None = None  # of a truth that is a log of decisions
    read_scores: Callable[[], Floats] | None = field(
        default=None, repr=False
    )  # returns ``score``; None: there are none
    is_logging: bool = False  # whether lists stand for the policy that made the log
    _n_hits: dict[int, Ints] = field(default_factory=dict, init=False, repr=False)
    _made: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def n_users(self) -> int:
        """Number of users in the block, B."""
        return len(self.truth_indptr) - 1

    @property
    def n(self) -> int:
        """Length of the lists, N."""
        return int(self.item.shape[1])

    @cached_property
    def score(self) -> Floats:
        """Score of each listed item, or its probability where lists have these: float64 (B, N), NaN behind the end.

        Raises:
            DataError: A listed item has no finite score.
        """
        score = np.full(self.item.shape, np.nan) if self.read_scores is None else self.read_scores()
        if lacking := int(np.count_nonzero(self.listed & ~np.isfinite(score))):
            raise DataError(
                f"{lacking:,} listed items have no finite score, which the policy of a metric needs: give each listed "
                f"item one, or take policy=greedy"
            )
        return score

    def slates(self, k: int) -> Slates:
        """Return what the decisions showed at positions 1 to k.

        Raises:
            DataError: A decision shows two items at a position.
        """
        assert self.shown is not None, "MetricSpec.needs says so"
        shown = self.shown
        return self.once(("slates", k), lambda: Slates.of(self, shown, k))

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value of the block that several metrics read, made at its first use."""
        if key not in self._made:
            self._made[key] = make()
        value: T = self._made[key]
        return value

    @cached_property
    def listed(self) -> Flags:
        """Positions of the lists with an item: bool (B, N)."""
        return np.not_equal(self.item, NO_ITEM)

    @cached_property
    def n_listed(self) -> Ints:
        """Number of items in each list: int64 (B,)."""
        n_listed: Ints = np.count_nonzero(self.listed, axis=1)
        return n_listed

    @cached_property
    def n_truth(self) -> Ints:
        """Number of items in each user's truth: int64 (B,)."""
        return np.diff(self.truth_indptr)

    @cached_property
    def n_relevant(self) -> Ints:
        """Number of relevant items in each user's truth: int64 (B,)."""
        if self.truth_relevant.all():
            return self.n_truth
        return np.bincount(self.truth_row[self.truth_relevant], minlength=self.n_users)

    @cached_property
    def truth_row(self) -> Ints:
        """The user of each truth item: int64 (t,) positions in the block."""
        return np.repeat(np.arange(self.n_users), self.n_truth)

    @cached_property
    def matches(self) -> RankedItems:
        """The listed items that are in the user's truth, relevant or not."""
        row, rank, truth = self.found.row, self.found.rank, self.found.truth
        return RankedItems(row, rank, self.truth_rating[truth], self.truth_relevant[truth])

    @cached_property
    def found(self) -> Matches:
        """Positions of the matches in lists and truth."""
        return self.truth_pairs.match(self.item) if self.matched is None else self.matched

    @cached_property
    def truth_pairs(self) -> TruthPairs:
        """The truth as pairs in which listed items are looked up."""
        return TruthPairs.of(self.truth_row, self.truth_item, self.n_users)

    @cached_property
    def hits(self) -> RankedItems:
        """The listed items that are relevant."""
        every = self.matches
        if every.relevant.all():
            return every
        hit = np.flatnonzero(every.relevant)
        return RankedItems(every.row[hit], every.rank[hit], every.gain[hit], every.relevant[hit])

    @cached_property
    def hit_number(self) -> Ints:
        """Ordinal of each hit among its user's hits, from 1: int64, as long as ``hits``."""
        row = self.hits.row
        before = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=self.n_users))])
        number: Ints = np.arange(1, len(row) + 1) - before[row]
        return number

    @cached_property
    def ideal(self) -> RankedItems:
        """The best list of the user's truth: highest rating first."""
        rank = np.arange(1, len(self.truth_row) + 1) - np.repeat(self.truth_indptr[:-1], self.n_truth)
        rating = _best_first(self.truth_row, self.truth_rating)
        # The relevant items are those with the highest ratings.
        return RankedItems(self.truth_row, rank, rating, rank <= np.repeat(self.n_relevant, self.n_truth))

    @cached_property
    def parts(self) -> dict[str, ScoringContext]:
        """The same lists with a part of the truth: items that the user has met before, and the others."""
        assert self.train is not None, "MetricSpec.needs says so"
        assert self.user is not None
        met = self.train.has(self.user[self.truth_row], self.truth_item)
        return {"repeat": self._with_truth(met), "explore": self._with_truth(~met)}

    def _with_truth(self, kept: Flags) -> ScoringContext:
        """Return the same lists with those items of the truth that are kept (t,)."""
        counts = np.bincount(self.truth_row[kept], minlength=self.n_users)
        found, position = self.found, np.cumsum(kept) - 1
        stays = kept[found.truth]
        return replace(
            self,
            truth_indptr=np.concatenate([[0], np.cumsum(counts)]),
            truth_item=self.truth_item[kept],
            truth_rating=self.truth_rating[kept],
            truth_relevant=self.truth_relevant[kept],
            predictions=None if self.predictions is None else self.predictions[kept],
            matched=Matches(found.row[stays], found.rank[stays], position[found.truth[stays]]),
            shown=None,
        )

    @cached_property
    def n_relevant_in_pool(self) -> Ints:
        """Number of each user's relevant items in the pool, without one of all: int64 (B,)."""
        if self.pool is None or self.user is None:
            return self.n_relevant
        entries, row = row_entries(self.pool.indptr, self.user)
        pairs = row * self.n_items + self.pool.item[entries]  # ascending
        inside = search(pairs, self.truth_row * self.n_items + self.truth_item)[1]
        return np.bincount(self.truth_row[inside & self.truth_relevant], minlength=self.n_users)

    @cached_property
    def gain(self) -> Floats:
        """Gain at each position of the lists: float64 (B, N), 0 where the item is not in the truth."""
        gain = np.zeros(self.item.shape)
        gain[self.matches.row, self.matches.rank - 1] = self.matches.gain
        return gain

    @cached_property
    def relevant(self) -> Flags:
        """Positions of the lists with a relevant item: bool (B, N)."""
        relevant = np.zeros(self.item.shape, dtype=np.bool_)
        relevant[self.hits.row, self.hits.rank - 1] = True
        return relevant

    def n_hits(self, k: int) -> Ints:
        """Return the number of relevant items in the top k: int64 (B,)."""
        if k not in self._n_hits:
            self._n_hits[k] = np.bincount(self.hits.row[self.hits.rank <= k], minlength=self.n_users)
        return self._n_hits[k]

    def total(self, ranked: RankedItems, value: Floats, k: int | Ints) -> Floats:
        """Return each user's sum of ``value`` (h,) over the ranked items in the top k: float64 (B,).

        ``k`` is one cutoff, or int64 (B,), one a user.
        """
        limit = k if isinstance(k, int) else k[ranked.row]
        weight = np.where(ranked.rank <= limit, value, 0.0)
        return np.bincount(ranked.row, weights=weight, minlength=self.n_users).astype(np.float64, copy=False)

    def weighted_mean(self, weight: Floats, value: Floats, k: int) -> Floats:
        """Return the mean over each user's relevant items of the ``value`` (h,) of hits in the top k: float64 (B,).

        Items are weighted by ``weight`` (n_items,); those that are not in the top k count as 0.
        """
        hits, truth = self.hits, self.found.truth
        of_hits = weight[self.truth_item[truth[self.matches.relevant]]]
        not_found = np.where(self.truth_relevant, weight[self.truth_item], 0.0)
        not_found[truth] = 0.0
        found, others = (
            np.bincount(row, weights=values, minlength=self.n_users)
            for row, values in ((hits.row, of_hits), (self.truth_row, not_found))
        )
        reached, every = self.total(hits, of_hits * value, k), found + others
        mean: Floats = np.divide(reached, every, out=np.zeros(self.n_users), where=every > 0)
        return mean

    def undefined_without_relevant(self, value: Floats) -> Floats:
        """Return ``value`` (B,) with NaN for the users whose truth has no relevant item."""
        return np.where(self.n_relevant > 0, value, np.nan)


def _best_first(row: Ints, rating: Floats) -> Floats:
    """Return ratings (t,) with each user's highest first: one sort of whole numbers, for which there are instructions.

    The bits of a float32 ascend with its value, of a negative one they descend.
    """
    bits = rating.astype(np.float32).view(np.int32)
    key = (row << 32) - (bits ^ (bits >> 31 & 0x7FFFFFFF))
    key.sort()
    bits = ((row << 32) - key).astype(np.int32)
    return (bits ^ (bits >> 31 & 0x7FFFFFFF)).view(np.float32).astype(np.float64)
