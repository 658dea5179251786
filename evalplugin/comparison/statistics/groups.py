"""Gap and worst group: statistics of the means of groups of users, and their paired differences.

The *gap* is the highest mean of a group less the lowest one, the *worst* is the mean of the worst group. The measured
gap is too large on average, and the measured worst mean too bad, as both pick the group with the most luck; a bootstrap
of either repeats this error. So all bounds here are of fixed contrasts of means, of which the true gap or worst mean is
the largest or the smallest: a bound that must hold for all contrasts together is corrected for their number
(Bonferroni), one that must hold for the true extreme contrast alone is not. This is valid for any true means, ties
included, and for groups whose users depend on each other, and needs no random numbers. Sources: Berger 1982,
"Multiparameter hypothesis testing and acceptance sampling" (the uncorrected side); Hsu 1996, "Multiple comparisons:
theory and methods". Among several small groups, one has few hits by chance, and so hardly any spread: what it is taken
to have at least is in ``_corrected_bounds`` and ``GroupMeans.smoothed``. Rates: experiments/statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import sparse, special
from evalplugin.comparison.statistics.intervals import FEW, Interval
from evalplugin.comparison.statistics.paired import LEAST_P
from evalplugin.comparison.statistics.seeds import SeedSpread
from evalplugin.metrics.moments import ROUNDING, mean_of_defined

# Smaller groups are left out: a few users with extreme scores would be the worst group, and say nothing.
LEAST_UNITS = 30
# The difference of two gaps takes the square of the number of pairs of groups.
MOST_GROUPS = 20


@dataclass(frozen=True)
class Extreme:
    """A gap or a worst mean, the interval that covers the true one, and the groups that it is measured on."""

    value: float
    low: float
    high: float
    groups: tuple[int, ...]  # of a gap the highest and the lowest group; of a worst mean the worst group


@dataclass(frozen=True)
class ExtremeDifference:
    """The gap, or the worst mean, of one model less that of another one over the same users."""

    value: float
    low: float
    high: float
    p_above: float  # one-sided, of a true difference above 0
    p_below: float  # one-sided, of a true difference below 0

    @property
    def p(self) -> float:
        """The two-sided p-value; it is at most 1 - level exactly where the interval excludes 0."""
        return min(1.0, 2 * min(self.p_above, self.p_below))


def gap_of(intervals: Sequence[Interval], degrees: Floats, means: GroupMeans | None = None) -> Extreme:
    """Return the gap between the means of groups.

    The interval of a difference of two means takes their half-widths, each side on its own (Zou and Donner 2008, as
    ``interval_with_seeds``). The lower bound is the largest of all differences' lower bounds, corrected for the number
    of ordered pairs, and at least 0; the upper bound is the largest of all upper ones.

    Args:
        intervals: Of the mean of each group, two at least, of one level.
        degrees: Of freedom of each (G,).
        means: The means by the model, in place of a, for groups that share clusters and for ``_corrected_bounds``.
    """
    n = len(intervals)
    mean, below, above = _sides(intervals)
    lowest, highest = _corrected_bounds(intervals, degrees, n * (n - 1), means)
    r = np.eye(n) if means is None else means.correlation
    difference = mean[:, None] - mean
    lower = difference - _root_of_squares(mean - lowest, highest - mean, r)
    upper = difference + _root_of_squares(above, below, r)
    pairs = ~np.eye(n, dtype=np.bool_)
    best, worst = int(np.argmax(mean)), int(np.argmin(mean))
    return Extreme(
        float(mean[best] - mean[worst]),
        float(np.maximum(lower[pairs].max(), 0)),
        float(upper[pairs].max()),
        (best, worst),
    )


def worst_of(
    intervals: Sequence[Interval], degrees: Floats, direction: int, means: GroupMeans | None = None
) -> Extreme:
    """Return the mean of the worst group: the lowest one, or the highest where lower values are better.

    Where higher values are better, the lower bound is the lowest of all groups' lower bounds, and the upper bound the
    lowest of the upper ones, corrected for the number of groups.

    Args:
        intervals: Of the mean of each group, of one level.
        degrees: Of freedom of each (G,).
        direction: 1 where higher values are better, -1 where lower ones are.
        means: The means by the model, in place of a, for ``_corrected_bounds``.
    """
    mean, below, above = _sides(intervals)
    lowest, highest = _corrected_bounds(intervals, degrees, len(intervals), means)
    if direction > 0:
        worst, low, high = int(np.argmin(mean)), (mean - below).min(), highest.min()
    else:
        worst, low, high = int(np.argmax(mean)), lowest.max(), (mean + above).max()
    return Extreme(float(mean[worst]), float(low), float(high), (worst,))


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Means of groups by two models, a and b, over the same users, with the covariances of their errors."""

    a: Floats  # (G,)
    b: Floats
    of_a: Floats  # covariances (G, G)
    of_b: Floats
    of_both: Floats  # of the means by a (in rows) with those by b (in columns)
    degrees: Floats  # of freedom (G,)
    is_positive: bool = False  # no value is below 0: what ``_sizes`` and ``smoothed`` take for granted
    # What other seeds add: the spread of each model's mean, taken to be the same in every group.
    seeds: tuple[SeedSpread | None, SeedSpread | None] = (None, None)

    @classmethod
    def of(
        cls,
        a: Floats,
        b: Floats,
        group: npt.NDArray[np.integer],
        n_groups: int,
        clusters: npt.NDArray[np.integer] | None = None,
    ) -> GroupMeans:
        """Return the means of groups, each of which has two independent units at least.

        Args:
            a, b: Values by both models (U,), without NaN.
            group: Of each user (U,), from 0 on.
            n_groups: Number of groups.
            clusters: Codes (U,), equal for users that may depend on each other; None: all are independent.
        """
        sizes = np.bincount(group, minlength=n_groups)
        of_models = [
            np.array([mean_of_defined(values[group == g]) for g in range(n_groups)]) for values in (a, b)
        ]
        errors = [
            (values - means[group]) / sizes[group] for values, means in zip((a, b), of_models, strict=True)
        ]
        products = ((0, 0), (1, 1), (0, 1))
        units = units_of(group, n_groups, clusters)
        if clusters is None:
            covariances = [
                np.diag(np.bincount(group, errors[x] * errors[y], minlength=n_groups)) for x, y in products
            ]
        else:
            _, unit = np.unique(clusters, return_inverse=True)
            shape = (int(unit.max()) + 1, n_groups)
            by_unit = [sparse.csr_array((error, (unit, group)), shape=shape) for error in errors]
            covariances = [(by_unit[x].T @ by_unit[y]).toarray() for x, y in products]
        factor = np.sqrt(units / (units - 1))
        scale = factor[:, None] * factor
        of_a, of_b, of_both = (covariance * scale for covariance in covariances)
        is_positive = not ((a < 0).any() or (b < 0).any())
        return cls(
            of_models[0], of_models[1], of_a, of_b, of_both, (units - 1).astype(np.float64), is_positive
        )

    @property
    def correlation(self) -> Floats:
        """The correlation of the means by a (G, G); 0 where a mean has no spread."""
        sd = np.sqrt(np.diag(self.of_a))
        products = sd[:, None] * sd
        correlation: Floats = np.divide(self.of_a, products, out=np.zeros_like(products), where=products > 0)
        return np.clip(correlation, -1, 1)

    @property
    def smoothed(self) -> GroupMeans:
        """The means with larger variances where fewer than ``FEW["t"]`` units, and than half, have a value above 0.

        A group without hits has no spread, and its difference would seem to be certain. Its variance is at least that
        of values with the mean to which four more units would bring it, two of them with a value above 0 (Agresti and
        Coull 1998, "Approximate is better than 'exact' for interval estimation of binomial proportions"). Such a group
        has its own correlation of the two models; without spread, that of all groups.
        """
        if not self.is_positive:
            return self
        own = [np.diag(of).copy() for of in (self.of_a, self.of_b, self.of_both)]
        units = self.degrees + 1
        least = [
            self._least_variance(mean, variance)
            for mean, variance in zip((self.a, self.b), own, strict=False)
        ]
        with np.errstate(divide="ignore", invalid="ignore"):
            ours = own[2] / np.sqrt(own[0] * own[1])
            weighted = [(units**2 * of).sum() for of in own]
            ours[~np.isfinite(ours)] = np.nan_to_num(weighted[2] / np.sqrt(weighted[0] * weighted[1]))
        changed = [of.copy() for of in (self.of_a, self.of_b, self.of_both)]
        rare = (least[0] > own[0]) | (least[1] > own[1])
        larger = [np.maximum(*pair) for pair in zip(own, least, strict=False)]
        for of, diagonal in zip(changed, (*larger, ours * np.sqrt(larger[0] * larger[1])), strict=True):
            of[rare, rare] = diagonal[rare]
        return replace(self, of_a=changed[0], of_b=changed[1], of_both=changed[2])

    def _least_variance(self, mean: Floats, variance: Floats) -> Floats:
        """Return the least variances of one model's means for ``smoothed``, (G,); 0 where there are enough values."""
        units = self.degrees + 1
        squares = units * variance + mean**2
        above_zero = np.divide(
            units * mean**2, squares, out=np.zeros_like(mean), where=squares > 0
        )  # in number
        size = _size(units, mean, variance)
        moved = (units * mean + 2 * size) / (units + 4)
        is_rare = (above_zero < FEW["t"]) & (2 * above_zero < units)
        least: Floats = np.where(is_rare, np.maximum(moved * size - moved**2, 0) / units, 0)
        return least

    def scaled(self, factor: float) -> GroupMeans:
        """Return the means with those of b times a factor."""
        a, b = self.seeds
        return replace(
            self,
            b=self.b * factor,
            of_b=self.of_b * factor**2,
            of_both=self.of_both * factor,
            seeds=(a, None if b is None else b.scaled(factor)),
        )

    @property
    def reversed(self) -> GroupMeans:
        """The means with the two models exchanged."""
        return replace(
            self,
            a=self.b,
            b=self.a,
            of_a=self.of_b,
            of_b=self.of_a,
            of_both=self.of_both.T,
            seeds=self.seeds[::-1],
        )


def units_of(
    group: npt.NDArray[np.integer], n_groups: int, clusters: npt.NDArray[np.integer] | None = None
) -> npt.NDArray[np.intp]:
    """Return the number of independent units in each group (G,): of users (U,), or of their clusters (U,)."""
    if clusters is None:
        return np.bincount(group, minlength=n_groups)
    _, unit = np.unique(clusters, return_inverse=True)
    return np.bincount(np.unique(unit * n_groups + group) % n_groups, minlength=n_groups)


def gap_difference(means: GroupMeans, *, level: float = 0.95, shift: float = 0.0) -> ExtremeDifference:
    """Return the gap of a less that of b, plus ``shift``; the level is that of a two-sided interval.

    A gap is the largest difference of two groups, so that the difference of two gaps is the largest, over pairs of
    groups by a, of the smallest, over pairs by b, of contrasts of four means. Each contrast has Student's bound, with
    the fewest degrees of freedom of its groups, corrected for the number of ordered pairs.
    """
    means = means.smoothed
    high, low = (index.ravel() for index in np.indices((len(means.a),) * 2))
    pairs = high != low
    high, low = high[pairs], low[pairs]

    def contrast(of: Floats) -> Floats:
        of_pairs: Floats = of[high] - of[low]
        return of_pairs

    def covariance(of: Floats) -> Floats:
        return contrast(contrast(of).T).T

    degrees = np.minimum(means.degrees[high], means.degrees[low])
    return _difference(
        contrast(means.a), contrast(means.b),
        np.diag(covariance(means.of_a)), np.diag(covariance(means.of_b)), covariance(means.of_both),
        degrees, means.seeds, groups=2, level=level, shift=shift, highest=True,
    )  # fmt: skip


def worst_difference(
    means: GroupMeans, direction: int, *, level: float = 0.95, shift: float = 0.0
) -> ExtremeDifference:
    """Return the worst mean of a less that of b, plus ``shift``; as ``gap_difference``, with contrasts of two means.

    Args:
        means: Of the groups.
        direction: 1 where higher values are better: the worst is the lowest mean. -1: it is the highest.
        level: Of a two-sided interval.
        shift: Added to the difference.
    """
    means = means.smoothed
    return _difference(
        means.a, means.b, np.diag(means.of_a), np.diag(means.of_b), means.of_both,
        means.degrees, means.seeds, groups=1, level=level, shift=shift, highest=direction < 0,
    )  # fmt: skip


def _difference(
    a: Floats,
    b: Floats,
    of_a: Floats,
    of_b: Floats,
    of_both: Floats,
    degrees: Floats,
    seeds: Sequence[SeedSpread | None],
    *,
    groups: int,
    level: float,
    shift: float,
    highest: bool,
) -> ExtremeDifference:
    """Return the highest of a less the highest of b, or the lowest less the lowest, of contrasts (P,).

    Args:
        a, b: Contrasts by each model.
        of_a, of_b: Their variances.
        of_both: Covariances of those by a, in rows, with those by b (P, P).
        degrees: Of freedom of each contrast.
        seeds: Spread of the mean of each model.
        groups: Number of means in a contrast.
        level, shift: As of ``gap_difference``.
        highest: Whether extremes are the highest contrasts.
    """
    contrast = a[:, None] - b
    contrast[np.abs(contrast) <= ROUNDING * np.maximum(np.abs(a)[:, None], np.abs(b))] = 0
    contrast += shift
    whole = of_a[:, None] + of_b
    variance = whole - 2 * of_both
    variance[variance <= ROUNDING * whole] = 0
    freedom = np.minimum(degrees[:, None], degrees)
    variance, freedom = _with_seeds(variance, freedom, [s for s in seeds if s is not None], groups)
    if not highest:  # the lowest of a less that of b is the highest of -b less that of -a
        contrast, variance, freedom = contrast.T, variance.T, freedom.T
    error = np.sqrt(variance)
    distinct, position = np.unique(freedom, return_inverse=True)  # few, and their quantiles take long
    half = special.stdtrit(distinct, 1 - (1 - level) / (2 * len(a)))[position.reshape(freedom.shape)] * error
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(contrast == 0, 0, contrast / error)
    tail = special.stdtr(freedom, -np.abs(statistic))
    above, below = np.where(statistic > 0, tail, 1 - tail), np.where(statistic > 0, 1 - tail, tail)
    return ExtremeDifference(
        value=float(contrast.min(axis=1).max()),
        low=float((contrast - half).max(axis=0).min()),
        high=float((contrast + half).min(axis=1).max()),
        p_above=_p(len(a) * above.min(axis=0).max()),
        p_below=_p(len(a) * below.min(axis=1).max()),
    )


def _p(value: float) -> float:
    return float(min(max(value, LEAST_P), 1.0))


def _with_seeds(
    variance: Floats, degrees: Floats, seeds: Sequence[SeedSpread], groups: int
) -> tuple[Floats, Floats]:
    """Return variances of contrasts with those of seeds added, and their degrees of freedom (Welch)."""
    if not seeds:
        return variance, degrees
    added = [(groups * spread.error**2, spread.seeds - 1) for spread in seeds]
    total = variance + sum(part for part, _ in added)
    split = variance**2 / degrees + sum(part**2 / freedom for part, freedom in added)
    return total, np.divide(total**2, split, out=degrees.copy(), where=split > 0)


def _corrected_bounds(
    intervals: Sequence[Interval], degrees: Floats, bounds: int, means: GroupMeans | None
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of the means of groups, of which as many hold together (Bonferroni), (G,) each.

    A group of few users that has a low mean by chance also has a small spread, and so an upper bound that is too low.
    Values of 0 and above have Wilson's bound too, if it is higher (1927, "Probable inference, the law of succession,
    and statistical inference"): it takes the spread that values with the bound as their mean have (``_size``).
    """
    mean, below, above = _sides(intervals)
    error = (1 - intervals[0].level) / 2
    corrected, alone = (special.stdtrit(degrees, 1 - error / n).astype(np.float64) for n in (bounds, 1))
    wider = corrected / alone
    lowest, highest = mean - below * wider, mean + above * wider
    if means is not None and means.is_positive:
        units, quantile = means.degrees + 1, special.stdtrit(means.degrees, 1 - error / bounds)
        size = _size(units, means.a, np.diag(means.of_a))
        wide, half = units + quantile**2, units * means.a + quantile**2 * size / 2
        wilson = (half + np.sqrt(np.maximum(half**2 - wide * units * means.a**2, 0))) / wide
        highest = np.maximum(highest, wilson)
    return lowest, highest


def _size(units: Floats, mean: Floats, variance: Floats) -> float:
    """Return the mean size of values above 0, each weighted by itself, over all groups; 1 for values of 0 and 1.

    If groups differ in how many of their values are 0, but not in the others, values with a mean have the variance
    ``mean * size - mean**2``.

    Args:
        units: Independent ones of each group (G,).
        mean, variance: Of the group, and of its mean (G,).
    """
    values = float((units * mean).sum())
    return float((units * (units * variance + mean**2)).sum()) / values if values else 0.0


def _sides(intervals: Sequence[Interval]) -> tuple[Floats, Floats, Floats]:
    """Return the means of intervals, and how far their bounds are below and above them, each (G,)."""
    mean, low, high = (np.array([getattr(i, name) for i in intervals]) for name in ("mean", "low", "high"))
    return mean, mean - low, high - mean


def _root_of_squares(a: Floats, b: Floats, correlation: Floats) -> Floats:
    """Return the half-widths (G, G) of the differences of means with half-widths a (in rows) and b (in columns)."""
    a = a[:, None]
    root: Floats = np.sqrt(np.maximum(a**2 + b**2 - 2 * correlation * a * b, 0))
    return root
