"""Intervals of means over users."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import nan
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, on_one_thread
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import special
from evalplugin.comparison.statistics.clusters import (
    Clustered,
    ClusterSpread,
    check_clusters,
    cluster_spread,
    clustered_columns,
)
from evalplugin.comparison.statistics.skewness import hall_inverse, skewness_of
from evalplugin.metrics.clusters import ClusterMoments
from evalplugin.metrics.distribution import VALUES_BELOW, Distribution
from evalplugin.metrics.moments import ROUNDING, Moments

# Per-user scores are skewed and full of zeros. The t interval's error in each tail falls with skewness /
# sqrt(n): at a skewness of 3 and this many users it is below 0.006, and the bootstrap's work would only grow.
# experiments/statistics has the rates of both.
AUTO_BOOTSTRAP_BELOW = VALUES_BELOW
RESAMPLES = 2000  # of the bootstrap
# Fewer values that differ from all others tell too little of their size: where 1 is expected, the bootstrap covers in
# 57 % of cases and where 5 are, in 91 %; Student's t with five in 85 %, with 20 in 92 % (experiments/statistics).
FEW = {"bootstrap": 5, "t": 20}
_DRAWS_AT_ONCE = 2**20
_DRAWS_KEPT = 2**22  # a byte each

Column: TypeAlias = Floats  # (users,)
Method = Literal["auto", "bootstrap", "t"]
Bounds = tuple[float, float]  # lowest and highest value possible


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that covers the true one at a level; bounds are NaN below two values.

    ``method``: see ``mean_intervals``; ``none`` where there are no bounds, as too few values differ.
    """

    mean: float
    low: float
    high: float
    level: float
    method: Literal["bootstrap", "t", "flips", "exact", "effective", "bound", "none"]
    n: int  # number of users or pairs
    clusters: int | None = None  # None: the users or pairs are independent
    # Variance of the mean over the one that it had with independent values; NaN where values do not differ.
    design_effect: float = 1.0


def mean_interval(
    values: Column,
    *,
    level: float = 0.95,
    method: Method = "auto",
    bounds: Bounds | None = None,
    clusters: npt.NDArray[np.integer] | None = None,
    rng: np.random.Generator,
) -> Interval:
    """Return the mean of the defined values (U,) and its interval over users.

    Args:
        values: float64 (U,).
        level, method, bounds, clusters, rng: As for ``mean_intervals``.
    """
    return mean_intervals(
        values[:, None], level=level, method=method, bounds=[bounds], clusters=clusters, rng=rng
    )[0]


def mean_intervals(
    values: npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    method: Method = "auto",
    bounds: Sequence[Bounds | None] = (),
    clusters: npt.NDArray[np.integer] | None = None,
    rng: np.random.Generator,
) -> list[Interval]:
    """Return, for each column of ``values`` (U, C), the mean of its defined values and its interval over users.

    ``bootstrap``: resamples users; bias-corrected and accelerated (Efron 1987), so that the interval leans
    the way skewed scores do. ``t``: Student's interval. The interval of equal values has no width by either.

    ``auto``: ``exact`` where all values are 0 or 1 and the ``bounds`` allow none beyond: the interval of Clopper and
    Pearson (1934), which covers no less than the level. ``bound`` where fewer than ``FEW`` values differ from all
    others: the share of users that differ is at most the upper end of its exact interval, and their values are within
    the ``bounds``; where these are infinite, ``none``. Otherwise bootstrap below ``AUTO_BOOTSTRAP_BELOW`` users, t from
    there on, where both agree. ``Interval.method`` is the one that was used.

    Where the bounds are infinite on both sides, as of rewards that are weighted, values may be far more skewed than
    scores are: ``t`` by ``auto`` is then corrected for it, as by ``leaning``.

    NaN values are left out. Without a value the mean is NaN; with fewer than two, or an infinite one, so are the
    bounds. Columns do not depend on each other. Memory is bounded by some megabytes for any number of users.

    Values that are not independent, such as those of the queries of a session, have the interval of
    ``clustered_interval``; ``bootstrap`` then resamples clusters.

    Args:
        values: float64 (U, C).
        level: Share of intervals that cover the true mean.
        method: See above.
        bounds: Of the values of each column; None: 0 to 1 where all values are within, otherwise none.
        clusters: Codes (U,), equal for values that may depend on each other; None: all are independent.
        rng: Draws the resamples.

    Raises:
        DataError: A level outside 0 to 1, an unknown method, or clusters of other values.
    """
    check_interval(level, method)
    check_clusters(clusters, len(values))
    defined = [~np.isnan(c) for c in values.T]
    columns = [c[d] for c, d in zip(values.T, defined, strict=True)]
    clustered = clustered_columns(columns, defined, clusters)
    intervals = intervals_of(columns, [Moments.of(c) for c in columns], level, method, rng, bounds, clustered)
    if method == "auto":
        for i, limits in enumerate(bounds):
            if limits == (-math.inf, math.inf) and intervals[i].method == "t":
                intervals[i] = leaning(intervals[i], columns[i], clustered[i])
    return intervals


def leaning(interval: Interval, values: Column, clustered: Clustered | None) -> Interval:
    """Return Student's interval of the mean of values (n,), corrected for their skewness by Hall's transform.

    Of values with few large ones, t intervals lie below the true mean too often: of off-policy values of simulated
    logs, 92.5 % of them held, and 93.9 % of corrected ones (experiments/off_policy).
    """
    deviations = values - interval.mean if clustered is None else clustered.residuals / clustered.sizes.mean()
    if not (half := interval.high - interval.mean) > 0:
        return interval
    scale = float(np.abs(deviations).max())
    scaled = deviations / scale
    sd, skewness, n = scale * math.sqrt(np.mean(scaled**2)), skewness_of(scaled), len(scaled)
    low, high = (interval.mean - sd * hall_inverse(end / sd, skewness, n) for end in (half, -half))
    return replace(interval, low=low, high=high)


def clustered_interval(moments: ClusterMoments, level: float, bounds: Bounds | None) -> Interval:
    """Return the mean over all values and its interval over clusters.

    ``effective`` where all values are 0 or 1 and the ``bounds`` allow none beyond: the exact interval of as many
    independent values as the design effect leaves (Korn and Graubard 1998, "Confidence intervals for proportions with
    small expected number of positive counts estimated from survey data"). Where fewer than ``FEW["t"]`` clusters, and
    less than half, have another value than all others, these tell too little of the design effect: the values of each
    cluster are then taken to be all equal. ``bound``, ``none``: the same for other values, with the ``bounds`` of their
    size. Otherwise ``t``, with standard error and degrees of freedom of ``cluster_spread``, within the ``bounds``. If
    these are finite, no end is nearer to the mean than that of the ``effective`` interval of values at the bounds whose
    mean has the same variance.

    The design effect of ``effective`` is the measured one, or that by a model of one correlation in all clusters if it
    is larger: while no large cluster has a hit, the measured one is too small, but small ones show the correlation too.
    Franco, Little, Louis and Slud 2019, "Comparative study of confidence intervals for proportions in complex sample
    surveys", found that measured ones cover too rarely where there are clusters, and models of the population better.

    Measured coverage of 95 % intervals with 20 to 5,000 clusters of 1 to 200 values, correlated by up to 0.8
    (experiments/statistics, clusters.md): 93 % and more of 500 bake-offs for each of 27 kinds of hits and reciprocal
    ranks, 99 % on average with 20 clusters and 96 % with 5,000; up to 6 % are below the true mean and up to 3 % above.
    By the measured design effect alone it is down to 80 %, and as if all values were independent to 21 %. Where values
    depend on the size of their cluster, it is down to 54 % below ``RELIABLE_FROM`` (unequal_clusters.md).

    Args:
        moments: Of the values.
        level: Share of intervals that cover the true mean.
        bounds: As for ``mean_intervals``.
    """
    spread = cluster_spread(moments)
    if (rare := _rare_clustered(moments, spread, level, bounds)) is not None:
        return rare
    interval = _interval_of(moments.values, level, "t", spread)
    least, most = _limits(moments.values, bounds)
    interval = replace(interval, low=max(interval.low, least), high=min(interval.high, most))
    if spread.clusters < 2 or not math.isfinite(most - least):
        return interval
    low, high = _effective_bounds(moments.values, spread, level, (least, most))
    return replace(interval, low=min(interval.low, low), high=max(interval.high, high))


def distribution_interval(
    distribution: Distribution,
    *,
    level: float = 0.95,
    bounds: Bounds | None = None,
    rng: np.random.Generator,
) -> Interval:
    """Return the interval that ``mean_interval`` gives for the values of a distribution, to the last bit.

    Args:
        distribution: Of the values of all users.
        level, bounds, rng: As for ``mean_interval``.

    Raises:
        DataError: A level outside 0 to 1.
        ValueError: The distribution is of few users, and was made without theirs.
    """
    check_interval(level, "auto")
    if (clusters := distribution.clusters) is not None and not clusters.is_single:
        return clustered_interval(clusters, level, bounds)
    if (values := distribution.values) is not None:
        return mean_interval(values, level=level, bounds=bounds, rng=rng)
    if distribution.moments.n < AUTO_BOOTSTRAP_BELOW:
        raise ValueError("the interval of few values needs the values and their users")
    counts = distribution.counts.counts
    other = distribution.moments.n - max(int(counts[0]), int(counts[-1]))
    return _rare_interval(distribution.moments, other, level, bounds) or _interval_of(
        distribution.moments, level, "auto"
    )


def check_interval(level: float, method: str) -> None:
    """Check the parameters of an interval; see ``mean_intervals``."""
    if not 0 < level < 1:
        raise DataError(f"the level of an interval must be between 0 and 1, not {level}")
    if method not in ("auto", "bootstrap", "t"):
        raise DataError(f"the method of an interval must be auto, bootstrap or t, not {method!r}")


def intervals_of(
    columns: Sequence[Column],
    moments: Sequence[Moments],
    level: float,
    method: Method,
    rng: np.random.Generator,
    bounds: Sequence[Bounds | None] = (),
    clustered: Sequence[Clustered | None] = (),
) -> list[Interval]:
    """Return the interval of the mean of each column.

    Args:
        columns: float64, each of any length, without NaN.
        moments: Of each column.
        level, method, rng, bounds: As for ``mean_intervals``.
        clustered: The values of each column by cluster, None for independent ones; empty: all are.
    """
    seed = int(rng.integers(2**63))
    by_cluster = list(clustered) or [None] * len(columns)
    intervals = [
        _interval_of(sums, level, method, None if c is None else c.spread)
        for sums, c in zip(moments, by_cluster, strict=True)
    ]
    if method == "auto":
        known = [*bounds, *[None] * (len(columns) - len(bounds))]
        for i, (column, sums, limits) in enumerate(zip(columns, moments, known, strict=True)):
            if (clusters := by_cluster[i]) is not None:
                intervals[i] = clustered_interval(clusters.moments, level, limits)
                continue
            at_ends = (int(np.count_nonzero(column == end)) for end in (sums.lowest, sums.highest))
            intervals[i] = _rare_interval(sums, len(column) - max(at_ends), level, limits) or intervals[i]
    # Columns of one length share the resamples, and so one matrix product.
    to_resample: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for position, interval in enumerate(intervals):
        units = interval.n if interval.clusters is None else interval.clusters
        undecided = units > 1 and np.isfinite(interval.mean) and np.isnan(interval.low)
        if interval.method != "bootstrap" or not undecided:
            continue
        if (clusters := by_cluster[position]) is not None and not clusters.residuals.any():
            intervals[position] = replace(interval, low=interval.mean, high=interval.mean)
        else:
            to_resample[units, interval.clusters is None].append(position)
    for positions in to_resample.values():
        # Every length starts the same stream anew, so that its draws do not depend on the other columns.
        resampled = _resampled(
            [columns[i] for i in positions], [by_cluster[i] for i in positions], level, seed
        )
        for position, (low, high) in zip(positions, resampled, strict=True):
            intervals[position] = replace(intervals[position], low=low, high=high)
    return intervals


def _resampled(
    columns: Sequence[Column], clustered: Sequence[Clustered | None], level: float, seed: int
) -> list[tuple[float, float]]:
    """Return the bootstrap's bounds of columns that are all independent, or all of as many clusters."""
    by_cluster = [c for c in clustered if c is not None]
    if not by_cluster:
        return _bootstrap_bounds(np.stack(columns, axis=1), level, seed)
    sizes = np.stack([c.sizes / c.sizes.mean() for c in by_cluster], axis=1)
    residuals = np.stack([c.residuals / c.sizes.mean() for c in by_cluster], axis=1)
    values = [c.moments.values for c in by_cluster]
    return [
        # The mean of any clusters is within the range of the values.
        (max(sums.mean + low, sums.lowest), min(sums.mean + high, sums.highest))
        for sums, (low, high) in zip(values, _bootstrap_bounds(residuals, level, seed, sizes), strict=True)
    ]


def _rare_interval(moments: Moments, other: int, level: float, bounds: Bounds | None) -> Interval | None:
    """Return the interval of values of 0 and 1, or of values that are equal but for a few; None for other values.

    ``other`` is the number of values that are not the lowest, or not the highest where that is more frequent.
    """
    n, mean, lowest, highest = moments.n, moments.mean, moments.lowest, moments.highest
    if n < 2 or not math.isfinite(mean):
        return None
    least, most = _limits(moments, bounds)
    if least >= 0 and most <= 1 and moments.is_binary:
        return Interval(mean, *_share_bounds(round(mean * n), n, level), level, "exact", n)
    if other >= FEW["bootstrap" if n < AUTO_BOOTSTRAP_BELOW else "t"] or 2 * other >= n:
        return None
    # All but a few values lie where the mean does: at the lowest one or the highest.
    common = lowest if mean - lowest <= highest - mean else highest
    return _within(
        common, _share_bounds(other, n, level)[1], (least, most), Interval(mean, nan, nan, level, "none", n)
    )


def _rare_clustered(
    moments: ClusterMoments, spread: ClusterSpread, level: float, bounds: Bounds | None
) -> Interval | None:
    """Return the interval of clustered values of 0 and 1, or that are equal but for few clusters; else None."""
    values, n, n_clusters = moments.values, spread.values, spread.clusters
    if n_clusters < 2 or not math.isfinite(values.mean):
        return None
    least, most = _limits(values, bounds)
    alike = max(moments.all_lowest, moments.all_highest, key=lambda end: (end.clusters, end.values))
    other = n_clusters - alike.clusters
    is_few = other < FEW["t"] and 2 * other < n_clusters
    undefined = Interval(values.mean, nan, nan, level, "none", n, n_clusters, spread.design_effect)
    if least >= 0 and most <= 1 and values.is_binary:
        if is_few:
            low, high = _share_bounds(values.mean * spread.effective, spread.effective, level)
        else:
            low, high = _effective_bounds(values, spread, level, (0.0, 1.0))
        return replace(undefined, low=low, high=high, method="effective")
    if not is_few:
        return None
    # Of clusters and of values, the larger share: that of large clusters may be either.
    share = max(other / n_clusters, 1 - alike.values / n)
    _, share = _share_bounds(share * spread.effective, spread.effective, level)
    return _within(alike.value, share, (least, most), undefined)


def _effective_bounds(values: Moments, spread: ClusterSpread, level: float, limits: Bounds) -> Bounds:
    """Return the exact interval of as many independent values at either limit as have a mean of the same variance."""
    least, most = limits
    share = (values.mean - least) / (most - least)

    def quantile(degrees: float) -> float:
        return float(special.stdtrit(degrees, (1 + level) / 2))

    # The measured variance has few degrees of freedom; that by the correlation has those of the clusters.
    measured = max(spread.design_effect, 1.0) * quantile(spread.degrees) ** 2
    modelled = spread.modelled * quantile(spread.clusters - 1) ** 2
    design_effect = max(measured, modelled) / quantile(spread.values - 1) ** 2
    deviation = values.std / (most - least) * math.sqrt((spread.values - 1) / spread.values)
    # Values at the limits that tell as much as one of these.
    at_limits = share / deviation * ((1 - share) / deviation)
    units = max(spread.values / design_effect * at_limits, 1.0)
    low, high = _share_bounds(share * units, units, level)
    return least + (most - least) * low, least + (most - least) * high


def _limits(moments: Moments, bounds: Bounds | None) -> Bounds:
    """Return the lowest and the highest value possible; infinite where neither is known."""
    least, most = bounds or (0.0, 1.0)
    return (least, most) if least <= moments.lowest <= moments.highest <= most else (-math.inf, math.inf)


def _within(common: float, share: float, limits: Bounds, undefined: Interval) -> Interval:
    """Return the interval of a mean of values that are all equal but for at most a share; without limits, undefined."""
    low, high = common - (common - limits[0]) * share, common + (limits[1] - common) * share
    if not (math.isfinite(low) and math.isfinite(high)):
        return undefined
    return replace(undefined, low=low, high=high, method="bound")


def _share_bounds(count: float, n: float, level: float) -> tuple[float, float]:
    """Return the exact interval of a share, by Clopper and Pearson 1934; counts need not be whole numbers."""
    tail = (1 - level) / 2
    low = float(special.betaincinv(count, n - count + 1, tail)) if count else 0.0
    return low, float(special.betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0


def _interval_of(
    moments: Moments, level: float, method: Method, spread: ClusterSpread | None = None
) -> Interval:
    """Return an interval whose bounds are NaN if they are undefined or need the bootstrap."""
    n, mean = moments.n, moments.mean
    if method == "auto":
        method = "bootstrap" if n < AUTO_BOOTSTRAP_BELOW and spread is None else "t"
    units, degrees, sd = (
        (n, n - 1, moments.std) if spread is None else (spread.clusters, spread.degrees, spread.sd)
    )
    low = high = nan
    if units > 1 and math.isfinite(mean):
        if moments.lowest == moments.highest:
            low = high = mean
        elif method == "t":
            half = float(special.stdtrit(degrees, (1 + level) / 2)) * sd / math.sqrt(units)
            low, high = mean - half, mean + half
    interval = Interval(mean, low, high, level, method, n)
    if spread is None:
        return interval
    return replace(interval, clusters=spread.clusters, design_effect=spread.design_effect)


def _bootstrap_bounds(
    values: npt.NDArray[np.float64],
    level: float,
    seed: int,
    sizes: npt.NDArray[np.float64] | None = None,
) -> list[tuple[float, float]]:
    """Return the bounds of the mean of each column of values (n, C).

    With ``sizes`` (n, C), whose mean is 1, they are of ratios: the sum of the values over the sum of their sizes.
    """
    means = values.mean(axis=0)
    deviations = values - means
    scales = np.abs(deviations).max(axis=0)
    deviations /= scales  # powers then neither overflow nor vanish
    n = len(values)
    draw = _kept_counts if n * RESAMPLES <= _DRAWS_KEPT else _resample_counts
    blocks = []
    with on_one_thread():
        for drawn in draw(n, RESAMPLES, seed):
            counts = drawn.astype(np.float64)
            blocks.append(counts @ deviations / (n if sizes is None else counts @ sizes))
    resampled = np.concatenate(blocks)  # means (RESAMPLES, C)
    resampled[np.abs(resampled) < ROUNDING] = 0  # means of discrete scores are often equal to that observed
    below = np.count_nonzero(resampled < 0, axis=0) + 0.5 * np.count_nonzero(resampled == 0, axis=0)
    accelerations = (deviations**3).sum(axis=0) / (6 * (deviations**2).sum(axis=0) ** 1.5)
    normal = NormalDist()
    bounds = []
    for c, (mean, share) in enumerate(zip(means, (below + 0.5) / (RESAMPLES + 1), strict=True)):
        bias = normal.inv_cdf(share)
        tails = []
        for tail in ((1 - level) / 2, (1 + level) / 2):
            z = bias + normal.inv_cdf(tail)
            tails.append(normal.cdf(bias + z / (1 - accelerations[c] * z)))
        low, high = mean + scales[c] * np.quantile(resampled[:, c], tails)
        if sizes is None:
            # A mean of resampled values lies between them; rounding may move it slightly outside.
            low, high = max(low, values[:, c].min()), min(high, values[:, c].max())
        bounds.append((float(low), float(high)))
    return bounds


@lru_cache(maxsize=8)
def _kept_counts(n: int, n_resamples: int, seed: int) -> list[npt.NDArray[np.integer]]:
    """Return ``_resample_counts``, kept: models and metrics are resampled alike, and drawing takes longest."""
    return [
        counts.astype(np.min_scalar_type(counts.max())) for counts in _resample_counts(n, n_resamples, seed)
    ]


def _resample_counts(n: int, n_resamples: int, seed: int) -> Iterator[npt.NDArray[np.integer]]:
    """Yield, some resamples at a time, how often each has each of the n rows: integers (resamples, n)."""
    rng = np.random.default_rng(seed)
    at_once = max(1, _DRAWS_AT_ONCE // n)
    for done in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - done)
        drawn = rng.integers(0, n, size=(size, n), dtype=np.int32) + n * np.arange(size)[:, None]
        yield np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
