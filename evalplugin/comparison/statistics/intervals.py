"""Intervals of means over users."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, TypeAlias

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import np, npt, special
from evalplugin.metrics.distribution import VALUES_BELOW, Distribution
from evalplugin.metrics.moments import Moments

# Per-user scores are skewed and full of zeros. The t interval's error in each tail falls with skewness /
# sqrt(n): at a skewness of 3 and this many users it is below 0.006, and the bootstrap's work would only grow.
# experiments/statistics has the rates of both.
AUTO_BOOTSTRAP_BELOW = VALUES_BELOW
RESAMPLES = 2000  # of the bootstrap
ROUNDING = 1e-12  # sums of the same numbers in another order are equal up to this share
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
    method: Literal["bootstrap", "t", "exact", "bound", "none"]
    n: int  # number of users or pairs


def mean_interval(
    values: Column,
    *,
    level: float = 0.95,
    method: Method = "auto",
    bounds: Bounds | None = None,
    rng: np.random.Generator,
) -> Interval:
    """Return the mean of the defined values (U,) and its interval over users.

    Args:
        values: float64 (U,).
        level, method, bounds, rng: As for ``mean_intervals``.
    """
    return mean_intervals(values[:, None], level=level, method=method, bounds=[bounds], rng=rng)[0]


def mean_intervals(
    values: npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    method: Method = "auto",
    bounds: Sequence[Bounds | None] = (),
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

    NaN values are left out. Without a value the mean is NaN; with fewer than two, or an infinite one, so are the
    bounds. Columns do not depend on each other. Memory is bounded by some megabytes for any number of users.

    Args:
        values: float64 (U, C).
        level: Share of intervals that cover the true mean.
        method: See above.
        bounds: Of the values of each column; None: 0 to 1 where all values are within, otherwise none.
        rng: Draws the resamples.

    Raises:
        DataError: A level outside 0 to 1, or an unknown method.
    """
    check_interval(level, method)
    columns = [c[~np.isnan(c)] for c in values.T]
    return intervals_of(columns, [Moments.of(c) for c in columns], level, method, rng, bounds)


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
) -> list[Interval]:
    """Return the interval of the mean of each column.

    Args:
        columns: float64, each of any length, without NaN.
        moments: Of each column.
        level, method, rng, bounds: As for ``mean_intervals``.
    """
    seed = int(rng.integers(2**63))
    intervals = [_interval_of(sums, level, method) for sums in moments]
    if method == "auto":
        known = [*bounds, *[None] * (len(columns) - len(bounds))]
        for i, (column, sums, limits) in enumerate(zip(columns, moments, known, strict=True)):
            at_ends = (int(np.count_nonzero(column == end)) for end in (sums.lowest, sums.highest))
            intervals[i] = _rare_interval(sums, len(column) - max(at_ends), level, limits) or intervals[i]
    to_resample = defaultdict(list)  # columns of one length share the resamples, and so one matrix product
    for position, interval in enumerate(intervals):
        undecided = interval.n > 1 and np.isfinite(interval.mean) and np.isnan(interval.low)
        if interval.method == "bootstrap" and undecided:
            to_resample[interval.n].append(position)
    for positions in to_resample.values():
        values = np.stack([columns[position] for position in positions], axis=1)
        # Every length starts the same stream anew, so that its draws do not depend on the other columns.
        resampled = _bootstrap_bounds(values, level, seed)
        for position, (low, high) in zip(positions, resampled, strict=True):
            intervals[position] = replace(intervals[position], low=low, high=high)
    return intervals


def _rare_interval(moments: Moments, other: int, level: float, bounds: Bounds | None) -> Interval | None:
    """Return the interval of values of 0 and 1, or of values that are equal but for a few; None for other values.

    ``other`` is the number of values that are not the lowest, or not the highest where that is more frequent.
    """
    n, mean, lowest, highest = moments.n, moments.mean, moments.lowest, moments.highest
    if n < 2 or not math.isfinite(mean):
        return None
    least, most = bounds or (0.0, 1.0)
    if not least <= lowest <= highest <= most:
        least, most = -math.inf, math.inf
    if least >= 0 and most <= 1 and moments.is_binary:
        return Interval(mean, *_share_bounds(round(mean * n), n, level), level, "exact", n)
    if other >= FEW["bootstrap" if n < AUTO_BOOTSTRAP_BELOW else "t"] or 2 * other >= n:
        return None
    # All but a few values lie where the mean does: at the lowest one or the highest.
    common = lowest if mean - lowest <= highest - mean else highest
    _, share = _share_bounds(other, n, level)
    low, high = common - (common - least) * share, common + (most - common) * share
    if not (math.isfinite(low) and math.isfinite(high)):
        return Interval(mean, math.nan, math.nan, level, "none", n)
    return Interval(mean, low, high, level, "bound", n)


def _share_bounds(count: int, n: int, level: float) -> tuple[float, float]:
    """Return the exact interval of a share, by Clopper and Pearson 1934."""
    tail = (1 - level) / 2
    low = float(special.betaincinv(count, n - count + 1, tail)) if count else 0.0
    return low, float(special.betaincinv(count + 1, n - count, 1 - tail)) if count < n else 1.0


def _interval_of(moments: Moments, level: float, method: Method) -> Interval:
    """Return an interval whose bounds are NaN if they are undefined or need the bootstrap."""
    n, mean = moments.n, moments.mean
    if method == "auto":
        method = "bootstrap" if n < AUTO_BOOTSTRAP_BELOW else "t"
    low = high = math.nan
    if n > 1 and math.isfinite(mean):
        if moments.lowest == moments.highest:
            low = high = mean
        elif method == "t":
            half = float(special.stdtrit(n - 1, (1 + level) / 2)) * moments.std / math.sqrt(n)
            low, high = mean - half, mean + half
    return Interval(mean, low, high, level, method, n)


def _bootstrap_bounds(values: npt.NDArray[np.float64], level: float, seed: int) -> list[tuple[float, float]]:
    means = values.mean(axis=0)
    deviations = values - means
    scales = np.abs(deviations).max(axis=0)
    deviations /= scales  # powers then neither overflow nor vanish
    n = len(values)
    draw = _kept_counts if n * RESAMPLES <= _DRAWS_KEPT else _resample_counts
    blocks = [counts.astype(np.float64) @ deviations / n for counts in draw(n, RESAMPLES, seed)]
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
        # A mean of resampled values lies between them; rounding may move it slightly outside.
        lowest, highest = values[:, c].min(), values[:, c].max()
        bounds.append((float(max(low, lowest)), float(min(high, highest))))
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
