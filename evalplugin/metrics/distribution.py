"""The distribution of a metric's values over users, in a form that merges: moments and counts of distinct values."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, Ints
from evalplugin.metrics.clusters import ClusterMoments
from evalplugin.metrics.moments import Moments

DISTINCT = 2**20  # values told apart; their last binary digits are dropped until no more are left
VALUES_BELOW = 2000  # users; from there on, moments are all that an interval needs


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Distinct values and how often each is there.

    Of more than ``DISTINCT`` of them, as many of the last digits of the mantissa are dropped, the same for all, as
    leave at most so many. That number depends on the set of the values alone, hence not on how parts were merged.
    """

    values: Floats = field(default_factory=lambda: np.empty(0))  # (d,) ascending
    counts: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # (d,)
    dropped: int = 0  # binary digits of the mantissas

    @classmethod
    def of(cls, values: Floats) -> ValueCounts:
        """Return the counts of values (n,) without NaN."""
        return cls._of_sorted(np.sort(values + 0.0), None, 0)  # adding makes -0.0 a 0.0

    @classmethod
    def merge(cls, parts: Iterable[ValueCounts]) -> ValueCounts:
        """Return the counts of all parts together."""
        parts = list(parts)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls()
        dropped = max(part.dropped for part in parts)
        values = np.concatenate([_truncated(part.values, dropped) for part in parts])
        order = np.argsort(values, kind="stable")
        counts = np.concatenate([part.counts for part in parts])[order]
        return cls._of_sorted(values[order], counts, dropped)

    @classmethod
    def _of_sorted(cls, values: Floats, counts: Ints | None, dropped: int) -> ValueCounts:
        """Return the counts of values (m,) ascending, each of them ``counts`` times (None: once)."""
        if not len(values):
            return cls()
        start = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
        distinct = values[start]
        if len(distinct) > DISTINCT:
            dropped = _digits_to_drop(distinct)
            return cls._of_sorted(_truncated(values, dropped), counts, dropped)
        if counts is None:
            return cls(distinct, np.diff(np.append(start, len(values))), dropped)
        return cls(distinct, np.add.reduceat(counts, start), dropped)

    def quantiles(self, shares: Floats) -> Floats:
        """Return the quantiles at shares from 0 to 1 (q,), linear between values; NaN without a value."""
        if not len(self.values):
            return np.full(len(shares), np.nan)
        end = np.cumsum(self.counts)
        n = int(end[-1])
        position = shares * (n - 1)
        below = np.floor(position).astype(np.int64)
        at, above = (
            self.values[np.searchsorted(end, np.minimum(i, n - 1), side="right")] for i in (below, below + 1)
        )
        part = position - below
        # From the nearer one, as numpy does: equal to its quantiles to the last bit.
        step = above - at
        return np.where(part >= 0.5, above - step * (1 - part), at + step * part)


def _truncated(values: Floats, dropped: int) -> Floats:
    """Return values without the last ``dropped`` binary digits of their mantissas."""
    if not dropped:
        return values
    bits = values.view(np.int64) & np.int64(-(1 << dropped))
    return bits.view(np.float64) + 0.0


def _digits_to_drop(distinct: Floats) -> int:
    """Return the least number of digits that leave at most ``DISTINCT`` of values (d,), ascending."""
    bits = distinct.view(np.int64)
    differing = (bits[1:] ^ bits[:-1]).view(np.uint64)
    # Neighbours stay apart while their first differing digit is kept.
    apart = [int(np.count_nonzero(differing >> np.uint64(digits))) for digits in range(64)]
    return next(digits for digits, kept in enumerate(apart) if kept < DISTINCT)


class FewValues(NamedTuple):
    """The defined values of few users, and whose they are."""

    users: npt.NDArray[np.generic]  # (n,) raw ids or positions
    values: Floats  # (n,)


@dataclass(frozen=True, eq=False)
class Distribution:
    """A metric's values over users, summarised so that many users fit in memory; it merges exactly, in any order."""

    moments: Moments = field(default_factory=Moments)
    undefined: int = 0  # users for whom it is undefined
    zeros: int = 0  # values that are exactly 0
    counts: ValueCounts = field(default_factory=ValueCounts)
    few: tuple[FewValues, ...] = ()  # all values, while they are fewer than VALUES_BELOW
    clusters: ClusterMoments | None = None  # None: the values are independent

    @classmethod
    def of(
        cls,
        values: Floats,
        users: npt.NDArray[np.generic] | None = None,
        clusters: npt.NDArray[np.integer] | None = None,
    ) -> Distribution:
        """Return the distribution of values.

        Args:
            values: float64 (U,), NaN where undefined.
            users: Raw ids or positions (U,); None: the values of few users are not kept.
            clusters: Codes (U,), equal for values that may depend on each other; None: all are independent.
        """
        is_defined = ~np.isnan(values)
        defined = values[is_defined]
        few: tuple[FewValues, ...] = ()
        if users is not None and 0 < len(defined) < VALUES_BELOW:
            few = (FewValues(users[is_defined], defined),)
        zeros = int(np.count_nonzero(defined == 0))
        counts = ValueCounts.of(defined)
        by_cluster = None
        if clusters is not None:
            _, codes = np.unique(clusters[is_defined], return_inverse=True)
            by_cluster = ClusterMoments.of(defined, codes)
        return cls(Moments.of(defined), len(values) - len(defined), zeros, counts, few, by_cluster)

    @classmethod
    def merge(cls, parts: Iterable[Distribution]) -> Distribution:
        """Return the distribution of all parts together; they have no user in common, and no cluster.

        Raises:
            ValueError: Only some of the parts know their clusters.
        """
        parts = list(parts)
        moments = sum((part.moments for part in parts), Moments())
        clusters = [part.clusters for part in parts if part.clusters is not None]
        if clusters and len(clusters) < len(parts):
            raise ValueError("the clusters of some values are known, but not those of others")
        return cls(
            moments,
            sum(part.undefined for part in parts),
            sum(part.zeros for part in parts),
            ValueCounts.merge(part.counts for part in parts),
            tuple(few for part in parts for few in part.few) if moments.n < VALUES_BELOW else (),
            sum(clusters, ClusterMoments()) if clusters else None,
        )

    @property
    def values(self) -> Floats | None:
        """The defined values in the order of the users, (n,); None where there are too many to be kept."""
        if sum(len(few.values) for few in self.few) != self.moments.n:
            return None
        if not self.few:
            return np.empty(0)
        order = np.argsort(np.concatenate([few.users for few in self.few]), kind="stable")
        return np.concatenate([few.values for few in self.few])[order]

    @property
    def summary(self) -> Summary:
        """Spread and quantiles."""
        quantiles = self.counts.quantiles(np.linspace(0, 1, 101))
        n = self.moments.n
        return Summary(
            n=n,
            undefined=self.undefined,
            mean=self.moments.mean,
            std=self.moments.std,
            p10=float(quantiles[10]),
            p50=float(quantiles[50]),
            p90=float(quantiles[90]),
            zero_share=self.zeros / n if n else math.nan,
            quantiles=quantiles,
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """Distribution of a metric's values over the users for whom it is defined; NaN where these are too few."""

    n: int  # users for whom it is defined
    undefined: int  # users for whom it is undefined
    mean: float
    std: float  # sample standard deviation: divided by n - 1
    p10: float
    p50: float
    p90: float
    zero_share: float  # share of the defined values that are exactly 0
    quantiles: Floats  # (101,) at 0, 1, ... 100 percent, linear between values
