"""Paired comparisons of two models: difference, interval, tests, effect size; corrections for several of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import special, stats
from evalplugin.comparison.statistics.clusters import (
    Clustered,
    ClusterSpread,
    check_clusters,
    clustered_columns,
)
from evalplugin.comparison.statistics.intervals import (
    Column,
    Interval,
    Method,
    check_interval,
    intervals_of,
)
from evalplugin.comparison.statistics.pairs import PairMoments, paired_difference
from evalplugin.comparison.statistics.permutation import Permuted, all_signs, sign_flip_tests
from evalplugin.comparison.statistics.power import Dependence, detectable_gain
from evalplugin.comparison.statistics.skewness import SkewedT
from evalplugin.metrics.moments import ExactSum

Test = Literal["permutation", "wilcoxon", "t"]
TESTS: tuple[Test, ...] = get_args(Test)

_WILCOXON_EXACT_UP_TO = 13  # differences; scipy tries all signs of these as well, but takes 0.2 s a column
_PERMUTATIONS = 10_000
LEAST_P = sys.float_info.min  # instead of 0 where a p-value underflows


@dataclass(frozen=True)
class Paired:
    """Model a against model b by one metric, over the users for whom both are defined.

    Undefined numbers are NaN. Below two pairs these are the bounds, p-values, effect and detectable difference.
    """

    users: int  # pairs with both defined
    interval: Interval  # of the mean of a - b
    relative: float  # mean difference / mean of b; NaN where that is 0
    effect: float  # Cohen's d_z: mean difference / standard deviation of the differences; NaN without spread
    above: float  # share of users with a > b
    equal: float  # share of users with a == b
    below: float  # share of users with a < b
    p: Mapping[Test, float]  # two-sided, above 0; "permutation" is always there
    # Method of the permutation test: exact, 10,000 sign flips, bound of all sign flips, normal limit.
    permutations: str
    detectable: float  # smallest |mean difference| shown 4 times in 5 with these pairs; NaN without spread
    differing_clusters: int | None = None  # clusters whose sums differ; None: users are independent

    @property
    def differing(self) -> int:
        """The number of users, or clusters of them, for whom the models differ."""
        if self.differing_clusters is not None:
            return self.differing_clusters
        return round(self.users * (self.above + self.below)) if self.users else 0

    @property
    def clusters(self) -> int | None:
        """The number of clusters of users; None: they are independent."""
        return self.interval.clusters

    @property
    def design_effect(self) -> float:
        """Variance of the mean difference over the one that it had with independent users."""
        return self.interval.design_effect

    @property
    def units(self) -> int:
        """The number of independent units: of clusters, or of users."""
        return self.users if self.clusters is None else self.clusters

    @property
    def sd_of_units(self) -> float:
        """Standard deviation between as many independent values as there are units; 0 where none is known."""
        if not (self.effect and math.isfinite(self.effect)):
            return 0.0
        sd = self.interval.mean / self.effect
        return sd if self.clusters is None else sd * math.sqrt(self.design_effect * self.units / self.users)


def compare_pairs(
    a: npt.NDArray[np.float64],
    b: npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    method: Method = "auto",
    tests: Collection[Test] = (),
    clusters: npt.NDArray[np.integer] | None = None,
    rng: np.random.Generator,
) -> list[Paired]:
    """Return the comparison of each column of ``a`` with the same column of ``b``.

    A user counts where both are defined (not NaN); differences within rounding count as equal. Columns do not depend
    on each other.

    The interval is Student's t where ``method`` is ``auto``: differences of two models are nearly symmetric, so the
    bootstrap's correction for skewness corrects noise, and misses the truth more often (experiments/statistics).

    ``permutation`` is the paired permutation test of the mean difference; see ``sign_flip_tests``. ``t`` is the
    paired t test. ``wilcoxon`` is Wilcoxon's signed-rank test without the users where the models are equal
    (Pratt's way of ranking them too makes it a test of who wins more often): it asks whether the differences are
    symmetric around 0, which they need not be when their mean is 0. Equal models have p = 1. Without spread around
    another mean, t's p is NaN; with an infinite score, so are all.

    ``detectable`` is for the two-sided t test at 1 - ``level`` and a power of 80 %; see ``detectable_gain``.

    Where users are in ``clusters``, such as the queries of sessions, interval and t test are those of
    ``clustered_interval``, and the other tests are of the clusters' sums of differences: the permutation test flips the
    signs of all differences of a cluster together. It is exact if the models could be exchanged cluster by cluster.
    Where clusters differ in size, the statistic is ``SkewedT`` in place of the sum, and the interval takes its critical
    value from the same flips: it holds 0 exactly where p is above 1 - ``level``. By the sum, models of one mean whose
    difference depends on the size are called different in 14 % at 5 % (experiments/statistics, unequal_clusters.md).

    Args:
        a, b: float64 (U, C), with the same users as rows.
        level: Of the intervals.
        method: Of the intervals; see above.
        tests: Tests in addition to the permutation test.
        clusters: Codes (U,), equal for users that may depend on each other; None: all are independent.
        rng: Draws the signs and the resamples.

    Raises:
        DataError: Shapes that differ, or an unknown test; otherwise as ``mean_intervals``.
    """
    if a.shape != b.shape:
        raise DataError(f"paired values must be of the same users and columns: {a.shape} against {b.shape}")
    check_interval(level, method)
    for test in tests:
        if test not in TESTS:
            raise DataError(f"there is no paired test {test!r}{did_you_mean(test, TESTS, noun='tests')}")
    check_clusters(clusters, len(a))
    both = ~(np.isnan(a) | np.isnan(b))
    pairs = [(x[ok], y[ok]) for x, y, ok in zip(a.T, b.T, both.T, strict=True)]
    differences = [paired_difference(x, y) for x, y in pairs]
    moments = [PairMoments.of(difference) for difference in differences]
    clustered = clustered_columns(differences, list(both.T), clusters)
    units = [
        _Units(d, m, None) if c is None else _Units.of_clusters(c)
        for d, m, c in zip(differences, moments, clustered, strict=True)
    ]
    method = "t" if method == "auto" else method
    intervals = intervals_of(
        differences, [m.difference for m in moments], level, method, rng, clustered=clustered
    )
    testable = [u.difference if u.moments.is_testable else u.difference[:0] for u in units]
    skewed = [u.skewed for u in units]
    permuted = sign_flip_tests(testable, _PERMUTATIONS, rng, [u.moments for u in units], skewed, level)
    if method == "t":
        intervals = [
            i if t is None else _flipped_interval(i, t, u.spread, p)
            for i, t, u, p in zip(intervals, skewed, units, permuted, strict=True)
        ]
    return [
        _paired(m, ExactSum.of(y).mean, interval, result, {"permutation", *tests}, u)
        for m, (_, y), u, interval, result in zip(moments, pairs, units, intervals, permuted, strict=True)
    ]


def _flipped_interval(
    interval: Interval, statistic: SkewedT, spread: ClusterSpread | None, permuted: Permuted
) -> Interval:
    """Return the interval of a difference that holds 0 exactly where the permutation test does not reject it."""
    assert spread is not None
    low, high = interval.low, interval.high
    if math.isfinite(permuted.critical):
        low, high = statistic.interval(interval.mean, spread.sd, permuted.critical)
    if permuted.p > 1 - interval.level:
        low, high = min(low, 0.0), max(high, 0.0)
    return replace(interval, low=low, high=high, method="flips")


class _Units(NamedTuple):
    """The differences whose signs may change independently: of users, or sums of clusters."""

    difference: Column
    moments: PairMoments
    spread: ClusterSpread | None  # None: of users
    skewed: SkewedT | None = None  # None: the statistic is the sum

    @classmethod
    def of_clusters(cls, clustered: Clustered) -> _Units:
        sums = clustered.sums
        units = cls(sums, PairMoments.of(sums), clustered.spread)
        if not units.moments.is_testable or not units.differing or np.ptp(clustered.sizes) == 0:
            return units
        return units._replace(skewed=SkewedT.of(clustered))

    @property
    def differing(self) -> int:
        return self.moments.above + self.moments.below


def _paired(
    pairs: PairMoments,
    mean_b: float,
    interval: Interval,
    permuted: Permuted,
    tests: Collection[Test],
    units: _Units,
) -> Paired:
    with np.errstate(invalid="ignore", over="ignore"):  # of infinite values
        n, sd = pairs.n, pairs.std
        effect = interval.mean / sd if sd else math.nan
        return Paired(
            users=n,
            interval=interval,
            relative=interval.mean / mean_b if mean_b else math.nan,
            effect=effect,
            above=_share(pairs.above, n),
            equal=_share(n - pairs.above - pairs.below, n),
            below=_share(pairs.below, n),
            p=_p_values(units, interval.mean, effect, permuted, tests),
            permutations=permuted.by,
            detectable=_detectable(sd, n, interval),
            differing_clusters=None if units.spread is None else units.differing,
        )


def _detectable(sd: float, n: int, interval: Interval) -> float:
    clusters = n if interval.clusters is None else interval.clusters
    if not (sd > 0 and interval.design_effect > 0 and clusters > 1):
        return math.nan
    return detectable_gain(
        sd, n, level=interval.level, dependence=Dependence(n / clusters, interval.design_effect)
    )


def _p_values(
    units: _Units, mean: float, effect: float, permuted: Permuted, tests: Collection[Test]
) -> dict[Test, float]:
    ordered = [test for test in TESTS if test in tests]
    if not units.moments.is_testable:
        return dict.fromkeys(ordered, math.nan)
    if not units.differing:
        return dict.fromkeys(ordered, 1.0)
    p: dict[Test, float] = {"permutation": permuted.p}
    if "wilcoxon" in tests:
        p["wilcoxon"] = _wilcoxon(units.difference[units.difference != 0])
    if "t" in tests:
        p["t"] = _t_test(units, mean, effect)
    return {test: float(np.maximum(value, LEAST_P)) for test, value in p.items()}


def _t_test(units: _Units, mean: float, effect: float) -> float:
    if (spread := units.spread) is None:
        n = units.moments.n
        return float(2 * special.stdtr(n - 1, -abs(effect) * math.sqrt(n)))
    return float(2 * special.stdtr(spread.degrees, -abs(mean) / spread.error)) if spread.error else math.nan


def _wilcoxon(nonzero: Column) -> float:
    if len(nonzero) > _WILCOXON_EXACT_UP_TO:
        return float(stats.wilcoxon(nonzero).pvalue)
    return all_signs(np.sign(nonzero) * stats.rankdata(np.abs(nonzero)))


def _share(count: int, n: int) -> float:
    return count / n if n else math.nan


def holm(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return Holm's adjusted p-values (C,): at most a share alpha of families have a false finding below alpha.

    NaN stays NaN and does not count in the family. Source: Holm 1979.
    """
    order = _ascending(p)
    m = len(order)
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(m, 0, -1)), 1)
    return adjusted


def benjamini_hochberg(p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return Benjamini and Hochberg's adjusted p-values (C,): of the findings below alpha, at most alpha are false.

    That is on average over families, for tests that are independent or depend on each other positively, as those of
    many models against one baseline do. NaN stays NaN and does not count in the family. Source: Benjamini and
    Hochberg 1995.
    """
    descending = _ascending(p)[::-1]
    m = len(descending)
    adjusted = np.full(p.shape, np.nan)
    adjusted[descending] = np.minimum.accumulate(p[descending] * (m / np.arange(m, 0, -1)))
    return adjusted


def _ascending(p: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    return np.argsort(p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted last
