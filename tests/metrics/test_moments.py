"""Exact sums: correctly rounded means and deviations, the same for any order and division of the values."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalplugin.metrics.moments import ExactSum, Moments, mean_of_defined

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.sampled_from([0.0, 1.0, 0.1, 1 / 3, 1 / math.log2(3), 1e-300, 1e300, -0.0, 5e-324])
VALUES = st.lists(FINITE | SCORES | st.just(math.nan), max_size=30)


def array(values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def rounded(exact: Fraction) -> float:
    return exact.numerator / exact.denominator


@given(VALUES)
def test_a_mean_is_the_correctly_rounded_one(values: list[float]) -> None:
    defined = [Fraction(v) for v in values if not math.isnan(v)]
    mean = mean_of_defined(array(values))
    if defined:
        assert mean == rounded(sum(defined, Fraction(0)) / len(defined))
    else:
        assert math.isnan(mean)


@given(VALUES)
def test_a_standard_deviation_is_the_correctly_rounded_one(values: list[float]) -> None:
    defined = [Fraction(v) for v in values if not math.isnan(v)]
    moments, n = Moments.of(array(values)), len(defined)
    if n < 2:
        assert math.isnan(moments.std)
        return
    mean = sum(defined, Fraction(0)) / n
    variance = sum(((v - mean) ** 2 for v in defined), Fraction(0)) / (n - 1)
    assert moments.squares == sum((v**2 for v in defined), Fraction(0)) * 2**2148
    # Between the halves to either neighbour: squares of rational numbers need no rounding.
    if not math.isinf(moments.std):
        low, high = (
            (Fraction(moments.std) + Fraction(np.nextafter(moments.std, to))) / 2
            for to in (-math.inf, math.inf)
        )
        assert max(low, Fraction(0)) ** 2 <= variance <= high**2
    assert (moments.lowest, moments.highest) == (min(defined), max(defined))


@settings(max_examples=50)
@given(st.lists(VALUES, max_size=6), st.randoms())
def test_parts_add_up_to_the_whole_in_any_order_and_grouping(parts, random):
    whole = Moments.of(array([v for part in parts for v in part]))
    states = [pickle.loads(pickle.dumps(Moments.of(array(part)))) for part in parts]
    while len(states) > 1:
        random.shuffle(states)
        states.append(states.pop() + states.pop())
    assert sum(states, Moments()) == whole


def test_long_columns_have_the_exact_sum_too() -> None:
    rng = np.random.default_rng(0)
    values = rng.random(100_000) * 2.0 ** rng.integers(-60, 60, 100_000)
    values[rng.random(100_000) < 0.1] = np.nan
    defined = values[~np.isnan(values)]
    assert mean_of_defined(values) == math.fsum(defined) / len(defined)
    exact = sum(Fraction(v) for v in defined.tolist())
    assert ExactSum.of(values).units == exact * 2**1074
    assert Moments.of(values).squares == sum(Fraction(v) ** 2 for v in defined.tolist()) * 2**2148
    reverse = np.ascontiguousarray(values[::-1])
    assert Moments.of(reverse) == Moments.of(values)


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([math.inf, 1.0], math.inf),
        ([-math.inf, 1.0], -math.inf),
        ([math.inf, -math.inf], math.nan),
        ([1.7e308, 1.7e308, 1.7e308], 1.7e308),
        ([5e-324], 5e-324),
        ([-0.0], 0.0),
    ],
)
def test_extreme_values_have_a_mean(values: list[float], mean: float) -> None:
    np.testing.assert_equal(mean_of_defined(array(values)), mean)
    if math.isinf(values[0]):
        assert math.isnan(Moments.of(array(values)).std)
