from __future__ import annotations

from math import inf, isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from statsmodels.stats.weightstats import DescrStatsW

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics.intervals import mean_interval
from evalplugin.comparison.statistics.paired import TESTS, Paired, compare_pairs, holm
from evalplugin.comparison.statistics.pairs import PairMoments
from evalplugin.comparison.statistics.permutation import NORMAL_FROM, Permuted, all_signs, sign_flip_tests

ALL = ("wilcoxon", "t")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def compare(a: object, b: object, **options: object) -> Paired:
    a, b = np.array(a, dtype=np.float64), np.array(b, dtype=np.float64)
    (paired,) = compare_pairs(a[:, None], b[:, None], **({"tests": ALL, "rng": rng()} | options))
    return paired


def flip_tests(columns: list[np.ndarray], n_permutations: int, source: np.random.Generator) -> list[Permuted]:
    pairs = [PairMoments.of(column) for column in columns]
    return sign_flip_tests(columns, n_permutations, source, pairs)


def p_of(differences: object, n_permutations: int = 10_000) -> float:
    column = np.array(differences, dtype=np.float64)
    return flip_tests([column], n_permutations, rng())[0].p


def scores(seed: int, n: int) -> np.ndarray:
    source = rng(seed)
    return np.where(source.random(n) < 0.6, 0, source.beta(1, 3, n))


def test_a_comparison_by_hand() -> None:
    a = [0.5, nan, 1.0, 0.0, 0.25, 0.0]
    b = [0.25, 1.0, nan, 0.0, 0.75, 0.5]
    paired = compare(a, b)
    differences = np.array([0.25, 0.0, -0.5, -0.5])
    assert paired.users == 4
    assert paired.interval.mean == -0.75 / 4
    assert paired.relative == (-0.75 / 4) / (1.5 / 4)
    assert paired.effect == pytest.approx((-0.75 / 4) / differences.std(ddof=1))
    assert (paired.above, paired.equal, paired.below) == (1 / 4, 1 / 4, 2 / 4)
    # Of the 2^3 signs: (+++-) sums to 1.25, 0.75, 0.25, 0.25 and the same below 0; 0.75 and 1.25 are as extreme.
    assert paired.p["permutation"] == 4 / 8
    assert paired.permutations == "exact"


def test_the_interval_of_a_difference_is_students_unless_the_bootstrap_is_asked_for() -> None:
    a, b = scores(1, 100), scores(2, 100)
    assert compare(a, b).interval == mean_interval(a - b, method="t", rng=rng())
    bootstrap = compare(a, b, method="bootstrap").interval
    assert bootstrap == mean_interval(a - b, method="bootstrap", rng=rng())
    assert compare(a, b, level=0.9).interval.level == 0.9


def test_only_what_is_asked_is_tested_and_the_permutation_test_always() -> None:
    a, b = scores(1, 30), scores(2, 30)
    assert list(compare(a, b, tests=()).p) == ["permutation"]
    assert list(compare(a, b, tests=("t", "permutation")).p) == ["permutation", "t"]
    assert list(compare(a, b, tests=TESTS).p) == list(TESTS)


@pytest.mark.parametrize("n", [2, 7, 40, 3000])
def test_the_t_test_is_that_of_scipy_and_of_statsmodels(n: int) -> None:
    a, b = rng(1).random(n), rng(2).random(n)
    p = compare(a, b).p["t"]
    assert p == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert p == pytest.approx(DescrStatsW(a - b).ttest_mean(0)[1])


@pytest.mark.parametrize("n", [8, 20, 40, 3000])
def test_wilcoxon_is_that_of_scipy_without_the_users_where_models_are_equal(n: int) -> None:
    a, b = scores(1, n), scores(2, n)
    a[1:5] = b[1:5] + 0.125 * np.array([1, -1, 1, 1])  # ties
    differ = a != b
    expected = stats.wilcoxon(a[differ], b[differ]).pvalue
    assert differ.sum() < n
    assert compare(a, b).p["wilcoxon"] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(8))
def test_the_exact_permutation_test_is_that_of_scipy(seed: int) -> None:
    a, b = rng(seed).integers(0, 4, 9) / 3, rng(seed + 50).integers(0, 4, 9) / 3
    theirs = stats.permutation_test(
        (a, b), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert compare(a, b).p["permutation"] == pytest.approx(theirs.pvalue)


def test_random_signs_agree_with_all_signs() -> None:
    differences = rng(3).normal(0.3, 1, 14)
    exact = p_of(differences, n_permutations=2**14)
    random = p_of(differences, n_permutations=2**14 - 1)
    assert random != exact
    assert random == pytest.approx(exact, abs=4 * sqrt(exact * (1 - exact) / 2**14))


def test_a_p_value_below_the_resolution_of_the_flips_is_the_normal_bound() -> None:
    # 39 models in 13 groups are 507 comparisons, and 507 / 10,001 would be above 5 % however clear the difference.
    differences = rng(1).normal(1, 1, 300)
    (test,) = flip_tests([differences], 10_000, rng())
    z = differences.sum() / sqrt((differences**2).sum())
    assert test[:2] == (
        pytest.approx(2 * stats.norm.sf(z) / (4 * stats.norm.sf(sqrt(2)))),
        "bound of all sign flips",
    )
    assert holm(np.full(507, test.p)).max() < 1e-9
    # All of 14 differences have the same sign: 2 / 2^14 is above the resolution, and flips alone decide.
    (few,) = flip_tests([np.ones(14)], 10_000, rng())
    assert few.by == "10,000 sign flips"


@settings(max_examples=60, deadline=None)
@given(st.integers(14, 17), st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.3, 0.05]))
def test_the_normal_bound_is_never_below_the_share_of_all_signs(n: int, seed: int, shape: float) -> None:
    sizes = rng(seed).gamma(shape, 1, n) + 1e-3  # of a few large differences and many small ones
    (test,) = flip_tests([sizes], 100, rng(seed))
    if test.by == "bound of all sign flips":
        assert test.p >= all_signs(sizes)


def test_random_signs_never_give_a_p_value_of_0() -> None:
    (test,) = flip_tests([np.r_[np.ones(13), 0.1]], 999, rng(1))
    assert 1 / 1000 >= test.p > 0
    assert compare(np.ones(4000) + rng().random(4000) / 9, np.zeros(4000)).p["permutation"] > 0


@pytest.mark.parametrize("repeats", [1, 40])
def test_sums_that_are_equal_but_for_rounding_are_as_extreme(repeats: int) -> None:
    assert 0.1 + 0.2 - 0.3 > 0
    assert p_of([0.1, 0.2, -0.3] * repeats) == 1
    by_whole_numbers = p_of([1, 2, -3, 4, 4, 6] * repeats)
    assert p_of(np.array([1, 2, -3, 4, 4, 6] * repeats) / 10) == by_whole_numbers


def test_many_differences_use_the_normal_limit() -> None:
    differences = rng(4).normal(0.02, 1, NORMAL_FROM)
    (limit,) = flip_tests([differences], 10_000, rng())
    (flips,) = flip_tests([differences[1:]], 10_000, rng())
    z = differences.sum() / sqrt((differences**2).sum())
    assert limit[:2] == (pytest.approx(2 * stats.norm.sf(abs(z))), "normal limit")
    assert flips.by == "10,000 sign flips"
    assert flips.p == pytest.approx(limit.p, abs=0.02)


def test_sums_that_a_few_users_decide_are_not_taken_for_normal() -> None:
    differences = np.tile([1e-9, -1e-9], NORMAL_FROM // 2)
    differences[:6] = 1.0  # 2 / 2^6 of the sums are 6 or -6, and half of these are a little beyond
    (test,) = flip_tests([differences], 10_000, rng())
    assert test.by == "10,000 sign flips"
    assert test.p == pytest.approx(1 / 2**6, abs=4 * sqrt(1 / 2**6 / 10_000))


def test_differences_whose_fourth_powers_vanish_are_not_taken_for_normal() -> None:
    a = rng(4).normal(0.02, 1, NORMAL_FROM)
    assert compare(a, np.zeros(NORMAL_FROM)).permutations == "normal limit"
    assert compare(a * 1e-150, np.zeros(NORMAL_FROM)).permutations == "10,000 sign flips"


def test_averages_of_the_same_folds_in_another_order_are_equal() -> None:
    a = np.array([(0.1 + 0.2) + 0.3, 0.5])
    b = np.array([0.1 + (0.2 + 0.3), 0.5])
    assert a[0] != b[0]
    assert compare(a, b).equal == 1


@pytest.mark.parametrize("n", [2, 40, NORMAL_FROM])
def test_models_that_are_equal_do_not_differ(n: int) -> None:
    paired = compare(scores(1, n), scores(1, n))
    assert dict(paired.p) == {"permutation": 1, "wilcoxon": 1, "t": 1}
    assert (paired.interval.low, paired.interval.high) == (0, 0)
    assert (paired.above, paired.equal, paired.below) == (0, 1, 0)
    assert isnan(paired.effect) and isnan(paired.detectable)


@pytest.mark.parametrize(("a", "b"), [([], []), ([nan], [1.0]), ([0.5], [0.25]), ([0.5, nan], [0.25, 1.0])])
def test_fewer_than_two_pairs_have_no_statistics(a: list[float], b: list[float]) -> None:
    paired = compare(a, b)
    assert len(paired.p) == 3
    assert all(map(isnan, (paired.interval.low, paired.interval.high, paired.effect, paired.detectable)))
    assert all(map(isnan, paired.p.values()))
    assert paired.users == len([1 for x, y in zip(a, b, strict=True) if x == x and y == y])


def test_a_difference_that_is_the_same_for_everybody_has_no_spread() -> None:
    paired = compare(np.full(8, 0.5), np.linspace(0.1, 0.4, 8) * 0 + 0.3)
    assert paired.p["permutation"] == 2 / 2**8
    assert paired.p["wilcoxon"] < 0.05
    assert all(map(isnan, (paired.p["t"], paired.effect, paired.detectable)))


def test_an_infinite_score_leaves_nothing_to_test() -> None:
    paired = compare([inf, 1.0, inf], [0.0, 0.5, inf])
    assert (paired.users, paired.above, paired.equal) == (3, pytest.approx(2 / 3), pytest.approx(1 / 3))
    assert all(map(isnan, paired.p.values()))
    assert isnan(paired.interval.low)


def test_relative_to_nothing_is_undefined() -> None:
    assert isnan(compare([0.5, 0.25], [0.0, 0.0]).relative)


def test_huge_and_tiny_scores_are_compared_like_others() -> None:
    a, b = scores(1, 60), scores(2, 60)
    plain = compare(a, b)
    for scale in (1e-150, 1e150):
        scaled = compare(a * scale, b * scale)
        assert dict(scaled.p) == pytest.approx(dict(plain.p))
        assert scaled.effect == pytest.approx(plain.effect)


def test_p_values_are_above_0_even_where_they_underflow() -> None:
    n = 20_000
    paired = compare(1 + rng(1).normal(0, 0.01, n), np.zeros(n))
    assert min(paired.p.values()) > 0


def test_every_column_is_compared_with_its_own() -> None:
    a = np.stack([scores(seed, 70) for seed in range(4)], axis=1)
    b = np.stack([scores(seed + 9, 70) for seed in range(4)], axis=1)
    b[:, 3] = a[:, 3]
    together = compare_pairs(a, b, tests=ALL, rng=rng())
    assert [p.interval.mean for p in together] == pytest.approx((a - b).mean(axis=0))
    assert repr(together) == repr([compare(x, y) for x, y in zip(a.T, b.T, strict=True)])


def test_no_column_has_no_comparison() -> None:
    assert compare_pairs(np.empty((3, 0)), np.empty((3, 0)), rng=rng()) == []


LEVELS = st.sampled_from([0.0, 0.0, 0.125, 0.25, 0.5, 1.0, nan])  # sums of these are exact
TWO_MODELS = st.integers(0, 30).flatmap(lambda n: arrays(np.float64, (2, n, 2), elements=LEVELS))


def everything(models: np.ndarray, **options: object) -> list[Paired]:
    return compare_pairs(*models, **({"tests": ("t",), "rng": rng()} | options))


@settings(max_examples=30)
@given(TWO_MODELS)
def test_p_values_are_above_0_and_at_most_1(models: np.ndarray) -> None:
    for paired in everything(models, tests=ALL):
        assert all(isnan(p) or 0 < p <= 1 for p in paired.p.values())
        assert isnan(paired.p["permutation"]) == (paired.users < 2)


@settings(max_examples=30)
@given(TWO_MODELS)
def test_swapping_the_models_turns_everything_around(models: np.ndarray) -> None:
    both_ways = everything(models, tests=ALL), everything(models[::-1], tests=ALL)
    for paired, swapped in zip(*both_ways, strict=True):
        assert swapped.p == pytest.approx(paired.p, nan_ok=True)
        assert swapped.interval.mean == pytest.approx(-paired.interval.mean, nan_ok=True)
        assert swapped.interval.low == pytest.approx(-paired.interval.high, nan_ok=True)
        assert swapped.effect == pytest.approx(-paired.effect, nan_ok=True)
        assert (swapped.above, swapped.below) == pytest.approx((paired.below, paired.above), nan_ok=True)
        assert swapped.detectable == pytest.approx(paired.detectable, nan_ok=True)


@given(TWO_MODELS, st.integers(0, 5))
def test_users_without_a_score_change_nothing(models: np.ndarray, n: int) -> None:
    nobody = np.full((n, 2), nan)
    more = np.stack([np.vstack([models[0], nobody]), np.vstack([models[1], np.zeros((n, 2))])])
    assert repr(everything(more)) == repr(everything(models))


@given(TWO_MODELS)
def test_adding_to_both_models_changes_no_difference(models: np.ndarray) -> None:
    for paired, moved in zip(everything(models), everything(models + 2), strict=True):
        assert repr((moved.p, moved.interval, moved.effect)) == repr(
            (paired.p, paired.interval, paired.effect)
        )


@given(
    st.integers(0, 12).flatmap(lambda n: arrays(np.float64, (2, n, 2), elements=LEVELS)), st.integers(0, 9)
)
def test_the_order_of_users_changes_nothing(models: np.ndarray, seed: int) -> None:
    shuffled = rng(seed).permutation(models, axis=1)
    for paired, other in zip(everything(models), everything(shuffled), strict=True):
        assert other.p == pytest.approx(paired.p, nan_ok=True)
        assert other.interval.low == pytest.approx(paired.interval.low, nan_ok=True)


@given(TWO_MODELS)
def test_a_column_alone_is_compared_as_among_others(models: np.ndarray) -> None:
    first, second = models[:, :, :1], models[:, :, 1:]
    assert repr(everything(models)) == repr(everything(first) + everything(second))


def test_invalid_arguments_are_errors() -> None:
    values = np.zeros((3, 2))
    told = r"^paired values must be of the same users and columns: \(3, 2\) against \(4, 2\)$"
    with pytest.raises(DataError, match=told):
        compare_pairs(values, np.zeros((4, 2)), rng=rng())
    with pytest.raises(DataError, match=r"^there is no paired test 'wilcoxen'; did you mean 'wilcoxon'\?$"):
        compare_pairs(values, values, tests=("wilcoxen",), rng=rng())
    with pytest.raises(DataError, match=r"^there is no paired test 'z'; tests: permutation, wilcoxon, t$"):
        compare_pairs(values, values, tests=("z",), rng=rng())
    with pytest.raises(DataError, match=r"^the level of an interval must be between 0 and 1, not 95$"):
        compare_pairs(values, values, level=95, rng=rng())
