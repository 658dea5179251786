from __future__ import annotations

from math import inf, isnan, nan, sqrt
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import excludes
from scipy import special, stats
from threadpoolctl import threadpool_limits

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics.intervals import (
    AUTO_BOOTSTRAP_BELOW,
    distribution_interval,
    mean_interval,
    mean_intervals,
)
from evalplugin.metrics.distribution import Distribution
from evalplugin.metrics.moments import Moments


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def zero_inflated(seed: int, n: int) -> np.ndarray:
    source = rng(seed)
    return np.where(source.random(n) < 0.85, 0, source.beta(1, 3, n))


def test_the_t_interval_is_that_of_scipy() -> None:
    values = zero_inflated(1, 500)
    ours = mean_interval(values, method="t", level=0.9, rng=rng())
    theirs = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    assert (ours.low, ours.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    assert (ours.mean, ours.n, ours.level, ours.method) == (mean(values.tolist()), 500, 0.9, "t")


@pytest.mark.parametrize("n", [20, 150, 1000])
def test_the_bootstrap_interval_agrees_with_that_of_scipy(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = zero_inflated(n, n)
    monkeypatch.setattr("evalplugin.comparison.statistics.intervals.RESAMPLES", 20_000)
    ours = mean_interval(values, method="bootstrap", rng=rng())
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=rng(1)
    ).confidence_interval
    width = theirs.high - theirs.low
    assert abs(ours.low - theirs.low) < 0.03 * width
    assert abs(ours.high - theirs.high) < 0.03 * width


def test_the_bootstrap_covers_a_skewed_mean_better_than_t() -> None:
    true, missed = 0.15 * 0.25, {"bootstrap": 0, "t": 0}
    source = rng(5)
    for seed in range(300):
        values = zero_inflated(seed, 60)
        for method in missed:
            interval = mean_interval(values, method=method, rng=source)
            missed[method] += excludes(interval, true)
    assert missed["bootstrap"] < missed["t"]
    assert missed["bootstrap"] / 300 < 0.1


def test_by_itself_it_resamples_few_users_and_trusts_t_with_many() -> None:
    few, many = rng(0).random(AUTO_BOOTSTRAP_BELOW - 1), rng(0).random(AUTO_BOOTSTRAP_BELOW)
    assert mean_interval(few, rng=rng()).method == "bootstrap"
    assert mean_interval(many, rng=rng()).method == "t"


def test_means_of_skewed_values_without_bounds_have_halls_interval() -> None:
    values = np.r_[np.zeros(AUTO_BOOTSTRAP_BELOW), rng(0).lognormal(2, 1, 100)]
    plain, skewed = (mean_interval(values, bounds=bounds, rng=rng()) for bounds in [(0, inf), (-inf, inf)])
    assert plain == mean_interval(values, method="t", rng=rng())
    n, sd = len(values), values.std()
    g = ((values - values.mean()) ** 3).mean() / sd**3
    t = special.stdtrit(n - 1, 0.975)
    for end, sign in ((skewed.low, 1), (skewed.high, -1)):
        s = (values.mean() - end) / sd
        transformed = s + g * s**2 / 3 + g**2 * s**3 / 27 + g / (6 * n)  # equation by Hall 1992
        assert transformed * sqrt(n) == pytest.approx(sign * t, rel=1e-3)  # sd by n, not n - 1
    assert skewed.high - skewed.mean > plain.high - plain.mean
    for unit in (1e-200, 1e200):  # whose squares are no float64
        other = mean_interval(values * unit, bounds=(-inf, inf), rng=rng())
        assert (other.low / unit, other.high / unit) == (
            pytest.approx(skewed.low),
            pytest.approx(skewed.high),
        )
    mirrored = mean_interval(-values, bounds=(-inf, inf), rng=rng())
    assert (mirrored.low, mirrored.high) == (pytest.approx(-skewed.high), pytest.approx(-skewed.low))


def test_halls_interval_of_clusters_is_that_of_their_sums() -> None:
    sums = np.r_[np.zeros(AUTO_BOOTSTRAP_BELOW), rng(0).lognormal(2, 1, 100)]
    values, clusters = np.repeat(sums, 2), np.repeat(np.arange(len(sums)), 2)
    of_sums, of_values = (
        mean_interval(column, bounds=(-inf, inf), clusters=codes, rng=rng())
        for column, codes in ((sums, None), (values, clusters))
    )
    assert of_values.low == pytest.approx(of_sums.low, rel=1e-4)
    assert of_values.high == pytest.approx(of_sums.high, rel=1e-4)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = zero_inflated(2, 200)
    assert mean_interval(values, rng=rng(1)) == mean_interval(values, rng=rng(1))
    assert mean_interval(values, rng=rng(1)) != mean_interval(values, rng=rng(2))


def test_undefined_values_are_left_out() -> None:
    values = zero_inflated(2, 200)
    with_nan = np.insert(values, [0, 50, 200], nan)
    assert mean_interval(with_nan, rng=rng()) == mean_interval(values, rng=rng())


@pytest.mark.parametrize("method", ["auto", "bootstrap", "t"])
def test_too_few_values_have_no_bounds(method: str) -> None:
    none = mean_interval(np.array([nan]), method=method, rng=rng())
    one = mean_interval(np.array([0.5, nan]), method=method, rng=rng())
    assert none.n == 0
    assert isnan(none.mean)
    assert (one.n, one.mean) == (1, 0.5)
    assert all(map(isnan, (none.low, none.high, one.low, one.high)))
    assert not excludes(one, 7)


@pytest.mark.parametrize("method", ["bootstrap", "t"])
def test_equal_values_make_an_interval_of_no_width(method: str) -> None:
    interval = mean_interval(np.full(50, 0.1), method=method, rng=rng())
    assert (interval.mean, interval.low, interval.high) == (0.1, 0.1, 0.1)


@pytest.mark.parametrize(("hits", "n"), [(1, 50), (2, 50), (49, 50), (700, 1900), (3, 5000), (1250, 5000)])
def test_values_of_0_and_1_have_the_exact_interval_of_a_rate(hits: int, n: int) -> None:
    values = np.repeat([0.0, 1.0], [n - hits, hits])
    interval = mean_interval(values, rng=rng())
    theirs = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
    assert (interval.mean, interval.method) == (hits / n, "exact")
    assert (interval.low, interval.high) == pytest.approx((theirs.low, theirs.high))
    assert distribution_interval(Distribution.of(values, np.arange(n)), rng=rng()) == interval


@pytest.mark.parametrize("n", [50, 5000])
def test_values_that_are_all_0_or_all_1_have_a_bound(n: int) -> None:
    bound = 1 - 0.025 ** (1 / n)  # with which none of n is seen in 2.5 % of cases
    none, all_of_them = (mean_interval(np.full(n, value), rng=rng()) for value in (0.0, 1.0))
    assert (none.low, none.high) == pytest.approx((0, bound))
    assert (all_of_them.low, all_of_them.high) == pytest.approx((1 - bound, 1))
    gains = mean_interval(np.full(n, 0.0), bounds=(0, inf), rng=rng())
    assert (gains.mean, gains.method) == (0, "none")
    assert isnan(gains.low) and isnan(gains.high)
    assert distribution_interval(Distribution.of(np.zeros(n), np.arange(n)), rng=rng()) == none


@pytest.mark.parametrize(("n", "few"), [(50, 4), (5000, 19)])
def test_a_few_values_that_differ_bound_the_mean_where_the_metric_has_bounds(n: int, few: int) -> None:
    values = np.zeros(n)
    values[:few] = 0.3
    interval = mean_interval(values, rng=rng())
    assert interval.method == "bound"
    assert interval.low == 0
    assert interval.high == pytest.approx(stats.binomtest(few, n).proportion_ci(0.95).high)
    assert distribution_interval(Distribution.of(values, np.arange(n)), rng=rng()) == interval
    mirrored = mean_interval(1 - values, rng=rng())
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - interval.high, 1))
    unbounded = mean_interval(values, bounds=(0, inf), rng=rng())
    assert (unbounded.method, isnan(unbounded.low), isnan(unbounded.high)) == ("none", True, True)
    values[few] = 0.3
    assert mean_interval(values, rng=rng()).method in ("bootstrap", "t")
    assert mean_interval(values, bounds=(0, inf), rng=rng()).method in ("bootstrap", "t")


@pytest.mark.parametrize("rate", [0.02, 0.1])
@pytest.mark.parametrize("levels", [[1.0], [0.3, 0.6, 1.0]])
def test_intervals_of_rare_values_cover_the_mean(rate: float, levels: list[float]) -> None:
    source, covered = rng(5), 0
    for _ in range(400):
        values = np.where(source.random(50) < rate, source.choice(levels, 50), 0)
        covered += not excludes(mean_interval(values, rng=source), rate * np.mean(levels))
    assert covered / 400 > 0.92  # by the bootstrap it was 0.63 for a rate of 2 %


@pytest.mark.parametrize("method", ["bootstrap", "t"])
def test_a_column_alone_has_the_interval_it_has_among_others(method: str) -> None:
    values = np.stack([zero_inflated(seed, 80) for seed in range(6)], axis=1)
    values[:30, 1] = nan  # other users than in the other columns
    values[:, 2] = 0.5
    values[1:, 3] = nan
    together = mean_intervals(values, method=method, rng=rng())
    for column, among in zip(values.T, together, strict=True):
        alone = mean_interval(column, method=method, rng=rng())
        assert (among.mean, among.n, among.method) == (alone.mean, alone.n, alone.method)
        assert (among.low, among.high) == (
            pytest.approx(alone.low, nan_ok=True),
            pytest.approx(alone.high, nan_ok=True),
        )


def test_no_column_has_no_interval() -> None:
    assert mean_intervals(np.empty((5, 0)), rng=rng()) == []


@pytest.mark.parametrize("method", ["bootstrap", "t"])
def test_an_infinite_value_leaves_no_bounds(method: str) -> None:
    interval = mean_interval(np.array([0.0, 1.0, inf]), method=method, rng=rng())
    assert interval.mean == inf
    assert isnan(interval.low) and isnan(interval.high)


@given(
    scale=st.sampled_from([1e-200, 1e-9, 3.0, 1e200]),
    shift=st.sampled_from([0.0, -2.0, 0.5]),
    seed=st.integers(0, 99),
)
def test_the_bootstrap_follows_scale_and_shift(scale: float, shift: float, seed: int) -> None:
    values = zero_inflated(seed, 40) + rng(seed).random(40)
    plain = mean_interval(values, rng=rng())
    moved = mean_interval((values + shift) * scale, rng=rng())
    assert moved.low == pytest.approx((plain.low + shift) * scale, rel=1e-9)
    assert moved.high == pytest.approx((plain.high + shift) * scale, rel=1e-9)


@given(seed=st.integers(0, 99))
def test_the_bootstrap_of_values_turned_around_is_turned_around(seed: int) -> None:
    values = rng(seed).integers(0, 4, 30).astype(np.float64)
    plain, turned = mean_interval(values, rng=rng()), mean_interval(-values, rng=rng())
    assert (turned.low, turned.high) == (pytest.approx(-plain.high), pytest.approx(-plain.low))


def test_invalid_arguments_are_errors() -> None:
    values = np.array([0.0, 1.0])
    with pytest.raises(DataError, match=r"^the level of an interval must be between 0 and 1, not 95$"):
        mean_interval(values, level=95, rng=rng())
    with pytest.raises(DataError, match=r"^the method of an interval must be auto, bootstrap or t, not 'z'$"):
        mean_interval(values, method="z", rng=rng())


def test_a_bound_does_not_leave_the_range_of_the_values() -> None:
    rng = np.random.default_rng(0)
    for few in (1, 2):
        values = np.zeros(200)
        values[:few] = 0.3
        interval = mean_interval(values, method="bootstrap", rng=rng)
        assert interval.low >= 0
        assert f"{interval.low:.4f}"[0] != "-"


def test_students_interval_is_the_same_to_the_last_bit() -> None:
    values = zero_inflated(1, 2189)
    half = float(special.stdtrit(2188, 0.975)) * Moments.of(values).std / sqrt(2189)
    ours = mean_interval(values, method="t", rng=rng())
    assert (ours.low, ours.high) == (ours.mean - half, ours.mean + half)


@pytest.mark.parametrize("n", [300, 1000, 2400])
def test_bounds_do_not_depend_on_the_number_of_processors(n: int) -> None:
    values = np.random.default_rng(n).random((n, 3))
    bounds = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            bounds.append(mean_intervals(values, method="bootstrap", rng=np.random.default_rng(0)))
    assert bounds[0] == bounds[1]
