"""One-sided bounds and tests of a mean over users."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics.one_sided import lower_bound, p_above

scores = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=40).map(np.array)


def test_without_skewness_the_bound_is_students() -> None:
    values = np.array([0.0, 0.1] * 200)
    sd = math.sqrt(400 * 0.05**2 / 399)
    assert lower_bound(values, level=0.95) == pytest.approx(0.05 - stats.t.ppf(0.95, 399) * sd / 20)
    assert p_above(values, 0.045) == pytest.approx(
        stats.ttest_1samp(values, 0.045, alternative="greater").pvalue
    )


def test_few_large_losses_lower_the_bound_by_halls_transformation() -> None:
    values = np.array([-0.9] * 5 + [0.02] * 395)
    mean, sd = values.mean(), values.std(ddof=1)
    skewness = stats.skew(values)
    quantile = stats.t.ppf(0.95, 399) / 20
    hall = 3 / skewness * (np.cbrt(1 + skewness * (quantile - skewness / (6 * 400))) - 1)
    assert skewness < -8
    assert lower_bound(values) == pytest.approx(mean - sd * hall)
    assert lower_bound(values) < mean - sd * quantile


def test_few_large_gains_leave_it_at_students() -> None:
    values = np.array([0.9] * 5 + [-0.001] * 395)
    student = values.mean() - stats.t.ppf(0.95, 399) * values.std(ddof=1) / 20
    assert lower_bound(values) == pytest.approx(student)


@given(scores, st.floats(-0.5, 0.5), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_the_bound_is_above_a_limit_exactly_where_the_p_value_is_small(values, limit, level):
    bound, p = lower_bound(values, level=level), p_above(values, limit)
    if abs(bound - limit) > 1e-9 and abs(p - (1 - level)) > 1e-9:
        assert (bound > limit) == (p < 1 - level)


@given(scores)
def test_a_higher_level_lowers_the_bound(values: np.ndarray) -> None:
    levels = [0.5, 0.8, 0.95, 0.99]
    bounds = [lower_bound(values, level=level) for level in levels]
    assert all(low <= high + 1e-12 for high, low in pairwise(bounds))
    assert bounds[0] <= values.mean() + 1e-12


@given(scores, st.floats(0.01, 100))
def test_scale_does_not_matter(values: np.ndarray, scale: float) -> None:
    assert lower_bound(values * scale) == pytest.approx(
        lower_bound(values) * scale, rel=1e-6, abs=1e-9 * scale
    )


def test_equal_values_are_their_own_bound() -> None:
    assert lower_bound(np.full(10, 0.25)) == 0.25
    assert p_above(np.full(10, 0.25), 0.2) < 1e-300
    assert p_above(np.full(10, 0.25), 0.25) == 1.0


@pytest.mark.parametrize("values", [[], [0.5], [0.5, math.inf]])
def test_too_few_or_infinite_values_have_no_bound(values: list[float]) -> None:
    assert math.isnan(lower_bound(np.array(values)))
    assert math.isnan(p_above(np.array(values)))


@pytest.mark.parametrize("level", [0.49, 1.0])
def test_a_level_is_at_least_a_half(level: float) -> None:
    with pytest.raises(DataError, match=f"at least 0.5 and below 1, not {level}"):
        lower_bound(np.array([0.0, 1.0]), level=level)
