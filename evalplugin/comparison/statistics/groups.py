"""Gap and worst group: statistics of the means of groups of users, and their paired differences.

The *gap* is the highest mean of a group less the lowest one, the *worst* is the mean of the worst group. The measured
gap is too large on average, and the measured worst mean too bad, as both pick the group with the most luck; a bootstrap
of either repeats this error. So all bounds here are of fixed contrasts of means, of which the true gap or worst mean is
the largest or the smallest: a bound that must hold for all contrasts together is corrected for their number
(Bonferroni), one that must hold for the true extreme contrast alone is not. This is valid for any true means, ties
included, and for groups whose users depend on each other, and needs no random numbers. Sources: Berger 1982,
"Multiparameter hypothesis testing and acceptance sampling" (the uncorrected side); Hsu 1996, "Multiple comparisons:
theory and methods". Rates: experiments/statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import np, npt, sparse, special
from evalplugin.comparison.statistics.intervals import Interval
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


def gap_of(intervals: Sequence[Interval], degrees: Floats, correlation: Floats | None = None) -> Extreme:
    """Return the gap between the means of groups.

    The interval of a difference of two means takes their half-widths, each side on its own (Zou and Donner 2008, as
    ``interval_with_seeds``). The lower bound is the largest of all differences' lower bounds, corrected for the number
    of ordered pairs, and at least 0; the upper bound is the largest of all upper ones.

    Args:
        intervals: Of the mean of each group, two at least, of one level.
        degrees: Of freedom of each (G,).
        correlation: Of the means (G, G), of groups that share clusters; None: independent groups.
    """
    n, level = len(intervals), intervals[0].level
    means, below, above = _sides(intervals)
    r = np.eye(n) if correlation is None else correlation
    wider = _wider(degrees, level, n * (n - 1))
    difference = means[:, None] - means
    lower = difference - _root_of_squares(below * wider, above * wider, r)
    upper = difference + _root_of_squares(above, below, r)
    pairs = ~np.eye(n, dtype=np.bool_)
    highest, lowest = int(np.argmax(means)), int(np.argmin(means))
    return Extreme(
        float(means[highest] - means[lowest]),
        float(np.maximum(lower[pairs].max(), 0)),
        float(upper[pairs].max()),
        (highest, lowest),
    )


def worst_of(intervals: Sequence[Interval], degrees: Floats, direction: int) -> Extreme:
    """Return the mean of the worst group: the lowest one, or the highest where lower values are better.

    Where higher values are better, the lower bound is the lowest of all groups' lower bounds, and the upper bound the
    lowest of the upper ones, corrected for the number of groups.

    Args:
        intervals: Of the mean of each group, of one level.
        degrees: Of freedom of each (G,).
        direction: 1 where higher values are better, -1 where lower ones are.
    """
    means, below, above = _sides(intervals)
    wider = _wider(degrees, intervals[0].level, len(intervals))
    if direction > 0:
        worst, low, high = int(np.argmin(means)), (means - below).min(), (means + above * wider).min()
    else:
        worst, low, high = int(np.argmax(means)), (means - below * wider).max(), (means + above).max()
    return Extreme(float(means[worst]), float(low), float(high), (worst,))


@dataclass(frozen=True, eq=False)
class GroupMeans:
    """Means of groups by two models, a and b, over the same users, with the covariances of their errors."""

    a: Floats  # (G,)
    b: Floats
    of_a: Floats  # covariances (G, G)
    of_b: Floats
    of_both: Floats  # of the means by a (in rows) with those by b (in columns)
    degrees: Floats  # of freedom (G,)
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
        return cls(of_models[0], of_models[1], of_a, of_b, of_both, (units - 1).astype(np.float64))

    @property
    def correlation(self) -> Floats:
        """The correlation of the means by a (G, G); 0 where a mean has no spread."""
        sd = np.sqrt(np.diag(self.of_a))
        products = sd[:, None] * sd
        correlation: Floats = np.divide(self.of_a, products, out=np.zeros_like(products), where=products > 0)
        return np.clip(correlation, -1, 1)

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
    half = special.stdtrit(freedom, 1 - (1 - level) / (2 * len(a))) * error
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(contrast == 0, 0, contrast / error)
    above, below = special.stdtr(freedom, -statistic), special.stdtr(freedom, statistic)
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


def _sides(intervals: Sequence[Interval]) -> tuple[Floats, Floats, Floats]:
    """Return the means of intervals, and how far their bounds are below and above them, each (G,)."""
    mean, low, high = (np.array([getattr(i, name) for i in intervals]) for name in ("mean", "low", "high"))
    return mean, mean - low, high - mean


def _wider(degrees: Floats, level: float, bounds: int) -> Floats:
    """Return by how much wider intervals are, if as many bounds on one side hold together (Bonferroni), (G,)."""
    error = (1 - level) / 2
    corrected, alone = (special.stdtrit(degrees, 1 - error / n).astype(np.float64) for n in (bounds, 1))
    wider: Floats = corrected / alone
    return wider


def _root_of_squares(a: Floats, b: Floats, correlation: Floats) -> Floats:
    """Return the half-widths (G, G) of the differences of means with half-widths a (in rows) and b (in columns)."""
    a = a[:, None]
    root: Floats = np.sqrt(np.maximum(a**2 + b**2 - 2 * correlation * a * b, 0))
    return root
