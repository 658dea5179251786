"""Exact sums over clusters of values that are not independent, such as the queries of a session."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from evalplugin.base.arrays import Floats, Ints
from evalplugin.metrics.moments import Moments


class SumsOfSize(NamedTuple):
    """Exact sums over the clusters of one size."""

    clusters: int
    units: int = 0  # of the clusters' sums, in units of 2 ** -1074
    squares: int = 0  # of their squares, in units of 2 ** -2148

    def plus(self, other: SumsOfSize) -> SumsOfSize:
        """Return the sums over the clusters of both."""
        return SumsOfSize(*(a + b for a, b in zip(self, other, strict=True)))


class Alike(NamedTuple):
    """The clusters all of whose values are equal to an extreme one; ``value`` is the candidate for it."""

    value: float
    clusters: int = 0
    values: int = 0


@dataclass(frozen=True)
class ClusterMoments:
    """The sums from which the interval of a clustered mean follows; they merge exactly, in any order.

    Parts must have no cluster in common: the sum of a cluster is rounded once, so all its values must be in one part.
    """

    values: Moments = field(default_factory=Moments)  # of the single values
    sums: Mapping[int, SumsOfSize] = field(default_factory=dict)  # by the number of a cluster's values
    low: Alike = field(default_factory=lambda: Alike(math.inf))  # the lowest of the clusters' highest values
    high: Alike = field(
        default_factory=lambda: Alike(-math.inf)
    )  # the highest of the clusters' lowest values

    @classmethod
    def of(cls, values: Floats, clusters: Ints) -> ClusterMoments:
        """Return the moments of values (n,) without NaN in clusters (n,), codes from 0 on that are all there."""
        if not len(values):
            return cls()
        sizes = np.bincount(clusters)
        sums = cluster_sums(values, clusters)
        lowest, highest = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
        np.minimum.at(lowest, clusters, values)
        np.maximum.at(highest, clusters, values)
        low, high = float(highest.min()), float(lowest.max())
        return cls(
            Moments.of(values),
            dict(_by_size(sums, sizes)),
            Alike(low, int(np.count_nonzero(highest == low)), int(sizes[highest == low].sum())),
            Alike(high, int(np.count_nonzero(lowest == high)), int(sizes[lowest == high].sum())),
        )

    def __add__(self, other: ClusterMoments) -> ClusterMoments:
        sums = {
            size: self.sums.get(size, SumsOfSize(0)).plus(other.sums.get(size, SumsOfSize(0)))
            for size in sorted(self.sums.keys() | other.sums.keys())
        }
        low = _merged(self.low, other.low, min(self.low.value, other.low.value))
        high = _merged(self.high, other.high, max(self.high.value, other.high.value))
        return ClusterMoments(self.values + other.values, sums, low, high)

    @cached_property
    def clusters(self) -> int:
        """The number of clusters with a value."""
        return sum(sums.clusters for sums in self.sums.values())

    @property
    def is_single(self) -> bool:
        """Whether every cluster has one value."""
        return self.clusters == self.values.n

    @property
    def all_lowest(self) -> Alike:
        """The clusters that have the lowest value only."""
        return self.low if self.low.value == self.values.lowest else Alike(self.values.lowest)

    @property
    def all_highest(self) -> Alike:
        """The clusters that have the highest value only."""
        return self.high if self.high.value == self.values.highest else Alike(self.values.highest)


def cluster_sums(values: Floats, clusters: Ints) -> Floats:
    """Return the sum of each cluster (C,) of values (n,); ``clusters`` (n,) are codes from 0 on."""
    with np.errstate(invalid="ignore"):  # of opposite infinities
        return np.bincount(clusters, weights=values).astype(np.float64, copy=False)


def _by_size(sums: Floats, sizes: Ints) -> Iterator[tuple[int, SumsOfSize]]:
    order = np.argsort(sizes, kind="stable")
    distinct, start = np.unique(sizes[order], return_index=True)
    for size, group in zip(distinct.tolist(), np.split(sums[order], start[1:]), strict=True):
        finite = group[np.isfinite(group)]
        moments = Moments.of(finite)
        yield size, SumsOfSize(len(group), moments.sum.units, moments.squares)


def _merged(a: Alike, b: Alike, value: float) -> Alike:
    parts = [part for part in (a, b) if part.value == value]
    return Alike(value, sum(part.clusters for part in parts), sum(part.values for part in parts))
