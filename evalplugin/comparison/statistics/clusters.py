"""Clusters of values that are not independent: the queries of a session or of a user.

The mean over queries is a ratio: the sum of the clusters' sums S over the sum of their sizes n. Its residuals, S less
n times the mean, are one value for each cluster, and clusters are independent. So clusters are the units of all
statistics, which take either these linearized values or, for the standard error, the exact sums of ``ClusterMoments``.

Residuals of large clusters are too small, as these clusters pull the mean to themselves: they are divided by the root
of 1 - n / N, N being the number of all values (Bell and McCaffrey 2002, "Bias reduction in standard errors for linear
regression with multi-stage samples", CR2). Student's t then has as many degrees of freedom as the variance has by
Satterthwaite's approximation, if values of a cluster correlate as the design effect says. With clusters of one size
this is Student's t over cluster means.

The mean over clusters needs none of this: ``cluster_means`` are independent values as any others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, Ints
from evalplugin.base.errors import DataError
from evalplugin.metrics.clusters import ClusterMoments, cluster_sums
from evalplugin.metrics.moments import ROUNDING

# Effective number of clusters of unequal size from which intervals of means held in 93 % and more where scores depend
# on the size, but for sizes whose largest are in hardly any sample (experiments/statistics, unequal_clusters.md).
RELIABLE_FROM = 100


@dataclass(frozen=True)
class ClusterSpread:
    """The chance in a mean over values that are in clusters; NaN below two clusters or where values do not differ."""

    values: int
    clusters: int
    design_effect: float  # variance of the mean over the one that it had if all values were independent
    error: float  # standard error of the mean
    degrees: float  # of freedom of that
    # Number of clusters of one size whose mean varies as much, if the values of a cluster are all equal (Kish 1965).
    effective: float
    modelled: float  # design effect of clusters of these sizes whose values correlate as the analysis of variance says

    @property
    def sd(self) -> float:
        """The standard deviation between as many independent values as there are clusters, with this error."""
        return self.error * math.sqrt(self.clusters)


@dataclass(frozen=True, eq=False)
class Clustered:
    """The values of one column by cluster, in the order of the clusters' first values."""

    sums: Floats  # (C,), 0 where values cancel but for rounding
    sizes: Ints  # (C,)
    moments: ClusterMoments

    @classmethod
    def of(cls, values: Floats, clusters: Ints) -> Clustered:
        """Return values (n,) without NaN in clusters (n,), codes as of ``clusters_in_order``."""
        sums = cluster_sums(values, clusters)
        with np.errstate(invalid="ignore"):  # of infinite values
            cancel = np.abs(sums) <= ROUNDING * cluster_sums(np.abs(values), clusters)
        sums[np.isfinite(sums) & cancel] = 0
        return cls(sums, np.bincount(clusters), ClusterMoments.of(values, clusters))

    @cached_property
    def spread(self) -> ClusterSpread:
        """The chance in the mean of the values."""
        return cluster_spread(self.moments)

    @cached_property
    def residuals(self) -> Floats:
        """The sum of each cluster less that expected from its size (C,); 0 where they differ by rounding alone."""
        expected = self.moments.values.mean * self.sizes
        residuals: Floats = self.sums - expected
        residuals[np.abs(residuals) <= ROUNDING * np.maximum(np.abs(self.sums), np.abs(expected))] = 0
        return residuals

    @property
    def linearized(self) -> Floats:
        """Values of clusters (C,), of which mean and standard error are those of the mean over all values.

        They are linear in the values: the linearized values of a difference are differences of linearized values.
        """
        n_clusters, n_values, mean = len(self.sizes), int(self.sizes.sum()), self.moments.values.mean
        if n_clusters < 2:
            return np.full(n_clusters, mean)
        corrected = self.residuals / np.sqrt((1 - self.sizes / n_values) * (n_clusters / (n_clusters - 1)))
        linearized: Floats = mean + (corrected - corrected.mean()) * (n_clusters / n_values)
        return linearized


def clusters_in_order(clusters: npt.NDArray[np.integer]) -> Ints | None:
    """Return the clusters (n,) as codes from 0 on in the order of their first values; None if all have one value.

    So neither the codes that they are given as nor clusters without a value change anything.
    """
    _, first, code = np.unique(clusters, return_index=True, return_inverse=True)
    if len(first) == len(clusters):
        return None
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    ordered: Ints = rank[code]
    return ordered


def clustered_columns(
    columns: Sequence[Floats],
    rows: Sequence[npt.NDArray[np.bool_]],
    clusters: npt.NDArray[np.integer] | None,
) -> list[Clustered | None]:
    """Return the values of each column by cluster, None where every cluster has one value.

    Args:
        columns: float64, each of any length, without NaN.
        rows: Which of the rows each column's values are (U,).
        clusters: Codes (U,); None: every row by itself.
    """
    whole = None if clusters is None else clusters_in_order(clusters)
    if whole is None:
        return [None] * len(columns)
    codes = [whole if inside.all() else clusters_in_order(whole[inside]) for inside in rows]
    return [None if c is None else Clustered.of(v, c) for v, c in zip(columns, codes, strict=True)]


def check_clusters(clusters: npt.NDArray[np.integer] | None, n_values: int) -> None:
    """Check that there is a cluster for every value.

    Raises:
        DataError: Another number of clusters than of values, or codes that are no whole numbers.
    """
    if clusters is None:
        return
    if clusters.shape != (n_values,):
        raise DataError(
            f"each of {n_values:,} values needs the code of its cluster, not {clusters.shape} codes"
        )
    if not np.issubdtype(clusters.dtype, np.integer):
        raise DataError(f"the codes of clusters must be whole numbers, not {clusters.dtype}")


def cluster_means(values: Floats, clusters: npt.NDArray[np.integer]) -> Floats:
    """Return the mean of each cluster's defined values (C,), NaN without one, in the order of their first rows.

    They are independent, and the units of the mean over clusters, in which each counts the same.

    Args:
        values: float64 (n,).
        clusters: Codes (n,).
    """
    check_clusters(clusters, len(values))
    codes = clusters_in_order(clusters)
    if codes is None:
        return values
    defined = ~np.isnan(values)
    sizes = np.bincount(codes[defined], minlength=int(codes.max()) + 1)
    sums = np.bincount(codes[defined], weights=values[defined], minlength=len(sizes))
    means: Floats = np.divide(sums, sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
    return means


def independent_units(values: Floats, clusters: npt.NDArray[np.integer] | None) -> tuple[Floats, float]:
    """Return values that are independent (V,), with the same mean, and the degrees of freedom of its standard error.

    Args:
        values: float64 (U,), without NaN.
        clusters: Codes (U,), equal for values that may depend on each other; None: all are independent.

    Raises:
        DataError: Clusters of other values.
    """
    check_clusters(clusters, len(values))
    codes = None if clusters is None else clusters_in_order(clusters)
    if codes is None or not np.isfinite(values).all():
        return values, len(values) - 1
    clustered = Clustered.of(values, codes)
    return clustered.linearized, clustered.spread.degrees


def cluster_spread(moments: ClusterMoments) -> ClusterSpread:
    """Return the chance in the mean of clustered values: the same bits however these were divided."""
    values, n_clusters = moments.values, moments.clusters
    n = values.n
    sizes = np.array(list(moments.sums), dtype=np.float64)
    counts = np.array([sums.clusters for sums in moments.sums.values()], dtype=np.float64)
    effective = n**2 / float((counts * sizes**2).sum()) if n else math.nan
    independent = (
        n * values.squares - values.sum.units**2
    )  # n (n - 1) times their variance, in squares' units
    if n_clusters < 2 or values.sum.infinite or not independent:
        undefined = math.nan if n_clusters < 2 or values.sum.infinite else 0.0
        return ClusterSpread(n, n_clusters, math.nan, undefined, n_clusters - 1, effective, math.nan)

    residuals = dict(_squares_of_residuals(moments))
    design_effect = sum(s * (n - 1) / ((n - size) * n * independent) for size, s in residuals.items())
    # That of a mean over values which correlate by r within a cluster is 1 + r (sum of n^2 / N - 1).
    largest = n / effective - 1
    correlation = min(max((design_effect - 1) / largest, 0.0), 1.0)
    error = math.sqrt(design_effect) * values.std / math.sqrt(n)
    degrees = _degrees(sizes, counts, correlation)
    between = sum(s / (size * n * independent) for size, s in residuals.items())
    modelled = 1 + _correlation(between, n, n_clusters, effective) * largest
    return ClusterSpread(n, n_clusters, design_effect, error, degrees, effective, modelled)


def _squares_of_residuals(moments: ClusterMoments) -> Iterator[tuple[int, int]]:
    """Yield each size of clusters with the sum of squares of their residuals, times the square of n."""
    n, total = moments.values.n, sum(sums.units for sums in moments.sums.values())
    for size, sums in moments.sums.items():
        cross = 2 * size * n * total * sums.units
        yield size, n**2 * sums.squares - cross + sums.clusters * (size * total) ** 2


def _correlation(between: float, n: int, n_clusters: int, effective: float) -> float:
    """Return the correlation of two values of a cluster by the analysis of variance, 0 where that is below.

    Large clusters count less than in the measured design effect. Source: Donner 1986, "A review of inference procedures
    for the intraclass correlation coefficient in the one-way random effects model".

    Args:
        between: Share of the sum of squares of n values that is between their clusters.
        n, n_clusters, effective: See ``ClusterSpread``.
    """
    of_clusters, of_values = between / (n_clusters - 1), max(1 - between, 0.0) / (n - n_clusters)
    typical = (n - n / effective) / (n_clusters - 1)  # size of a cluster
    return max((of_clusters - of_values) / (of_clusters + (typical - 1) * of_values), 0.0)


def _degrees(sizes: Floats, counts: Floats, correlation: float) -> float:
    """Return Satterthwaite's degrees of freedom of the variance of a mean over clusters.

    That is the square of the trace of the matrix M of covariances of corrected residuals over the sum of the squares of
    its elements. With shares h of the values, a cluster's sum has a variance of w = n (1 + (n - 1) r), and all of them
    W; then M[c, d] = w[c] [c = d] - w[c] h[d] - h[c] w[d] + W h[c] h[d] = w[c] [c = d] - g[c] h[d] - h[c] g[d].

    Args:
        sizes: Distinct numbers of values of a cluster (s,).
        counts: Number of clusters of each (s,).
        correlation: r of two values of a cluster.
    """
    h = sizes / (counts * sizes).sum()
    weights = counts / (1 - h)  # of elements of M, by the correction of residuals
    w = sizes * (1 + (sizes - 1) * correlation)
    g = w - h * (counts * w).sum() / 2
    diagonal = w - 2 * g * h
    squares = 2 * ((weights * g * g).sum() * (weights * h * h).sum() + (weights * g * h).sum() ** 2)
    squares += (weights / (1 - h) * (diagonal**2 - (2 * g * h) ** 2)).sum()
    return float((weights * diagonal).sum() ** 2 / squares)
