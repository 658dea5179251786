"""Thousands of small bake-offs whose truth is known: how often tests and intervals are wrong.

``experiments/statistics`` has the long version. What is asserted is the rate, to within four standard errors.
"""

from __future__ import annotations

from functools import cache
from math import sqrt

import numpy as np
import pytest
from samples import excludes

from evalplugin.comparison.statistics.intervals import mean_intervals
from evalplugin.comparison.statistics.paired import (
    TESTS,
    Paired,
    Test,
    benjamini_hochberg,
    compare_pairs,
    holm,
)

BAKEOFFS, USERS, ALPHA = 1500, 150, 0.05
MEAN = 0.4 / 4  # of 60 % zeros and otherwise beta(1, 3)


def about(rate: float, tolerance: float = 0.01, n: int = BAKEOFFS) -> object:
    return pytest.approx(rate, abs=tolerance + 4 * sqrt(rate * (1 - rate) / n))


def scores(source: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.where(source.random(shape) < 0.6, 0, source.beta(1, 3, shape))


@cache
def alike() -> tuple[np.ndarray, list[Paired]]:
    source = np.random.default_rng(1)
    easy = source.random((USERS, BAKEOFFS)) < 0.3  # users whom both models serve alike
    a, b, both = (scores(source, (USERS, BAKEOFFS)) for _ in range(3))
    a, b = np.where(easy, both, a), np.where(easy, both, b)
    return a, compare_pairs(a, b, tests=TESTS, rng=source)


@pytest.mark.parametrize("test", TESTS)
def test_models_that_are_alike_are_called_different_in_one_of_twenty_bakeoffs(test: Test) -> None:
    _, pairs = alike()
    assert np.mean([pair.p[test] <= ALPHA for pair in pairs]) == about(0.05)


def test_intervals_of_a_difference_hold_the_true_one() -> None:
    _, pairs = alike()
    assert np.mean([not excludes(pair.interval, 0) for pair in pairs]) == about(0.95)


def test_intervals_of_a_mean_hold_the_true_one() -> None:
    a, _ = alike()
    intervals = mean_intervals(a, rng=np.random.default_rng(2))
    assert np.mean([not excludes(interval, MEAN) for interval in intervals]) == about(0.95)


@pytest.mark.slow
def test_families_hold_false_findings_no_more_often_than_stated() -> None:
    source, size, n = np.random.default_rng(4), 5, 1000
    base = scores(source, (60, n))
    noise = source.normal(0, 0.1, (60, n, size))
    shifts = np.array([0, 0, 0, 0.04, 0.04])
    for gain in (0 * shifts, shifts):
        a = base[:, :, None] + noise + gain
        b = np.broadcast_to(base[:, :, None], a.shape)
        pairs = compare_pairs(a.reshape(60, -1), b.reshape(60, -1), rng=source)
        p = np.array([pair.p["permutation"] for pair in pairs]).reshape(n, size)
        false = gain == 0
        wrong = np.mean([(holm(row)[false] <= ALPHA).any() for row in p])
        found = np.array([benjamini_hochberg(row) <= ALPHA for row in p])
        shares = found[:, false].sum(axis=1) / np.maximum(found.sum(axis=1), 1)
        assert wrong <= ALPHA + 4 * sqrt(0.05 * 0.95 / n)
        assert shares.mean() <= ALPHA + 4 * sqrt(0.05 * 0.95 / n)
        assert found[:, ~false].all(axis=1).mean() > 0.5
