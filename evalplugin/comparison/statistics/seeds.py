"""Seeds: how means vary from seed to seed, and intervals and tests that take it in."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import special
from evalplugin.comparison.statistics.intervals import Column, Interval
from evalplugin.comparison.statistics.one_sided import lower_bound, p_above
from evalplugin.comparison.statistics.paired import LEAST_P, Paired
from evalplugin.metrics.moments import mean_of_defined

_STEPS = 60  # of a bisection on the logarithm of p
_LEAST = 1e-15  # p-value, as a level nearer to 1 is rounded


@dataclass(frozen=True)
class SeedSpread:
    """The spread of a model's mean from seed to seed."""

    sd: float  # standard deviation of the mean of one seed
    seeds: int

    @property
    def error(self) -> float:
        """The standard error that the seeds give the mean of them all."""
        return self.sd / math.sqrt(self.seeds)

    def half_width(self, level: float) -> float:
        """Return half of Student's interval of the mean over seeds."""
        return float(special.stdtrit(self.seeds - 1, (1 + level) / 2)) * self.error

    def scaled(self, factor: float) -> SeedSpread:
        """Return the spread of a multiple of the mean."""
        return replace(self, sd=self.sd * abs(factor))


def seed_spread(means: Sequence[float]) -> SeedSpread | None:
    """Return the spread of a model's means of each seed; None for fewer than two, or if any is not finite."""
    if len(means) < 2 or not all(map(math.isfinite, means)):
        return None
    return SeedSpread(float(np.std(means, ddof=1)), len(means))


def interval_with_seeds(interval: Interval, spreads: Sequence[SeedSpread]) -> Interval:
    """Return an interval over users, widened to cover the means of other seeds too.

    The half-widths of independent sources, each side on its own, are added as squares (Zou and Donner 2008,
    "Construction of confidence limits about effect measures", the method of variance estimates recovery). What a
    seed changes for each user on its own is in both sources, so that the interval is rather too wide than too narrow
    (experiments/seeds).
    """
    squares = sum(spread.half_width(interval.level) ** 2 for spread in spreads)
    return replace(
        interval,
        low=interval.mean - math.sqrt((interval.mean - interval.low) ** 2 + squares),
        high=interval.mean + math.sqrt((interval.high - interval.mean) ** 2 + squares),
    )


def paired_with_seeds(paired: Paired, a: SeedSpread | None, b: SeedSpread | None) -> Paired:
    """Return the comparison of two models with the chance that their seeds add; without several seeds, unchanged.

    The interval is widened by ``interval_with_seeds``. The p-values of all tests are at least the one at which
    Student's interval, widened in the same way, touches 0. The detectable difference grows as the standard error does.
    Models without a difference for any user stay as they are: they have the same lists with each seed.
    """
    spreads = [spread for spread in (a, b) if spread is not None]
    difference = paired.interval
    if not spreads or paired.equal == 1 or not math.isfinite(difference.low):
        return paired
    sd = paired.sd_of_units
    of_users = SeedSpread(sd, paired.units)
    of_units = of_users
    if paired.clusters is not None:  # their interval has fewer degrees of freedom, or is that of sign flips
        half = difference.mean - difference.low if difference.mean > 0 else difference.high - difference.mean
        of_units = SeedSpread(
            of_users.sd * half / of_users.half_width(difference.level) if sd else 0.0, paired.units
        )
    least = _p_of([of_units, *spreads], difference.mean)
    of_seeds = sum(spread.error**2 for spread in spreads)
    growth = math.sqrt(1 + of_seeds / of_users.error**2) if sd else math.nan
    return replace(
        paired,
        interval=interval_with_seeds(difference, spreads),
        p={test: max(p, least) for test, p in paired.p.items()},
        detectable=paired.detectable * growth,
    )


def range_of_seeds(a: SeedSpread | None, b: SeedSpread | None, level: float) -> float:
    """Return the range around 0 of the difference of two models that differ by their seeds alone, with one fit each.

    In ``level`` of all cases it is within this range, by Student's distribution with Welch's degrees of freedom; NaN
    where neither has several seeds, or their means are all equal.
    """
    spreads = [spread for spread in (a, b) if spread is not None]
    variance = sum(spread.sd**2 for spread in spreads)
    if not variance:
        return math.nan
    degrees = variance**2 / sum(spread.sd**4 / (spread.seeds - 1) for spread in spreads)
    return float(special.stdtrit(degrees, (1 + level) / 2)) * math.sqrt(variance)


def bound_with_seeds(
    values: Column,
    spreads: Sequence[SeedSpread],
    *,
    level: float,
    clusters: npt.NDArray[np.integer] | None = None,
) -> float:
    """Return ``lower_bound`` of users' values (U,) in clusters (U,), lowered by the spread of other seeds."""
    bound = lower_bound(values, level=level, clusters=clusters)
    if not spreads or not math.isfinite(bound):
        return bound
    mean = mean_of_defined(values)
    # One-sided at this level is two-sided at twice the error.
    squares = sum(spread.half_width(2 * level - 1) ** 2 for spread in spreads)
    return mean - math.sqrt((mean - bound) ** 2 + squares)


def p_above_with_seeds(
    values: Column, spreads: Sequence[SeedSpread], *, clusters: npt.NDArray[np.integer] | None = None
) -> float:
    """Return the one-sided p-value of a true mean above 0 that agrees with ``bound_with_seeds``.

    It is the smallest error at which the bound is above 0; above one half it is ``p_above``.
    """
    p = p_above(values, clusters=clusters)
    if not spreads or not math.isfinite(p) or p >= 0.5:
        return p

    def is_above(error: float) -> bool:
        return bound_with_seeds(values, spreads, level=1 - error, clusters=clusters) > 0

    return _smallest_p(max(p, _LEAST), 0.5, is_above)


def _p_of(sources: Sequence[SeedSpread], mean: float) -> float:
    """Return the two-sided p-value at which the half-widths of all sources together reach the mean."""
    sources = [source for source in sources if source.error > 0]
    if not mean:
        return 1.0
    if not sources:
        return LEAST_P

    def is_below_mean(p: float) -> bool:
        # Of p itself, as a level of 1 - p may be rounded to 1.
        widths = (float(special.stdtrit(source.seeds - 1, p / 2)) * source.error for source in sources)
        return sum(width**2 for width in widths) < mean**2

    return _smallest_p(LEAST_P, 1.0, is_below_mean)


def _smallest_p(least: float, most: float, is_reached: Callable[[float], bool]) -> float:
    """Return the smallest p-value at which a condition holds; it must hold at all larger ones."""
    low, high = math.log(least), math.log(most)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_reached(math.exp(middle)) else (middle, high)
    return math.exp(high)
