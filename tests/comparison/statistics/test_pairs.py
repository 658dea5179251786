"""Comparisons from merged moments: the same as from the values, to the last bit."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics import PairMoments, compare_moments, compare_pairs, standard_deviation
from evalplugin.comparison.statistics.permutation import NORMAL_FROM


def models(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    source = np.random.default_rng(seed)
    a = np.where(source.random(n) < 0.6, 0, source.beta(1, 3, n))
    b = np.clip(a + source.normal(0.001, 0.1, n), 0, 1)
    a[source.random(n) < 0.05] = np.nan
    b[source.random(n) < 0.05] = np.nan
    return a, b


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 99), st.integers(1, 6), st.randoms(use_true_random=False))
def test_merged_moments_give_the_comparison_of_all_pairs(seed: int, parts: int, order: random.Random) -> None:
    a, b = models(seed, 3 * NORMAL_FROM)
    part = np.random.default_rng(seed).integers(0, parts, len(a))
    states = [pickle.loads(pickle.dumps(PairMoments.of(a[part == i], b[part == i]))) for i in range(parts)]
    while len(states) > 1:
        order.shuffle(states)
        states.append(states.pop() + states.pop())
    (whole,) = compare_pairs(a[:, None], b[:, None], tests=("t",), rng=np.random.default_rng(0))
    assert whole.permutations == "normal limit"
    assert compare_moments(states[0], tests=("t",)) == whole


def test_what_moments_cannot_tell_is_an_error() -> None:
    a, b = models(0, 200)
    few = PairMoments.of(a, b)
    with pytest.raises(
        DataError, match=r"^\d+ differences other than 0 need a permutation test of the values "
    ):
        compare_moments(few)
    with pytest.raises(
        DataError, match=r"^Wilcoxon's test needs the values of users, not only their moments$"
    ):
        compare_moments(few, tests=("wilcoxon",))
    differences = np.tile([1e-9, -1e-9], NORMAL_FROM)
    differences[:6] = 1.0
    with pytest.raises(DataError, match="where no few large ones decide the mean"):
        compare_moments(PairMoments.of(differences, np.zeros(len(differences))))
    tiny = PairMoments.of(differences * 1e-150, np.zeros(len(differences)))
    with pytest.raises(DataError, match="need a permutation test"):
        compare_moments(tiny)


def test_values_that_differ_by_rounding_alone_have_no_spread() -> None:
    assert standard_deviation(np.array([0.1 + 0.2, 0.3])) == 0
    assert standard_deviation(np.array([0.25, 0.75])) == np.std([0.25, 0.75], ddof=1)
    assert np.isnan(standard_deviation(np.array([1.0])))
    assert np.isnan(standard_deviation(np.array([np.inf, 0.0])))
