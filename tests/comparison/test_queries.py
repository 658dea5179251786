"""Queries of a session count once for what they share: sessions of equal queries decide as users do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalplugin.comparison.compared import ComparedModel, metric_cells
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import Contest
from evalplugin.data.queries import query_ids
from evalplugin.features.gate.decide import decide
from evalplugin.features.gate.decision import Decision
from evalplugin.features.gate.schema import Gate
from evalplugin.metrics import parse
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.segments import Segmentation

N, EACH = 400, 7
_RNG = np.random.default_rng(4)
VALUES = {
    name: np.clip(_RNG.normal(level, 0.2, (N, 2)), 0, 1)
    for name, level in {"old": 0.40, "new": 0.44, "far": 0.2}.items()
}


def contest(each: int) -> Contest:
    """Return a contest of users, or of sessions of so many queries with equal scores, divided into two halves."""
    queries = query_ids(np.repeat(np.arange(N), each), np.tile(np.arange(1, each + 1), N))
    users, noun = (np.arange(N), "user") if each == 1 else (queries, "query")
    order = np.argsort(users)
    units, metrics = Units.of_lists(users[order], noun), ("ndcg@10", "rr")
    columns = {name: np.repeat(values, each, axis=0)[order] for name, values in VALUES.items()}
    models = tuple(ComparedModel(n, PerUserScores(units, own, metrics)) for n, own in columns.items())
    half = np.repeat(np.arange(N) % 2, each)[order].astype(np.int32)
    segments = (Segmentation("half", ("even", "odd"), users[order], half),)
    return Contest("b-1", "toy", "next_item", models, ("ndcg@10", "rr"), "old", 0, "test", segments)


@pytest.fixture(scope="module")
def users() -> Comparison:
    return compare(contest(1), pairs="all")


@pytest.fixture(scope="module")
def queries() -> Comparison:
    return compare(contest(EACH), pairs="all")


def test_differences_of_sessions_are_those_of_users(users: Comparison, queries: Comparison) -> None:
    assert queries.contest.units.noun == "query"
    assert len(users.pairs) == len(queries.pairs) == 6
    for one, many in zip(users.pairs, queries.pairs, strict=True):
        a, b = one.paired, many.paired
        assert (b.users, b.clusters, b.units) == (EACH * N, N, N)
        assert (b.interval.low, b.interval.high) == pytest.approx((a.interval.low, a.interval.high), rel=1e-9)
        assert b.design_effect == pytest.approx(EACH, rel=0.01)
        assert many.p == pytest.approx(one.p, abs=0.01)  # other signs are drawn
        assert b.detectable == pytest.approx(a.detectable, rel=1e-9)


def test_means_and_groups_of_queries_have_intervals_of_their_sessions(users, queries):
    for row, other in zip(users.models, queries.models, strict=True):
        cell, wide = row.cells["ndcg@10"], other.cells["ndcg@10"]
        assert wide.clusters == N
        assert wide.mean == pytest.approx(cell.mean)
        # One by the bootstrap, one by Student's t.
        assert wide.high - wide.low == pytest.approx(cell.high - cell.low, rel=0.05)
    assert len(users.segments) == len(queries.segments) == 12
    for group, of_queries in zip(users.segments, queries.segments, strict=True):
        assert of_queries.interval.clusters == N / 2
        width = group.interval.high - group.interval.low
        assert of_queries.interval.high - of_queries.interval.low == pytest.approx(width, rel=0.08)


def test_means_over_sessions_count_each_session_once() -> None:
    # Session 1 has one query, sessions 2 and 3 have more; the last query of session 3 is undefined.
    ids = query_ids(np.array([1, 2, 2, 2, 3, 3, 3]), np.array([1, 1, 2, 3, 1, 2, 3]))
    values = np.array([[1.0], [0.0], [0.25], [0.5], [0.5], [0.75], [np.nan]])
    of_queries = PerUserScores(Units.of_lists(ids, "query"), values, ("rr",))
    cell = metric_cells(of_queries, [parse("rr")], seed=0)["rr"]
    assert cell.mean == pytest.approx((1 + 0 + 0.25 + 0.5 + 0.5 + 0.75) / 6)
    means = [1.0, (0 + 0.25 + 0.5) / 3, (0.5 + 0.75) / 2]
    assert cell.over_clusters.mean == pytest.approx(sum(means) / 3)
    assert (cell.over_clusters.n, cell.over_clusters.clusters) == (3, None)


def test_models_that_may_be_the_best_are_those_of_users(users: Comparison, queries: Comparison) -> None:
    one, many = users.best["rr"], queries.best["rr"]
    assert (one.models, one.rival) == (many.models, many.rival)
    assert many.users == EACH * N
    close = {"old": VALUES["old"], "new": VALUES["old"] + np.random.default_rng(1).normal(0.01, 0.2, (N, 2))}
    needed = []
    for comparison, each in ((users, 1), (queries, EACH)):
        models = tuple(
            replace(m, scores=replace(m.scores, values=_like(m.scores, close[m.model], each)))
            for m in comparison.contest.models
            if m.model != "far"
        )
        best = compare(replace(comparison.contest, models=models)).best["rr"]
        assert len(best.models) == 2
        needed.append(best.users_to_tell)
    assert needed[0] is not None
    assert needed[1] == pytest.approx(EACH * needed[0], rel=0.01)


def _like(scores: PerUserScores | None, values: np.ndarray, each: int) -> np.ndarray:
    session = scores.users if each == 1 else [int(query.split(":")[0]) for query in scores.users]
    return values[np.asarray(session, dtype=int)]


def test_a_gate_decides_on_sessions_as_on_users() -> None:
    def decided(each: int, **gate: object) -> Decision:
        return decide(contest(each), Gate.model_validate({"min_users": 100, **gate}), "old")

    one, many = decided(1), decided(EACH)
    assert one.outcome == many.outcome == "promote"
    for a, b in zip(one.conditions, many.conditions, strict=True):
        assert (b.bound, b.upper, b.detectable) == pytest.approx((a.bound, a.upper, a.detectable), rel=1e-2)
        assert b.users == EACH * (a.users or 0)
    # Sessions are counted: 400 of them are no 500, although there are 2,800 queries.
    assert decided(EACH, min_users=500).outcome != "promote"


def test_a_gate_guards_groups_of_sessions_as_those_of_users() -> None:
    guardrails = {"segments": {"half": {"worst": "10 %", "gap": 0.1}}}
    gate = Gate.model_validate({"min_users": 100, "guardrails": guardrails})
    one, many = (
        [c for c in decide(contest(each), gate, "old").conditions if c.kind == "segment"]
        for each in (1, EACH)
    )
    assert [c.name for c in one] == ["half: worst group", "half: gap"] * 2
    for a, b in zip(one, many, strict=True):
        assert (b.name, b.passed, b.users) == (a.name, a.passed, EACH * N)
        assert (b.measured, b.bound, b.p) == pytest.approx((a.measured, a.bound, a.p))
