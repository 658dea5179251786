"""Statistics of values in clusters, such as the queries of sessions."""

from __future__ import annotations

from math import isnan, nan, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import excludes
from scipy import stats

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.clusters import (
    cluster_means,
    cluster_spread,
    clusters_in_order,
)
from evalplugin.comparison.statistics.intervals import (
    Interval,
    distribution_interval,
    mean_interval,
    mean_intervals,
)
from evalplugin.comparison.statistics.one_sided import lower_bound, p_above
from evalplugin.comparison.statistics.paired import TESTS, Paired, compare_pairs
from evalplugin.comparison.statistics.power import Dependence, detectable_gain, users_needed
from evalplugin.comparison.statistics.seeds import SeedSpread, bound_with_seeds, paired_with_seeds
from evalplugin.metrics.clusters import ClusterMoments
from evalplugin.metrics.distribution import Distribution

METHODS = ("auto", "bootstrap", "t")
FEW = settings(max_examples=30)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@st.composite
def clustered(draw: st.DrawFn, *, columns: int = 1, singles: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Values (n, columns), some undefined, and clusters of 1 to 8 of them, not next to each other."""
    source = rng(draw(st.integers(0, 2**32)))
    n_clusters = draw(st.integers(2, 40))
    sizes = np.ones(n_clusters, dtype=int) if singles else source.integers(1, 9, n_clusters)
    codes = source.permutation(np.repeat(source.permutation(100)[:n_clusters], sizes))
    shape = draw(st.sampled_from(["graded", "zeros", "binary", "rare"]))
    values = source.random((len(codes), columns)) + source.random((100, columns))[codes]
    if shape != "graded":
        share = {"zeros": 0.4, "binary": 0.3, "rare": 0.03}[shape]
        values = np.where(source.random(values.shape) < share, values if shape == "zeros" else 1.0, 0.0)
    values[source.random(values.shape) < draw(st.sampled_from([0.0, 0.1]))] = nan
    return values, codes


def interval(values: np.ndarray, clusters: np.ndarray | None = None, **options: Any) -> Interval:
    return mean_interval(values, clusters=clusters, **({"rng": rng()} | options))


def compare(a: Any, b: Any, clusters: Any, **options: Any) -> Paired:
    a, b = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    (paired,) = compare_pairs(
        a[:, None], b[:, None], clusters=np.array(clusters), **({"tests": TESTS, "rng": rng()} | options)
    )
    return paired


# Golden vectors: three clusters with the values 1, 2 | 3 | 2, 4, 6 have N = 6, the mean 18/6 = 3, the residuals
# 3 - 6 = -3, 3 - 3 = 0 and 12 - 9 = 3, and 1 - n/N of 4/6, 5/6 and 3/6.
VALUES, CLUSTERS = np.array([1.0, 2.0, 3.0, 2.0, 4.0, 6.0]), np.array([5, 5, 9, 2, 2, 2])
ERROR = sqrt((9 / (4 / 6) + 0 + 9 / (3 / 6)) / 36)


def spread_of(values: np.ndarray, clusters: np.ndarray) -> Any:
    codes = clusters_in_order(clusters)
    assert codes is not None
    return cluster_spread(ClusterMoments.of(values, codes))


def test_the_standard_error_by_hand() -> None:
    ours = spread_of(VALUES, CLUSTERS)
    assert ours.error == pytest.approx(ERROR, rel=1e-14)
    independent = (4 + 1 + 0 + 1 + 1 + 9) / 5 / 6  # variance of the mean of six independent values
    assert ours.design_effect == pytest.approx(ERROR**2 / independent, rel=1e-14)
    assert (ours.values, ours.clusters, ours.effective) == (6, 3, 36 / (4 + 1 + 9))


# By the analysis of variance: of the sum of squares of 16, 9/2 + 9/1 + 144/3 - 18^2/6 = 7.5 are between the clusters,
# with 2 degrees of freedom, and 8.5 within, with 3; the typical size is (6 - 14/6) / 2.
BETWEEN, WITHIN, TYPICAL = 7.5 / 2, 8.5 / 3, (6 - 14 / 6) / 2
MODELLED = 1 + (BETWEEN - WITHIN) / (BETWEEN + (TYPICAL - 1) * WITHIN) * (14 / 6 - 1)


def test_the_design_effect_of_one_correlation_by_hand() -> None:
    assert spread_of(VALUES, CLUSTERS).modelled == pytest.approx(MODELLED, rel=1e-14)
    alike = spread_of(np.array([1.0, 1.0, 3.0, 2.0, 2.0, 2.0]), CLUSTERS)
    assert alike.modelled == pytest.approx(14 / 6, rel=1e-14)
    opposite = spread_of(np.array([1.0, 3.0, 2.0, 1.0, 2.0, 3.0]), CLUSTERS)
    assert opposite.modelled == 1.0


def test_degrees_of_freedom_are_those_of_the_matrix_of_covariances() -> None:
    ours = spread_of(VALUES, CLUSTERS)
    sizes = np.array([2, 1, 3])
    r = (ours.design_effect - 1) / (14 / 6 - 1)
    assert 0 < r < 1
    covariance = np.diag(sizes * (1 + (sizes - 1) * r))  # of the clusters' sums
    residual = np.eye(3) - np.outer(sizes / 6, np.ones(3))
    scale = np.diag(1 / np.sqrt(1 - sizes / 6))
    m = scale @ residual @ covariance @ residual.T @ scale
    assert ours.degrees == pytest.approx(np.trace(m) ** 2 / np.sum(m**2), rel=1e-12)


def test_the_t_interval_by_hand() -> None:
    ours = interval(VALUES, CLUSTERS, method="t")
    half = stats.t.ppf(0.975, spread_of(VALUES, CLUSTERS).degrees) * ERROR
    assert (ours.low, ours.high) == (pytest.approx(3 - half), pytest.approx(3 + half))
    assert (ours.mean, ours.n, ours.clusters) == (3.0, 6, 3)
    assert ours.design_effect == spread_of(VALUES, CLUSTERS).design_effect


def test_the_interval_of_bounded_values_by_hand() -> None:
    # VALUES have a variance of 16/6; values of 0 and 60 with the same mean of 3 have 3 * 57.
    ours, spread = interval(VALUES, CLUSTERS, bounds=(0, 60)), spread_of(VALUES, CLUSTERS)
    measured = spread.design_effect * stats.t.ppf(0.975, spread.degrees) ** 2
    modelled = MODELLED * stats.t.ppf(0.975, 2) ** 2
    units = 6 / max(measured, modelled) * stats.t.ppf(0.975, 5) ** 2 * 171 / (16 / 6)
    student = interval(VALUES, CLUSTERS, method="t")
    assert ours.method == "t"
    assert ours.high == pytest.approx(60 * stats.beta.ppf(0.975, units / 20 + 1, units * 19 / 20))
    assert (ours.low, student.low < 0 < ours.high - student.high) == (0, True)
    unbounded = interval(VALUES, CLUSTERS, bounds=(0, np.inf))
    assert (unbounded.low, unbounded.high) == (0, student.high)


def test_small_clusters_show_the_correlation_where_no_large_one_has_a_hit() -> None:
    # 25 of 300 pairs are hits, none of 3 clusters of 100: all values of a cluster are equal, as if there were
    # 900^2 / (300 * 2^2 + 3 * 100^2) clusters of one size.
    values = np.repeat([1.0, 0.0, 0.0], [50, 550, 300])
    clusters = np.repeat(np.arange(303), [2] * 300 + [100] * 3)
    ours, effective = interval(values, clusters), 900**2 / (300 * 4 + 3 * 10_000)
    units = effective * (stats.t.ppf(0.975, 899) / stats.t.ppf(0.975, 302)) ** 2
    x = 50 / 900 * units
    assert spread_of(values, clusters).design_effect < 5
    assert spread_of(values, clusters).modelled == pytest.approx(900 / effective)
    assert ours.method == "effective"
    assert ours.high == pytest.approx(stats.beta.ppf(0.975, x + 1, units - x))
    assert ours.low == pytest.approx(stats.beta.ppf(0.025, x, units - x + 1))


def test_cluster_means_by_hand() -> None:
    values = np.array([1.0, 2.0, nan, 2.0, 4.0, nan])
    np.testing.assert_array_equal(cluster_means(values, CLUSTERS), [1.5, nan, 3.0])
    assert cluster_means(values, np.arange(6)) is values


@given(st.integers(0, 2**32), st.integers(2, 30), st.integers(2, 6))
def test_clusters_of_one_size_have_students_interval_of_their_means(seed: int, n: int, size: int) -> None:
    values = rng(seed).random((n, size)) + rng(seed + 1).random((n, 1))
    ours = interval(values.ravel(), np.repeat(np.arange(n), size), method="t")
    theirs = interval(values.mean(axis=1), method="t")
    assert (ours.low, ours.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    assert spread_of(values.ravel(), np.repeat(np.arange(n), size)).degrees == pytest.approx(n - 1)


def test_the_permutation_test_flips_whole_clusters() -> None:
    # Of the 16 ways to choose the signs of the sums 3, 2, 1, 1, three give at least 3 + 2 + 1 - 1 = 5: 7 once and 5
    # twice. As many give at most -5.
    ours = compare([1, 2, 2, 1, -1], [0, 0, 0, 0, 0], [0, 0, 1, 2, 3])
    assert (ours.p["permutation"], ours.permutations) == (2 * 3 / 16, "exact")
    assert (ours.users, ours.clusters, ours.differing) == (5, 4, 4)
    balanced = compare([1, -1, 2, -2], [0, 0, 0, 0], [0, 0, 1, 1])
    assert (balanced.p["permutation"], balanced.differing) == (1.0, 0)
    rounded = compare([0.1, 0.2, -0.3, 0.5], [0, 0, 0, 0], [0, 0, 0, 1])
    assert (rounded.differing, rounded.p["permutation"]) == (1, 1.0)


@FEW
@given(clustered(columns=2, singles=True), st.sampled_from(METHODS))
def test_clusters_of_one_value_change_no_bit(sample: tuple[np.ndarray, np.ndarray], method: Any) -> None:
    values, clusters = sample
    ours = mean_intervals(values, method=method, clusters=clusters, rng=rng())
    assert repr(ours) == repr(mean_intervals(values, method=method, rng=rng()))
    a, b = values[:, :1], values[:, 1:]
    pairs = compare_pairs(a, b, tests=TESTS, clusters=clusters, rng=rng())
    assert repr(pairs) == repr(compare_pairs(a, b, tests=TESTS, rng=rng()))
    scores = np.nan_to_num(values)
    assert (
        may_be_best(scores, clusters=clusters, rng=rng()).tolist() == may_be_best(scores, rng=rng()).tolist()
    )
    column = scores[:, 0]
    assert repr(lower_bound(column, clusters=clusters)) == repr(lower_bound(column))
    assert repr(p_above(column, 0.1, clusters=clusters)) == repr(p_above(column, 0.1))
    assert cluster_means(column, clusters) is column
    by_users = {"users": np.arange(len(column))}
    of_singles = Distribution.of(values[:, 0], clusters=clusters, **by_users)
    assert repr(distribution_interval(of_singles, rng=rng())) == repr(
        distribution_interval(Distribution.of(values[:, 0], **by_users), rng=rng())
    )


@FEW
@given(clustered(columns=2), st.sampled_from(METHODS), st.integers(0, 2**32))
def test_relabelling_clusters_changes_nothing(sample, method, seed):
    values, clusters = sample
    other = rng(seed).permutation(1000)[:100][clusters]
    assert repr(mean_intervals(values, method=method, clusters=clusters, rng=rng())) == repr(
        mean_intervals(values, method=method, clusters=other, rng=rng())
    )
    a, b = values[:, :1], values[:, 1:]
    assert repr(compare_pairs(a, b, tests=TESTS, clusters=clusters, rng=rng())) == repr(
        compare_pairs(a, b, tests=TESTS, clusters=other, rng=rng())
    )
    scores = np.nan_to_num(values)
    stays = [may_be_best(scores, clusters=codes, rng=rng()).tolist() for codes in (clusters, other)]
    assert stays[0] == stays[1]
    assert repr(lower_bound(scores[:, 0], clusters=clusters)) == repr(
        lower_bound(scores[:, 0], clusters=other)
    )


@given(clustered(), st.sampled_from(METHODS))
def test_the_mean_is_that_over_values(sample: tuple[np.ndarray, np.ndarray], method: Any) -> None:
    values, clusters = sample[0][:, 0], sample[1]
    ours = interval(values, clusters, method=method)
    assert ours.mean == interval(values, method="t").mean or isnan(ours.mean)
    assert not ours.low > ours.mean + 1e-12
    assert not ours.high < ours.mean - 1e-12


@given(clustered(), st.sampled_from([1.0, 0.5]), st.sampled_from([0.8, 0.95, 0.99]))
def test_intervals_are_no_narrower_than_by_the_measured_design_effect(sample, scale, level):
    defined = ~np.isnan(sample[0][:, 0])
    values, clusters = sample[0][defined, 0] * scale, sample[1][defined]
    ours = interval(values, clusters, level=level)
    if ours.method == "t":
        student = interval(values, clusters, level=level, method="t")
        assert ours.low <= max(student.low, 0)
        assert ours.high >= (min(student.high, 1) if values.max() <= 1 else student.high)
    elif ours.method == "effective" and 0 < ours.mean < 1:
        spread = spread_of(values, clusters)
        hits = cluster_means(values, clusters)
        if 2 * (other := min(np.count_nonzero(hits), np.count_nonzero(hits < 1))) < len(hits) and other < 20:
            return  # the values of a cluster are taken to be all equal
        few = stats.t.ppf((1 + level) / 2, len(values) - 1) / stats.t.ppf((1 + level) / 2, spread.degrees)
        units = max(len(values) / max(spread.design_effect, 1) * few**2, 1)
        x = ours.mean * units
        assert ours.low <= stats.beta.ppf((1 - level) / 2, x, units - x + 1) + 1e-9
        assert ours.high >= stats.beta.ppf((1 + level) / 2, x + 1, units - x) - 1e-9


@given(clustered(), st.sampled_from([1.0, 0.5]))
def test_the_interval_of_misses_mirrors_that_of_hits(sample, scale):
    values = np.round(np.clip(sample[0][:, 0] * scale, 0, 1) * 64) / 64  # whose complements are exact
    hits, misses = interval(values, sample[1]), interval(1 - values, sample[1])
    if hits.clusters is not None:
        assert (misses.low, misses.high) == pytest.approx(
            (1 - hits.high, 1 - hits.low), nan_ok=True, abs=1e-9
        )
        assert misses.method == hits.method


@given(clustered())
def test_undefined_values_are_left_out(sample: tuple[np.ndarray, np.ndarray]) -> None:
    values, clusters = sample[0][:, 0], sample[1]
    defined = ~np.isnan(values)
    assert repr(interval(values, clusters)) == repr(interval(values[defined], clusters[defined]))


@given(clustered(), st.data())
def test_a_distribution_in_parts_has_the_same_interval(sample, data):
    values, clusters = sample[0][:, 0], sample[1]
    part = rng(data.draw(st.integers(0, 2**32))).integers(0, 3, 100)[clusters]
    users = np.arange(len(values))
    parts = [
        Distribution.of(values[part == i], users[part == i], clusters[part == i])
        for i in data.draw(st.permutations(range(3)))
    ]
    merged = distribution_interval(Distribution.merge(parts), rng=rng())
    assert repr(merged) == repr(interval(values, clusters))


def test_values_of_0_and_1_are_as_many_as_the_design_effect_leaves() -> None:
    clusters = np.repeat(np.arange(100), 10)
    alike = np.repeat(rng(1).random(100) < 0.3, 10).astype(float)
    ours = interval(alike, clusters)
    hits = int(alike.sum()) // 10
    theirs = stats.binomtest(hits, 100).proportion_ci(method="exact")
    assert (ours.method, ours.design_effect) == ("effective", pytest.approx(10, rel=0.02))
    # Student's quantile of 99 degrees of freedom makes them a little fewer.
    assert ours.low == pytest.approx(theirs.low, abs=0.005)
    assert ours.high == pytest.approx(theirs.high, abs=0.005)


def test_rare_hits_are_those_of_clusters_whose_values_are_all_equal() -> None:
    values, clusters = np.zeros(500), np.repeat(np.arange(50), 10)
    none = interval(values, clusters)
    assert (none.low, none.high, none.method) == (0, pytest.approx(1 - 0.025 ** (1 / 50)), "effective")
    values[[3, 77, 78]] = 1
    few = interval(values, clusters)
    assert (few.low, few.high) == pytest.approx(
        (stats.beta.ppf(0.025, 0.3, 50 - 0.3 + 1), stats.beta.ppf(0.975, 0.3 + 1, 50 - 0.3))
    )


def test_values_that_differ_in_few_clusters_have_a_bound() -> None:
    values, clusters = np.zeros(500), np.repeat(np.arange(50), 10)
    values[[3, 77, 78]] = 0.5
    ours = interval(values, clusters)
    assert (ours.method, ours.low) == ("bound", 0)
    assert ours.high == pytest.approx(stats.binomtest(2, 50).proportion_ci(method="exact").high)
    unbounded = interval(values, clusters, bounds=(0, np.inf))
    assert unbounded.method == "none"
    assert isnan(unbounded.low)


def test_one_cluster_has_no_bounds() -> None:
    values = np.array([0.2, 0.4, 0.9])
    for method in METHODS:
        ours = interval(values, np.zeros(3, dtype=int), method=method)
        assert (ours.mean, ours.clusters) == (pytest.approx(0.5), 1)
        assert isnan(ours.low)
        assert isnan(ours.high)
    assert isnan(lower_bound(values, clusters=np.zeros(3, dtype=int)))
    paired = compare(values, values[::-1], [0, 0, 0])
    assert all(isnan(p) for p in paired.p.values())
    assert isnan(paired.detectable)
    assert may_be_best(
        np.stack([values, 2 * values], axis=1), clusters=np.zeros(3, dtype=int), rng=rng()
    ).all()


@pytest.mark.parametrize("method", ["bootstrap", "t"])
def test_equal_values_make_an_interval_of_no_width(method: Any) -> None:
    ours = interval(np.full(12, 0.1), np.repeat(np.arange(4), [1, 2, 4, 5]), method=method)
    assert (ours.mean, ours.low, ours.high) == (0.1, 0.1, 0.1)
    balanced = interval(np.tile([0.25, 0.75], 6), np.repeat(np.arange(6), 2), method=method)
    assert (balanced.low, balanced.high) == (0.5, 0.5)


def test_an_infinite_value_has_no_bounds() -> None:
    values, clusters = np.array([0.5, np.inf, 0.1, 0.2]), np.array([0, 0, 1, 1])
    assert isnan(interval(values, clusters).low)
    assert isnan(lower_bound(values, clusters=clusters))


@pytest.mark.parametrize("method", ["bootstrap", "t"])
def test_clusters_widen_the_interval_by_the_design_effect(method: Any) -> None:
    values = np.repeat(rng(2).random(300), 5) + 0.01 * rng(3).random(1500)
    clusters = np.repeat(np.arange(300), 5)
    wide, narrow = interval(values, clusters, method=method), interval(values, method=method)
    ratio = (wide.high - wide.low) / (narrow.high - narrow.low)
    assert wide.design_effect == pytest.approx(5, rel=0.01)
    assert ratio == pytest.approx(sqrt(5), rel=0.1)
    assert (narrow.clusters, narrow.design_effect) == (None, 1.0)


def test_repeated_pairs_tell_nothing_more() -> None:
    a, b = rng(4).random(40) + 0.1, rng(5).random(40)
    once = compare(a, b, np.arange(40))
    ours = compare(np.repeat(a, 3), np.repeat(b, 3), np.repeat(np.arange(40), 3))
    assert ours.p["permutation"] == once.p["permutation"]
    assert ours.p["wilcoxon"] == once.p["wilcoxon"]
    assert ours.p["t"] == pytest.approx(once.p["t"], rel=1e-9)
    assert (ours.interval.low, ours.interval.high) == pytest.approx((once.interval.low, once.interval.high))
    assert (ours.users, ours.clusters, ours.units) == (120, 40, 40)
    assert ours.sd_of_units == pytest.approx(once.sd_of_units)
    assert ours.detectable == pytest.approx(once.detectable, rel=1e-9)
    spread = SeedSpread(0.02, 5)
    wide = [paired_with_seeds(paired, spread, None) for paired in (ours, once)]
    assert wide[0].interval.low == pytest.approx(wide[1].interval.low)
    assert wide[0].p["t"] == pytest.approx(wide[1].p["t"])


@FEW
@given(clustered(), st.sampled_from([0.8, 0.95, 0.99]))
def test_p_and_bound_agree(sample: tuple[np.ndarray, np.ndarray], level: float) -> None:
    values, clusters = np.nan_to_num(sample[0][:, 0]), sample[1]
    bound = lower_bound(values, level=level, clusters=clusters)
    for limit in (bound - 1e-6, bound + 1e-6):
        assert (p_above(values, limit, clusters=clusters) < 1 - level) == (bound > limit) or not values.std()
    spreads = [SeedSpread(0.01, 5)]
    assert bound_with_seeds(values, spreads, level=level, clusters=clusters) <= bound


def test_power_counts_clusters_and_tells_values() -> None:
    independent = detectable_gain(0.3, 100)
    assert detectable_gain(0.3, 500, dependence=Dependence(5, 5)) == pytest.approx(independent)
    assert detectable_gain(0.3, 500, dependence=Dependence(5)) < independent
    assert users_needed(0.3, 0.05, dependence=Dependence(5, 5)) == 5 * users_needed(0.3, 0.05)
    assert users_needed(0.3, 1e-5, dependence=Dependence(2.5)) == pytest.approx(
        users_needed(0.3, 1e-5), rel=1e-6
    )


@given(st.floats(1, 50), st.floats(0.5, 60), st.floats(0.01, 1))
def test_as_many_values_as_are_needed_detect_the_gain(size: float, effect: float, gain: float) -> None:
    needed = users_needed(0.4, gain, dependence=Dependence(size, effect))
    assert detectable_gain(0.4, needed, dependence=Dependence(size, effect)) <= gain * (1 + 1e-9)


@pytest.mark.parametrize(
    ("dependence", "message"),
    [
        (Dependence(0.5), "mean size of clusters must be at least 1, not 0.5"),
        (Dependence(design_effect=0.0), "design effect must be above 0, not 0"),
        (Dependence(design_effect=nan), "design effect must be above 0, not nan"),
        (Dependence(80.0), "not 100 in clusters of 80: at least 2 clusters"),
    ],
)
def test_power_refuses_impossible_clusters(dependence: Dependence, message: str) -> None:
    with pytest.raises(DataError, match=message):
        detectable_gain(0.3, 100, dependence=dependence)


def test_models_that_differ_in_few_clusters_may_all_be_best() -> None:
    source = rng(7)
    clusters = np.repeat(np.arange(10), 50)
    gain = np.repeat(source.standard_normal(10), 50) * 0.1 + 0.03
    scores = np.stack([source.random(500) * 0.01, source.random(500) * 0.01 + gain], axis=1)
    assert may_be_best(scores, rng=rng()).tolist() != [True, True]
    assert may_be_best(scores, clusters=clusters, rng=rng()).tolist() == [True, True]


def test_clusters_of_other_values_are_refused() -> None:
    values = np.zeros((4, 2))
    for clusters, message in [
        (np.arange(3), "each of 4 values"),
        (np.zeros(4), "whole numbers, not float64"),
    ]:
        calls = [
            lambda: mean_intervals(values, clusters=clusters, rng=rng()),  # noqa: B023
            lambda: compare_pairs(values, values, clusters=clusters, rng=rng()),  # noqa: B023
            lambda: may_be_best(values, clusters=clusters, rng=rng()),  # noqa: B023
            lambda: lower_bound(values[:, 0], clusters=clusters),  # noqa: B023
            lambda: cluster_means(values[:, 0], clusters),  # noqa: B023
        ]
        for call in calls:
            with pytest.raises(DataError, match=message):
                call()


def sessions(source: np.random.Generator, n: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores of two models alike (queries, 2), and the session of each query: 1 to 50 queries."""
    sizes = np.clip(np.exp(source.standard_normal(n) + 1), 1, 50).astype(int)
    codes = np.repeat(np.arange(n), sizes)
    common, own = source.random((n, 2))[codes], source.random((len(codes), 2))
    shares = np.where(source.random((len(codes), 1)) < sqrt(correlation), common, own)
    return np.maximum(0, shares - 0.6) / 0.4, codes


def test_intervals_and_tests_of_sessions_keep_what_they_promise() -> None:
    source, bakeoffs = rng(11), 250
    missed, wrong = {"naive": 0, "clusters": 0}, {"naive": 0, "clusters": 0}
    for _ in range(bakeoffs):
        scores, codes = sessions(source, 100, 0.4)
        for name, clusters in (("naive", None), ("clusters", codes)):
            missed[name] += excludes(interval(scores[:, 0], clusters, method="t"), 0.2)
            difference = scores[:, 0] - scores[:, 1]
            wrong[name] += p_above(difference, clusters=clusters) <= 0.05
    assert missed["clusters"] / bakeoffs < 0.09 < 0.25 < missed["naive"] / bakeoffs
    assert wrong["clusters"] / bakeoffs < 0.09 < 0.12 < wrong["naive"] / bakeoffs


def test_intervals_of_rare_hits_in_few_large_sessions_hold_the_true_mean() -> None:
    source, bakeoffs = rng(12), 200
    missed = 0
    for _ in range(bakeoffs):
        sizes = np.clip((1 - source.random(1000)) ** (-1 / 1.1), 1, 200).astype(
            int
        )  # half are 1, few 100 and more
        codes = np.repeat(np.arange(1000), sizes)
        shared, own = source.random(1000)[codes], source.random(len(codes))
        hits = np.where(source.random(len(codes)) < sqrt(0.8), shared, own) < 0.03
        missed += excludes(interval(hits * 1.0, codes), 0.03)
    assert missed / bakeoffs < 0.05
