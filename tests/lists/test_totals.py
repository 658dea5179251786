"""Scores of lists whose users' values are kept elsewhere."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalplugin.base.errors import DataError
from evalplugin.lists.scores import ListScores
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.metrics.states import Request, ScorerState, UserValues


@pytest.mark.parametrize("users", [0, 1, 700, 3000])
def test_totals_give_what_the_values_give(users: int) -> None:
    specs: tuple[MetricSpec, ...] = (parse("ndcg@10"), parse("rr"), parse("hit@1"))
    rng = np.random.default_rng(users)
    values = np.stack([rng.random(users), np.round(rng.random(users), 1), np.ones(users)])
    values[0, rng.random(users) < 0.5] = np.nan  # at 3000 users, few are left
    names = np.array([f"user {i:05}" for i in range(users)], dtype=object)
    order = rng.permutation(users)
    request = Request(specs, 10, 50)
    states = [
        ScorerState(request, (UserValues(names[part], values[:, part]),)).without_values()
        for part in np.array_split(order, 7)
    ]
    table = object()
    totals = ListScores(ScorerState.merge(states).totals(), table)
    whole = ListScores(PerUserScores(Units(names), values.T, request.per_user))
    np.testing.assert_equal(totals.means, whole.means)
    assert totals.counts == whole.counts
    assert totals.per_user is table
    for name in request.per_user:
        np.testing.assert_equal(vars(totals.interval(name, seed=3)), vars(whole.interval(name, seed=3)))
        np.testing.assert_equal(vars(totals.summaries[name]), vars(whole.summaries[name]))
    with pytest.raises(
        DataError, match=r"^the values of users are not in memory: they are in the table per_user$"
    ):
        _ = totals.scores


@settings(deadline=None, max_examples=50)
@given(
    sessions=st.lists(st.integers(1, 4), min_size=1, max_size=40),
    copies=st.sampled_from([1, 60]),  # 60: more values than are kept
    data=st.data(),
)
def test_sessions_of_queries_give_the_same_bits_however_they_are_divided(sessions, copies, data):
    sizes = np.tile(sessions, copies)
    n, rng = int(sizes.sum()), np.random.default_rng(data.draw(st.integers(0, 99)))
    order = random.Random(data.draw(st.integers(0, 99)))
    session = np.repeat(np.arange(len(sizes)), sizes)
    place = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    ids = np.array(
        [f"a:{s}:{p}" for s, p in zip(session.tolist(), place.tolist(), strict=True)], dtype=object
    )
    level = rng.random(len(sizes))[session]
    values = np.stack(
        [(rng.random(n) < level) * 1.0, level * rng.random(n), np.where(place > 0, np.nan, level)]
    )
    values[:2, rng.random(n) < 0.1] = np.nan
    request = Request((parse("hit@1"), parse("rr"), parse("ndcg@5")), 10, 50, unit="query")
    part = rng.integers(0, 5, len(sizes))[session]
    rows = [rng.permutation(np.flatnonzero(part == number)) for number in range(5)]
    rows = [of_part[np.argsort(ids[of_part])] for of_part in rows]
    states = [ScorerState(request, (UserValues(ids[r], values[:, r]),)) for r in rows if len(r)]
    states = [state.without_values() if order.random() < 0.7 else state for state in states]
    while len(states) > 1:
        order.shuffle(states)
        states = [ScorerState.merge(states[:2]), *states[2:]]
    totals = ListScores(states[0].totals())
    ascending = np.argsort(ids)
    whole = ListScores(
        PerUserScores(Units.of_lists(ids[ascending], "query"), values[:, ascending].T, request.per_user)
    )
    np.testing.assert_equal(totals.means, whole.means)
    for name in request.per_user:
        np.testing.assert_equal(vars(totals.interval(name)), vars(whole.interval(name)))
        np.testing.assert_equal(vars(totals.summaries[name]), vars(whole.summaries[name]))
