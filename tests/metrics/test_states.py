"""States of scoring: any division of users, merged in any order, gives the scores of all of them to the last bit."""

from __future__ import annotations

import pickle
import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import coded

from evalplugin.base.errors import DataError
from evalplugin.data.interactions import Interactions
from evalplugin.metrics import Blocks, MetricSpec, OverallMetric, ScoringContext, parse
from evalplugin.metrics.distribution import DISTINCT, Distribution, Summary, ValueCounts
from evalplugin.metrics.scores import PerUserScores
from evalplugin.metrics.scoring import score_blocks, score_top_n
from evalplugin.metrics.states import Request, ScorerState
from evalplugin.models.selection import NO_ITEM, TopN

USERS, ITEMS, N = 40, 30, 8
NAMES = "ndcg@5 ndcg novelty@3 rmse hit@1 coverage@5 gini entropy@3 personalization rmse(pooled=true) mae(pooled=true)"
SPECS = [parse(name) for name in NAMES.split()]
CURVE_KS = (1, 5)


def same(a: object, b: object) -> None:
    np.testing.assert_equal(pickle.loads(pickle.dumps(a)), b)  # NaN is equal to NaN


def interactions(row: np.ndarray, column: np.ndarray, rating: np.ndarray | None = None) -> Interactions:
    return coded(
        row, column, rating, users=np.array([f"u{i:02}" for i in range(USERS)], dtype=object), items=ITEMS
    )


RNG = np.random.default_rng(0)
LISTED = np.argsort(RNG.random((USERS, ITEMS)), axis=1)[:, :N].astype(np.int32)
LISTED[np.arange(N) >= RNG.integers(0, 2 * N, USERS)[:, None]] = NO_ITEM
ROWS = np.nonzero(RNG.random((USERS, ITEMS)) < RNG.choice([0, 0.1, 0.3], (USERS, 1)))
TRUTH = interactions(*ROWS, RNG.integers(1, 6, len(ROWS[0])))
TRAIN = interactions(*np.nonzero(RNG.random((USERS, ITEMS)) < 0.2))
PREDICTIONS = RNG.normal(3, 1, len(TRUTH))


def state_of(users: npt.NDArray[np.int64]) -> ScorerState:
    """Return the state of some users, as a worker returns it."""
    kept = np.isin(TRUTH.user, users)
    truth = interactions(TRUTH.user[kept], TRUTH.item[kept], TRUTH.rating[kept])
    top_n = TopN(users.astype(np.int32), LISTED[users], np.zeros((len(users), N)))
    blocks = Blocks.of(top_n, truth, train=TRAIN, predictions=PREDICTIONS[kept])
    state = score_blocks(blocks, Request(tuple(SPECS), N, ITEMS, CURVE_KS), blocks.users)
    return pickle.loads(pickle.dumps(state))


TOP_N = TopN(np.arange(USERS, dtype=np.int32), LISTED, np.zeros((USERS, N)))
ALL = score_top_n(Blocks.of(TOP_N, TRUTH, train=TRAIN, predictions=PREDICTIONS), SPECS, CURVE_KS)


def merged(states: list[ScorerState], order: random.Random) -> ScorerState:
    """Return all states merged, in a random order and tree."""
    while len(states) > 1:
        order.shuffle(states)
        some = order.randint(2, len(states))
        states = [ScorerState.merge(states[:some]), *states[some:]]
    return states[0]


def check(scores: PerUserScores) -> None:
    assert scores.users.tolist() == ALL.users.tolist()
    assert scores.values.tobytes() == ALL.values.tobytes()
    for name in ("means", "counts", "overall", "at_k", "pr_curve"):
        same(getattr(scores, name), getattr(ALL, name))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=USERS, max_size=USERS), st.randoms(use_true_random=False))
def test_any_division_and_order_gives_the_same_bits(part: list[int], order: random.Random) -> None:
    states = [state_of(np.flatnonzero(np.array(part) == number)) for number in range(5)]
    whole = merged(states, order)
    check(whole.scores())
    totals = merged(
        [state.without_values() if order.random() < 0.7 else state for state in states], order
    ).totals()
    assert tuple(totals.distributions) == ALL.metrics
    for name in ("means", "counts", "overall", "at_k", "pr_curve"):
        same(getattr(totals, name), getattr(ALL, name))
    for name, distribution in totals.distributions.items():
        column = ALL.column(name)
        assert distribution.values.tobytes() == column[~np.isnan(column)].tobytes()
        same_summary(distribution.summary, Distribution.of(column).summary)


def same_summary(a: Summary, b: Summary) -> None:
    for name in Summary.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)


def test_a_user_in_two_parts_is_an_error() -> None:
    state = ScorerState.merge([state_of(np.arange(20)), state_of(np.arange(19, USERS))])
    with pytest.raises(DataError, match=r"^user 'u19' is in two parts: all rows of a user belong into one$"):
        state.scores()


def test_states_of_different_scores_are_refused() -> None:
    state = state_of(np.arange(5))
    with pytest.raises(ValueError, match=r"^states of different scores cannot be merged: "):
        ScorerState.merge([state, replace(state, request=replace(state.request, n=9))])
    with pytest.raises(ValueError, match=r"^there is no state to merge$"):
        ScorerState.merge([])
    with pytest.raises(ValueError, match=r"^values of users were left out: "):
        state.without_values().scores()


def test_merging_changes_no_state() -> None:
    a, b = state_of(np.arange(20)), state_of(np.arange(20, USERS))
    before = pickle.dumps((a, b))
    ScorerState.merge([a, b]).without_values()
    assert pickle.dumps((a, b)) == before


def test_a_metric_that_cannot_be_merged_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class LongestList(OverallMetric):
        """Length of the longest list."""

        higher_is_better = None
        bounds = (0.0, float("inf"))

        def start(self, n_items: int) -> npt.NDArray[Any]:
            return np.zeros(1)

        def update(self, state: npt.NDArray[Any], context: ScoringContext, k: int) -> None:
            state[0] = max(state[0], context.n_listed.max(initial=0))

        def finish(self, state: npt.NDArray[Any]) -> float:
            return float(state[0])

    request = Request((MetricSpec("longest_list", LongestList()),), N, ITEMS)
    states = [ScorerState(request, overall={"longest_list": np.zeros(1)}) for _ in range(2)]
    with pytest.raises(DataError) as caught:
        ScorerState.merge(states)
    assert "metric longest_list is one number for all lists" in str(caught.value)
    assert "let LongestList define merge(self, a, b)" in str(caught.value)
    monkeypatch.setattr(LongestList, "merge", lambda self, a, b: np.maximum(a, b), raising=False)
    assert ScorerState.merge(states).totals().overall == {"longest_list": 0.0}


@settings(max_examples=50)
@given(
    st.lists(st.floats(-2, 2).map(lambda v: round(v, 2)), max_size=40),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_quantiles_of_merged_counts_are_those_of_the_values(values, parts, order):
    column = np.array(values)
    states = [ValueCounts.of(column[start::parts]) for start in range(parts)]
    order.shuffle(states)
    counts = ValueCounts.merge(states)
    shares = np.linspace(0, 1, 101)
    expected = np.quantile(column + 0.0, shares) if values else np.full(101, np.nan)
    np.testing.assert_array_equal(counts.quantiles(shares), expected)
    assert counts.dropped == 0


@settings(max_examples=50)
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.integers(2, 12),
    st.integers(1, 5),
    st.randoms(use_true_random=False),
)
def test_digits_are_dropped_by_the_set_of_values_alone(values, distinct, parts, order):
    column = np.array(values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evalplugin.metrics.distribution.DISTINCT", distinct)
        whole = ValueCounts.of(column)
        states = [ValueCounts.of(column[start::parts]) for start in range(parts)]
        while len(states) > 1:
            order.shuffle(states)
            states = [ValueCounts.merge(states[:2]), *states[2:]]
    assert len(whole.values) <= distinct
    assert whole.counts.sum() == len(values)
    assert states[0].values.tobytes() == whole.values.tobytes()
    assert states[0].counts.tolist() == whole.counts.tolist()
    assert states[0].dropped == whole.dropped


def test_many_distinct_values_keep_six_digits() -> None:
    values = np.random.default_rng(0).random(DISTINCT + 50_000)
    counts = ValueCounts.of(values)
    assert len(counts.values) <= DISTINCT
    shares = np.array([0.01, 0.1, 0.5, 0.9, 1.0])
    exact = np.quantile(values, shares)
    assert counts.dropped > 0
    assert (np.abs(counts.quantiles(shares) - exact) <= exact * 2.0 ** (counts.dropped - 52)).all()
    assert 2.0 ** (counts.dropped - 52) < 1e-5
