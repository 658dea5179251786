"""The models that may be the best."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics import best, lower_bound, may_be_best

FEW = settings(max_examples=20)


@pytest.fixture(autouse=True, scope="module")
def few_draws() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best, "_DRAWS", 2000)
        yield


def found(scores: np.ndarray, level: float = 0.95, seed: int = 0) -> list[bool]:
    return may_be_best(scores, level=level, rng=np.random.default_rng(seed)).tolist()


@st.composite
def bakeoffs(draw: st.DrawFn) -> np.ndarray:
    """Scores of several models, of which some may be alike: few levels, many zeros, or long tails."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    users, models = draw(st.integers(2, 60)), draw(st.integers(2, 7))
    gain = draw(st.sampled_from([0.0, 0.05, 0.5]))
    scores = rng.standard_normal((users, 1)) + rng.standard_normal((users, models)) + gain * np.arange(models)
    shape = draw(st.sampled_from(["normal", "levels", "zeros", "tail"]))
    if shape == "levels":
        return np.round(scores)
    return {"normal": scores, "zeros": np.maximum(scores, 0), "tail": np.exp(scores)}[shape]


@FEW
@given(bakeoffs(), st.integers(0, 2**32))
def test_the_order_of_the_models_changes_nothing(scores: np.ndarray, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(scores.shape[1])
    assert found(scores[:, order]) == np.array(found(scores))[order].tolist()


@FEW
@given(bakeoffs(), st.sampled_from([2.0**-30, 0.5, 1024.0]))
def test_the_scale_changes_nothing(scores: np.ndarray, scale: float) -> None:
    assert found(scores * scale) == found(scores)


@FEW
@given(bakeoffs(), st.sampled_from([-8.0, 1.0, 64.0]))
def test_a_shift_of_all_models_changes_nothing(scores: np.ndarray, shift: float) -> None:
    grid = np.round(scores * 2**20) / 2**20  # on which the shift loses no digit
    assert found(grid + shift) == found(grid)


@FEW
@given(bakeoffs())
def test_the_leader_always_stays(scores: np.ndarray) -> None:
    assert found(scores, 0.5)[scores.mean(axis=0).argmax()]


@FEW
@given(bakeoffs())
def test_a_higher_level_leaves_out_no_further_model(scores: np.ndarray) -> None:
    sets = [found(scores, level) for level in (0.5, 0.8, 0.95, 0.999)]
    assert all(low <= high for one in zip(*sets, strict=True) for low, high in pairwise(one))


@FEW
@given(bakeoffs(), st.data())
def test_models_with_equal_scores_stay_or_are_left_out_together(scores, data):
    twin = data.draw(st.integers(0, scores.shape[1] - 1))
    *_, ours = kept = found(np.column_stack([scores, scores[:, twin]]))
    assert kept[twin] == ours


def test_two_models_are_told_apart_by_the_one_sided_bound() -> None:
    rng = np.random.default_rng(0)
    outcomes = set()
    for gain in np.linspace(0, 0.5, 40):
        scores = np.exp(rng.standard_normal((100, 2))) + np.array([0, gain])
        worse, better = np.argsort(scores.mean(axis=0))
        is_beaten = lower_bound(scores[:, better] - scores[:, worse]) > 0
        assert found(scores)[worse] is not is_beaten
        outcomes.add(is_beaten)
    assert outcomes == {True, False}


def test_the_critical_value_is_that_of_dunnett() -> None:
    # Differences of independent models from one of them correlate by 1/2, as in Dunnett's table.
    draws = best._draws(np.eye(5), 20, np.random.default_rng(0))
    largest = ((draws[:, 1:] - draws[:, :1]) / np.sqrt(2)).max(axis=1)
    assert np.quantile(largest, 0.95) == pytest.approx(2.30, abs=0.06)  # 4 comparisons, 20 degrees of freedom


def test_a_lead_that_few_large_losses_may_undo_proves_nothing() -> None:
    lead = np.array([-0.9] * 2 + [0.02] * 198)
    assert stats.ttest_1samp(lead, 0, alternative="greater").pvalue < 0.05
    assert found(np.column_stack([lead, np.zeros(200)])) == [True, True]


def test_a_difference_that_is_the_same_for_every_user_decides() -> None:
    one = np.array([0.1, 0.5, 0.2, 0.9])
    assert found(np.column_stack([one, one + 0.1, one - 0.1])) == [False, True, False]
    assert found(np.column_stack([one, one * (1 + 1e-15)])) == [True, True]


def test_a_tiny_difference_for_one_of_many_users_decides_nothing() -> None:
    """By covariances it would be lost in rounding, and pass for a difference that is the same for all."""
    one = np.random.default_rng(0).random(100_000)
    other = one.copy()
    other[7] += 1e-6
    assert found(np.column_stack([one, other])) == [True, True]


def test_equal_scores_everywhere_leave_out_no_model() -> None:
    assert found(np.full((5, 3), 0.25)) == [True] * 3
    assert found(np.zeros((5, 3))) == [True] * 3


@pytest.mark.parametrize("shape", [(1, 3), (0, 3), (5, 1), (5, 0), (0, 0)])
def test_without_two_users_and_two_models_all_stay(shape: tuple[int, int]) -> None:
    scores = np.arange(shape[0] * shape[1], dtype=np.float64).reshape(shape)
    assert found(scores) == [True] * shape[1]


def test_very_large_and_very_small_scores_are_compared_alike() -> None:
    scores = np.random.default_rng(0).random((50, 3)) + np.array([0.0, 0.05, 0.6])
    assert found(scores * 1e150) == found(scores * 1e-150) == found(scores) == [False, False, True]


def test_bad_input_is_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(DataError, match="not 95"):
        may_be_best(np.zeros((3, 2)), level=95, rng=rng)
    with pytest.raises(DataError, match="finite scores"):
        may_be_best(np.array([[0.0, np.nan], [1.0, 1.0]]), rng=rng)
