"""Gap between groups and worst group: intervals, and paired differences of two models."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from evalplugin.comparison.statistics.groups import (
    GroupMeans,
    gap_difference,
    gap_of,
    units_of,
    worst_difference,
    worst_of,
)
from evalplugin.comparison.statistics.intervals import Interval, mean_interval
from evalplugin.comparison.statistics.seeds import SeedSpread

seeds = st.integers(0, 2**32 - 1)


def interval(mean: float, half: float, level: float = 0.95) -> Interval:
    return Interval(mean, mean - half, mean + half, level, "t", 100)


def simulated(seed: int, n_groups: int = 3, n_users: int = 120) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of two models on the same users, and the users' groups, each of which has ten users at least."""
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.repeat(np.arange(n_groups), 10), rng.integers(0, n_groups, n_users)])
    common = rng.random(len(group))
    a, b = (common * rng.random(len(group)) + rng.random(n_groups)[group] / 4 for _ in range(2))
    return a, b, group


def means_of(seed: int, **changes: object) -> GroupMeans:
    a, b, group = simulated(seed)
    return GroupMeans.of(a, b, group, 3, **changes)


def test_the_gap_of_two_groups_by_hand() -> None:
    found = gap_of([interval(0.3, 0.05), interval(0.5, 0.1)], np.array([49.0, 99.0]))
    wider = [t.ppf(1 - 0.025 / 2, n) / t.ppf(1 - 0.025, n) for n in (49, 99)]
    assert (found.value, found.groups) == (pytest.approx(0.5 - 0.3), (1, 0))
    assert found.high == pytest.approx(0.2 + math.sqrt(0.1**2 + 0.05**2))
    assert found.low == pytest.approx(0.2 - math.sqrt((0.1 * wider[1]) ** 2 + (0.05 * wider[0]) ** 2))


def test_the_gap_of_groups_that_are_alike_may_be_none() -> None:
    found = gap_of([interval(0.3, 0.05), interval(0.31, 0.05), interval(0.29, 0.05)], np.full(3, 99.0))
    assert found.low == 0
    assert found.high == pytest.approx(0.02 + math.sqrt(2) * 0.05)


def test_correlated_means_have_a_narrower_gap() -> None:
    both = [interval(0.3, 0.06), interval(0.5, 0.08)]
    covariance = np.array([[4, 3], [3, 9]])  # a correlation of 0.5
    means = GroupMeans(*np.zeros((2, 2)), covariance, covariance, covariance, np.full(2, 99.0))
    found = gap_of(both, np.full(2, 99.0), means)
    assert found.high == pytest.approx(0.2 + math.sqrt(0.06**2 + 0.08**2 - 2 * 0.5 * 0.06 * 0.08))


def test_the_worst_group_by_hand() -> None:
    groups = [interval(0.5, 0.1), interval(0.3, 0.02), interval(0.32, 0.06)]
    wider = t.ppf(1 - 0.025 / 3, 99) / t.ppf(0.975, 99)
    found = worst_of(groups, np.full(3, 99.0), 1)
    assert (found.value, found.groups) == (0.3, (1,))
    assert found.low == pytest.approx(0.32 - 0.06)  # of the third group, which may be the worst
    assert found.high == pytest.approx(0.3 + 0.02 * wider)


def test_the_worst_group_by_an_error_is_the_highest() -> None:
    groups = [interval(0.5, 0.1), interval(0.3, 0.02), interval(0.32, 0.06)]
    mirrored = [replace(i, mean=-i.mean, low=-i.high, high=-i.low) for i in groups]
    found, mirror = worst_of(groups, np.full(3, 99.0), 1), worst_of(mirrored, np.full(3, 99.0), -1)
    assert (mirror.value, mirror.low, mirror.high) == (-found.value, -found.high, -found.low)
    assert mirror.groups == found.groups


def test_a_group_without_bounds_leaves_none() -> None:
    groups = [interval(0.5, 0.1), Interval(0.2, math.nan, math.nan, 0.95, "none", 40)]
    for found in (gap_of(groups, np.full(2, 39.0)), worst_of(groups, np.full(2, 39.0), 1)):
        assert math.isfinite(found.value)
        assert math.isnan(found.low)
        assert math.isnan(found.high)


def test_the_worst_of_one_group_is_its_mean_with_its_interval() -> None:
    found = worst_of([interval(0.3, 0.05)], np.array([99.0]), 1)
    assert (found.value, found.low, found.high) == pytest.approx((0.3, 0.25, 0.35))


def test_the_difference_of_two_gaps_by_hand() -> None:
    # Group 0: a 1, 2, 3, b 1, 1, 1. Group 1: a 11, 11, 14, b 6, 7, 8.
    a, b = np.array([1.0, 2, 3, 11, 11, 14]), np.array([1.0, 1, 1, 6, 7, 8])
    found = gap_difference(GroupMeans.of(a, b, np.repeat([0, 1], 3), 2))
    # The gaps are 12 - 2 and 7 - 1. Differences have variances of 1 in group 0 (0, 1, 2) and in group 1 (5, 4, 6).
    assert found.value == pytest.approx((12 - 2) - (7 - 1))
    error = math.sqrt(1 / 3 + 1 / 3)
    half = t.ppf(1 - 0.025 / 2, 2) * error
    assert (found.low, found.high) == pytest.approx((4 - half, 4 + half))
    assert found.p_above == pytest.approx(2 * t.sf(4 / error, 2))
    assert found.p == pytest.approx(2 * found.p_above)


def test_the_difference_of_two_worst_groups_by_hand() -> None:
    # Group 0 is the worst by a, group 1 by b, each by far.
    a, b = np.array([1.0, 2, 3, 101, 101, 104]), np.array([90.0, 91, 95, 6, 7, 8])
    found = worst_difference(GroupMeans.of(a, b, np.repeat([0, 1], 3), 2), 1)
    assert found.value == pytest.approx(2 - 7)
    half = t.ppf(1 - 0.025 / 2, 2) * math.sqrt(1 / 3 + 1 / 3)
    assert (found.low, found.high) == pytest.approx((-5 - half, -5 + half))


def test_the_upper_bound_of_a_group_with_few_hits_is_wilsons_where_that_is_higher() -> None:
    # Of 40 users each, 4 and 20 have a hit: for values of 0 and 1 the size of a hit is 1.
    values, group = np.repeat([1.0, 0, 1, 0], [4, 36, 20, 20]), np.repeat([0, 1], 40)
    intervals = [interval(0.1, 0.01), interval(0.5, 0.01)]
    degrees = np.full(2, 39.0)
    found = worst_of(intervals, degrees, 1, GroupMeans.of(values, values, group, 2))
    q = t.ppf(1 - 0.025 / 2, 39)
    centre, half = 0.1 + q**2 / 80, q * math.sqrt(0.1 * 0.9 / 40 + q**2 / 6400)
    # The variance of a group has n - 1 in it, and so the size is not exactly 1.
    assert found.high == pytest.approx((centre + half) / (1 + q**2 / 40), rel=0.02)
    assert found.low == worst_of(intervals, degrees, 1).low
    negative = GroupMeans.of(-values, -values, group, 2)
    assert worst_of(intervals, degrees, 1, negative) == worst_of(intervals, degrees, 1)


def test_groups_without_hits_leave_differences_uncertain() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], [30, 1000])
    a, b = (rng.random((2, 1030)) > 0.9) * (group == 1)
    means = GroupMeans.of(a.astype(float), b.astype(float), group, 2)
    assert means.of_a[0, 0] == means.of_b[0, 0] == 0
    moved = 2 / 34  # of 30 values of 0, and four more of which two are hits
    assert means.smoothed.of_a[0, 0] == pytest.approx(moved * (1 - moved) / 30, rel=0.01)
    np.testing.assert_array_equal(means.smoothed.of_a[1], means.of_a[1])  # 100 hits are enough
    found = worst_difference(means, 1)
    assert found.value == 0
    assert found.low < -0.05
    assert found.high > 0.05
    assert worst_difference(means, 1, shift=0.01).p_above > 0.05


@given(seeds)
def test_gap_and_worst_obey_their_laws(seed: int) -> None:
    a, _, group = simulated(seed)
    rng = np.random.default_rng(0)
    intervals = [mean_interval(a[group == g], rng=rng) for g in range(3)]
    degrees = np.bincount(group) - 1.0
    gap, worst, best = (
        gap_of(intervals, degrees),
        worst_of(intervals, degrees, 1),
        worst_of(intervals, degrees, -1),
    )
    assert 0 <= gap.low <= gap.value <= gap.high
    assert worst.low <= worst.value <= worst.high
    assert worst.value <= a.mean() + 1e-12
    assert gap.value == pytest.approx(best.value - worst.value)
    order = rng.permutation(3)
    renamed = gap_of([intervals[g] for g in order], degrees[order])
    assert (renamed.value, renamed.low, renamed.high) == (gap.value, gap.low, gap.high)
    assert tuple(order[list(renamed.groups)]) == gap.groups


@given(seeds, st.sampled_from([1, -1]))
def test_differences_obey_their_laws(seed: int, direction: int) -> None:
    a, b, group = simulated(seed)
    means = GroupMeans.of(a, b, group, 3)
    order = np.random.default_rng(seed).permutation(3)
    shuffled = np.random.default_rng(seed).permutation(len(a))
    renamed = GroupMeans.of(a, b, order[group], 3)
    reordered = GroupMeans.of(a[shuffled], b[shuffled], group[shuffled], 3)
    worst = min if direction > 0 else max
    of = [[x[group == g].mean() for g in range(3)] for x in (a, b)]
    expected = {
        gap_difference: np.ptp(of[0]) - np.ptp(of[1]),
        lambda m: worst_difference(m, direction): worst(of[0]) - worst(of[1]),
    }
    for statistic, value in expected.items():
        found, exchanged = statistic(means), statistic(means.reversed)
        assert found.value == pytest.approx(value)
        assert found.low <= found.value <= found.high
        assert (found.p <= 0.05) == (found.low > 0 or found.high < 0)
        assert (exchanged.low, exchanged.high) == pytest.approx((-found.high, -found.low))
        assert (exchanged.p_above, exchanged.p_below) == pytest.approx((found.p_below, found.p_above))
        for other in (renamed, reordered):
            again = statistic(other)
            assert (again.low, again.high, again.p) == pytest.approx((found.low, found.high, found.p))


@given(seeds)
def test_a_model_does_not_differ_from_itself(seed: int) -> None:
    a, _, group = simulated(seed)
    means = GroupMeans.of(a, a, group, 3)
    for found in (gap_difference(means), worst_difference(means, 1)):
        assert found.value == 0
        assert found.p == 1
        assert found.low <= 0 <= found.high


def test_a_shift_moves_the_interval() -> None:
    means = means_of(1)
    for found, moved in (
        (gap_difference(means), gap_difference(means, shift=0.5)),
        (worst_difference(means, 1), worst_difference(means, 1, shift=0.5)),
    ):
        assert (moved.low, moved.high) == pytest.approx((found.low + 0.5, found.high + 0.5))


def test_a_factor_is_that_of_the_second_model() -> None:
    a, b, group = simulated(2)
    scaled, expected = GroupMeans.of(a, b, group, 3).scaled(0.9), GroupMeans.of(a, 0.9 * b, group, 3)
    for name in ("a", "b", "of_a", "of_b", "of_both"):
        np.testing.assert_allclose(getattr(scaled, name), getattr(expected, name), atol=1e-15)


@given(seeds)
def test_clusters_of_one_user_each_change_nothing(seed: int) -> None:
    alone = np.random.default_rng(seed).permutation(150)
    of_users, of_clusters = means_of(seed), means_of(seed, clusters=alone)
    for name in ("a", "b", "of_a", "of_b", "of_both", "degrees"):
        np.testing.assert_allclose(getattr(of_clusters, name), getattr(of_users, name), atol=1e-15)


def test_copies_of_users_in_their_clusters_tell_nothing_more() -> None:
    a, b, group = simulated(3)
    once = GroupMeans.of(a, b, group, 3)
    twice = GroupMeans.of(*(np.tile(x, 2) for x in (a, b, group)), 3, clusters=np.tile(np.arange(len(a)), 2))
    for name in ("a", "b", "of_a", "of_b", "of_both", "degrees"):
        np.testing.assert_allclose(getattr(twice, name), getattr(once, name), atol=1e-15)


def test_clusters_in_several_groups_correlate_their_means() -> None:
    rng = np.random.default_rng(4)
    session = rng.random(400)
    values = np.concatenate([session, session + 0.1 * rng.random(400)])
    means = GroupMeans.of(values, values, np.repeat([0, 1], 400), 2, clusters=np.tile(np.arange(400), 2))
    assert means.correlation[0, 1] == pytest.approx(np.corrcoef(values[:400], values[400:])[0, 1])
    assert GroupMeans.of(values, values, np.repeat([0, 1], 400), 2).correlation[0, 1] == 0


def test_units_are_users_or_clusters() -> None:
    group = np.array([0, 0, 0, 1, 1, 3])
    assert units_of(group, 4).tolist() == [3, 2, 0, 1]
    assert units_of(group, 4, np.array([7, 7, 9, 9, 9, 9])).tolist() == [2, 1, 0, 1]


def test_seeds_widen_differences() -> None:
    means = means_of(5)
    spread = SeedSpread(0.05, 5)
    for found, with_seeds in (
        (gap_difference(means), gap_difference(replace(means, seeds=(spread, None)))),
        (worst_difference(means, 1), worst_difference(replace(means, seeds=(None, spread)), 1)),
    ):
        assert with_seeds.value == found.value
        assert with_seeds.low < found.low
        assert with_seeds.high > found.high
        assert with_seeds.p >= found.p


def test_the_true_gap_and_worst_group_are_covered_where_groups_are_alike() -> None:
    rng = np.random.default_rng(6)
    group, covered = np.repeat(np.arange(4), 60), []
    for _ in range(400):
        a, b = rng.random((2, 240)) ** 3
        intervals = [mean_interval(a[group == g], method="t", rng=rng) for g in range(4)]
        degrees = np.full(4, 59.0)
        gap, worst = gap_of(intervals, degrees), worst_of(intervals, degrees, 1)
        means = GroupMeans.of(a, b, group, 4)
        differences = (gap_difference(means), worst_difference(means, 1))
        covered.append(
            [gap.low <= 0, worst.low <= 0.25 <= worst.high, *(d.low <= 0 <= d.high for d in differences)]
        )
    # 95 %, less four standard errors.
    assert np.mean(covered, axis=0).min() > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 400)
