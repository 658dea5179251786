"""Predictions of judged pairs: golden vectors, laws, agreement with scikit-learn."""

from __future__ import annotations

from math import isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss, roc_auc_score

from evalplugin.base.errors import DataError
from evalplugin.metrics import evaluate, parse

Rated = list[dict[int, float]]
PAIRS = st.lists(
    st.dictionaries(
        st.integers(0, 9),
        st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9, 1.0])),
    ),
    min_size=1,
    max_size=6,
)


def measured(name: str, truth: Rated, predictions: Rated, threshold: float | None = None) -> list[float]:
    options = {"truth": truth, "predictions": predictions, "threshold": threshold}
    return evaluate(name, lists=[[]] * len(truth), **options)


def drawn(seed: int) -> tuple[Rated, Rated]:
    rng = np.random.default_rng(seed)
    truth = [{i: float(rng.integers(0, 2)) for i in range(rng.integers(0, 12))} for _ in range(200)]
    # Few values, so that some are equal.
    return truth, [{i: float(rng.integers(0, 21)) / 20 for i in row} for row in truth]


def flat(rows: Rated) -> np.ndarray:
    return np.array([value for row in rows for value in row.values()])


def test_gauc_weighs_users_by_their_pairs_and_leaves_out_those_with_one_kind() -> None:
    truth = [{1: 1.0, 2: 0.0, 3: 0.0}, {1: 1.0, 2: 1.0, 3: 0.0, 4: 0.0}, {1: 1.0, 2: 1.0}, {1: 0.0}, {}]
    predictions = [{1: 5.0, 2: 7.0, 3: 1.0}, {1: 2.0, 2: 9.0, 3: 2.0, 4: 1.0}, {1: 1.0, 2: 2.0}, {1: 3.0}, {}]
    first, second = 1 / 2, (1 / 2 + 1 + 1 + 1) / 4  # a tie counts half
    expected = (3 * first + 4 * second) / (3 + 4)
    assert measured("gauc", truth, predictions) == [pytest.approx(expected, rel=1e-15)]
    assert isnan(measured("gauc", truth[2:], predictions[2:])[0])
    graded = [{1: 5.0, 2: 3.0, 3: 1.0}]
    assert measured("gauc", graded, [{1: 2.0, 2: 1.0, 3: 3.0}], threshold=4) == [1 / 2]


def test_logloss_is_the_mean_negative_logarithm() -> None:
    truth, predictions = [{1: 1.0, 2: 0.0}, {1: 0.0}, {}], [{1: 0.8, 2: 0.4}, {1: 0.5}, {}]
    losses = [-log(0.8), -log(1 - 0.4), -log(1 - 0.5)]
    *defined, undefined = measured("logloss", truth, predictions)
    assert defined == pytest.approx([(losses[0] + losses[1]) / 2, losses[2]], rel=1e-15)
    assert isnan(undefined)
    assert measured("logloss(pooled=true)", truth, predictions) == [pytest.approx(sum(losses) / 3, rel=1e-15)]
    assert measured("logloss", [{1: 1.0}], [{1: 0.0}]) == [pytest.approx(52 * log(2), rel=1e-12)]


def test_ece_adds_up_the_gaps_of_bins() -> None:
    truth, predictions = [{1: 1.0, 2: 0.0, 3: 1.0}, {1: 0.0}], [{1: 0.9, 2: 0.6, 3: 0.1}, {1: 0.5}]
    # Two bins: 0.1 and 0.5 (a boundary is in the lower one), 0.6 and 0.9.
    expected = (abs((1 - 0.1) + (0 - 0.5)) + abs((1 - 0.9) + (0 - 0.6))) / 4
    assert measured("ece(bins=2)", truth, predictions) == [pytest.approx(expected, rel=1e-14)]
    assert measured("ece", truth, predictions) == [pytest.approx((0.1 + 0.6 + 0.9 + 0.5) / 4, rel=1e-14)]
    assert isnan(measured("ece", [{}], [{}])[0])


@pytest.mark.parametrize("seed", range(3))
def test_scikit_learn_agrees(seed: int) -> None:
    truth, predictions = drawn(seed)
    both = [(t, p) for t, p in zip(truth, predictions, strict=True) if len(set(t.values())) == 2]
    auc = [roc_auc_score(list(t.values()), list(p.values())) for t, p in both]
    theirs = np.average(auc, weights=[len(t) for t, _ in both])
    assert measured("gauc", truth, predictions) == [pytest.approx(theirs, rel=1e-12)]
    pooled = log_loss(flat(truth), flat(predictions), labels=[0, 1])
    assert measured("logloss(pooled=true)", truth, predictions) == [pytest.approx(pooled, rel=1e-12)]


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_ece_agrees_with_bins_cut_by_hand(bins: int) -> None:
    truth, predictions = drawn(bins)
    y, p = flat(truth), flat(predictions)
    number = np.maximum(np.ceil(p * bins - 1e-9), 1)
    gaps = [abs(y[number == b].mean() - p[number == b].mean()) * (number == b).mean() for b in set(number)]
    assert measured(f"ece(bins={bins})", truth, predictions) == [pytest.approx(sum(gaps), rel=1e-12)]


@given(pairs=PAIRS)
def test_gauc_looks_at_the_order_alone_and_contrary_predictions_make_the_rest(pairs):
    truth, predictions = ([{i: both[n] for i, both in row.items()} for row in pairs] for n in (0, 1))
    (value,) = measured("gauc", truth, predictions)
    squared = [{i: p * p for i, p in row.items()} for row in predictions]
    contrary = [{i: -p for i, p in row.items()} for row in predictions]
    assert measured("gauc", truth, squared) == [value] or isnan(value)
    assert measured("gauc", truth, contrary) == [pytest.approx(1 - value, abs=1e-15, nan_ok=True)]


@given(pairs=PAIRS)
def test_one_bin_is_the_gap_of_the_means_and_true_probabilities_are_calibrated(pairs):
    truth, predictions = ([{i: both[n] for i, both in row.items()} for row in pairs] for n in (0, 1))
    gap = abs(flat(truth).mean() - flat(predictions).mean()) if any(truth) else float("nan")
    assert measured("ece(bins=1)", truth, predictions) == [pytest.approx(gap, abs=1e-14, nan_ok=True)]
    assert measured("ece", truth, truth) == [0] or not any(truth)


@pytest.mark.parametrize("name", ["logloss", "ece"])
@pytest.mark.parametrize("wrong", [1.5, -0.1])
def test_what_is_no_probability_is_refused(name: str, wrong: float) -> None:
    with pytest.raises(DataError, match=f"the model predicts {wrong}, which is not a probability"):
        measured(name, [{1: 1.0, 2: 0.0}], [{1: 0.5, 2: wrong}])


def test_ratings_beyond_0_to_1_are_refused_before_a_model_is_fitted() -> None:
    for name in ("logloss", "ece"):
        with pytest.raises(DataError, match=r"needs probabilities.*the truth has 1 to 5; take gauc"):
            parse(name).metric.check_ratings(1, 5)
    parse("gauc").metric.check_ratings(1, 5)
