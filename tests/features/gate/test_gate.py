"""The gate: every condition decided by numbers that can be checked by hand, and what follows from them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy import stats

from evalplugin.base.errors import DataError
from evalplugin.base.seeding import generator
from evalplugin.comparison.compared import ComparedModel
from evalplugin.execution.results import Costs
from evalplugin.features.gate.decide import check_challengers, decide, gate_without_champion
from evalplugin.features.gate.decision import Condition, Decision
from evalplugin.features.gate.report import decision_markdown, decision_statement
from evalplugin.features.gate.schema import Gate
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.competition import Competition, ModelFacts, Rules
from evalplugin.segments import Segmentation

N = 600  # users of most contests here
RULES = Rules(train_digest="a", test_digest="b", n=10, candidates="unseen", threshold=None, metrics_hash="c")
BASE = np.full(N, 0.2)
WAVE = np.where(np.arange(N) % 2, 0.1, 0.0)  # a gain of 0.05 on average
SD = math.sqrt(N * 0.05**2 / (N - 1))  # of WAVE
HALF = stats.t.ppf(0.95, N - 1) * SD / math.sqrt(N)  # from its mean to its lower bound at 95 %


def compared_model(
    model: str, values: Any, *, users: Any = None, folds: int = 1, **metrics: Any
) -> ComparedModel:
    """A model whose scores by ndcg@10 are ``values``; further metrics by name, single numbers for all users."""
    columns = {"ndcg@10": np.asarray(values, dtype=float)}
    columns |= {name: np.asarray(v, dtype=float) for name, v in metrics.items() if not np.isscalar(v)}
    scores = PerUserScores(
        units=Units(np.arange(len(columns["ndcg@10"])) if users is None else users),
        values=np.stack(list(columns.values()), axis=1),
        metrics=tuple(columns),
        overall={name: float(v) for name, v in metrics.items() if np.isscalar(v)},
    )
    return ComparedModel(model, scores, tuple({} for _ in range(folds)))


def failed(model: str) -> ComparedModel:
    return ComparedModel(model, None, error="ValueError: k must be <= 12")


def contest(*models: ComparedModel, costs: Mapping[str, Costs] | None = None, **changes: Any) -> Competition:
    made = Competition(
        name="20260101-120000-3f2a",
        dataset="toy",
        split="last_n",
        models=models,
        metrics=("ndcg@10",),
        baseline=None,
        seed=0,
        digest=RULES.test_digest,
        rules=RULES,
        facts={name: ModelFacts(costs=own) for name, own in (costs or {}).items()},
    )
    return dataclasses.replace(made, **changes)


def gate(**values: Any) -> Gate:
    return Gate.model_validate(values)


def decided(
    *models: ComparedModel, champion: str = "old", costs: Mapping[str, Costs] | None = None, **values: Any
) -> Decision:
    return decide(contest(*models, costs=costs), gate(**values), champion)


def only(decision: Decision, kind: str) -> Condition:
    (condition,) = (c for c in decision.conditions if c.kind == kind)
    return condition


OLD = compared_model("old", BASE)
NEW = compared_model("new", BASE + WAVE)


# The gain


def test_a_gain_is_promoted_whose_bound_is_above_0() -> None:
    decision = decided(OLD, NEW)
    gain = only(decision, "gain")
    assert (decision.outcome, decision.promoted, decision.champion) == ("promote", "new", "old")
    assert gain.measured == pytest.approx(0.05)
    assert gain.bound == pytest.approx(0.05 - HALF)
    assert (gain.limit, gain.confidence, gain.users, gain.passed) == (0.0, 0.95, N, True)
    assert gain.p == gain.p_holm == pytest.approx(stats.t.sf(0.05 / SD * math.sqrt(N), N - 1))
    assert decision.reason == (
        f"new replaces old: gain +{0.05 - HALF:.4f} ndcg@10 or more (needed: above 0), with 95 % confidence"
    )


@pytest.mark.parametrize(("min_gain", "passed"), [(0.05 - HALF - 1e-6, True), (0.05 - HALF + 1e-6, False)])
def test_the_bound_must_be_above_the_minimum_gain(min_gain: float, passed: bool) -> None:
    decision = decided(OLD, NEW, min_gain=min_gain)
    assert only(decision, "gain").passed is passed
    assert decision.outcome == ("promote" if passed else "cannot_tell")


def test_a_minimum_gain_in_percent_is_of_each_users_score() -> None:
    champion = np.where(np.arange(N) < N // 2, 0.1, 0.3)
    decision = decided(
        compared_model("old", champion), compared_model("new", champion + WAVE), min_gain="20 %"
    )
    gain = only(decision, "gain")
    excess = WAVE - 0.2 * champion  # mean 0.05 - 0.04
    assert gain.limit == pytest.approx(0.2 * 0.2)
    assert gain.measured == pytest.approx(0.05)
    half = stats.t.ppf(0.95, N - 1) * excess.std(ddof=1) / math.sqrt(N)
    assert gain.bound == pytest.approx(0.05 - half)
    assert gain.required == "gain above 0.04, 20 % of the champion's 0.2000"
    assert decision.outcome == "promote"


def test_where_less_is_better_a_fall_is_a_gain() -> None:
    one = contest(
        compared_model("old", BASE, rmse=BASE + WAVE),
        compared_model("new", BASE, rmse=BASE),
        metrics=("rmse", "ndcg@10"),
    )
    decision = decide(one, gate(min_gain=0.01), "old")
    assert decision.metric == "rmse"
    assert only(decision, "gain").measured == pytest.approx(0.05)
    assert decision.promoted == "new"


def test_an_equal_challenger_is_not_promoted() -> None:
    decision = decided(OLD, compared_model("same", BASE))
    assert (decision.outcome, decision.promoted) == ("keep", None)
    assert (only(decision, "gain").measured, only(decision, "gain").p) == (0.0, 1.0)
    told = "gain +0.0000 ndcg@10 or less (needed: above 0), with 95 % confidence"
    assert decision.reason == f"old stays: same: {told}"


def test_users_with_scores_of_both_models_count_matched_by_id() -> None:
    values = np.where(np.arange(N) < 50, np.nan, BASE + WAVE)
    shifted = compared_model("new", (BASE + WAVE)[50:], users=np.arange(50, N))
    for new in (compared_model("new", values), shifted):
        gain = only(decided(OLD, new), "gain")
        assert (gain.users, gain.measured) == (N - 50, pytest.approx(0.05))


def test_the_gate_may_decide_by_another_metric_than_the_primary_one() -> None:
    decision = decided(
        compared_model("old", BASE + WAVE, rr=BASE), compared_model("new", BASE, rr=BASE + WAVE), metric="rr"
    )
    assert (decision.metric, decision.promoted) == ("rr", "new")


# Several challengers


def gaining(model: str, p: float) -> ComparedModel:
    """A challenger with this p-value: its gain has the standard deviation of WAVE."""
    return compared_model(model, BASE + WAVE - 0.05 + stats.t.isf(p, N - 1) * SD / math.sqrt(N))


def test_challengers_are_corrected_for_their_number_by_holm() -> None:
    assert decided(OLD, gaining("a", 0.03)).promoted == "a"
    decision = decided(OLD, gaining("a", 0.03), gaining("b", 0.02), compared_model("c", BASE - WAVE))
    p = {c.challenger: (c.p, c.p_holm) for c in decision.conditions}
    assert p["b"] == pytest.approx((0.02, 3 * 0.02))
    assert p["a"] == pytest.approx((0.03, 3 * 0.02))
    assert p["c"] == pytest.approx((1.0, 1.0))
    assert decision.promoted is None


def test_the_bound_is_at_the_level_at_which_holm_tests() -> None:
    decision = decided(OLD, gaining("a", 0.01), gaining("b", 0.03), gaining("c", 0.3))
    level = {c.challenger: c.confidence for c in decision.conditions}
    # The best of three passes at 0.05 / 3; the second has to at 0.05 / 2 and does not; so the third is at 0.05 / 2.
    assert level == pytest.approx({"a": 1 - 0.05 / 3, "b": 1 - 0.05 / 2, "c": 1 - 0.05 / 2})
    for c in decision.conditions:
        assert c.bound is not None
        assert c.passed == (c.bound > 0) == (c.challenger == "a")
    assert decision.promoted == "a"


def test_of_several_that_pass_the_largest_gain_wins() -> None:
    decision = decided(
        OLD, NEW, compared_model("better", BASE + 2 * WAVE), compared_model("worse", BASE - WAVE)
    )
    assert decision.promoted == "better"
    assert [name for name in decision.challengers if decision.passed(name)] == ["new", "better"]
    assert "challengers" not in decision.reason
    assert (
        decision_statement(decision)
        .details[-1]
        .startswith(
            "2 of 3 challengers passed; the confidence is for all together, so the first was tested at 98.33 %"
        )
    )


def test_a_failed_guardrail_promotes_the_second_largest_gain() -> None:
    decision = decided(
        compared_model("old", BASE, rr=BASE),
        compared_model("new", BASE + WAVE, rr=BASE),
        compared_model("better", BASE + 2 * WAVE, rr=BASE - WAVE),
        guardrails={"metrics": {"rr": 0.01}},
    )
    assert decision.promoted == "new"
    assert decision.reason.endswith("the guardrail holds")


def test_only_named_challengers_are_tested() -> None:
    decision = decided(OLD, gaining("a", 0.03), gaining("b", 0.2), challengers=["a"])
    assert (decision.challengers, decision.promoted) == (("a",), "a")


# Guardrails


@pytest.mark.parametrize(("margin", "passed"), [(0.05 + HALF + 1e-6, True), (0.05 + HALF - 1e-6, False)])
def test_a_guardrail_holds_if_the_loss_bound_is_below_its_margin(margin: float, passed: bool) -> None:
    decision = decided(*LOSING, guardrails={"metrics": {"rr": margin}})
    loss = only(decision, "metric")
    assert (loss.measured, loss.bound) == pytest.approx((-0.05, -0.05 - HALF))
    assert loss.limit == pytest.approx(-margin)
    assert loss.passed is passed
    assert decision.outcome == ("promote" if passed else "keep")


LOSING = compared_model("old", BASE, rr=BASE), compared_model("new", BASE + WAVE, rr=BASE - WAVE)


def test_guardrails_may_have_a_confidence_of_their_own() -> None:
    loss = only(decided(*LOSING, guardrails={"metrics": {"rr": 0.055}, "confidence": 0.5}), "metric")
    assert (loss.confidence, loss.bound, loss.passed) == (0.5, pytest.approx(-0.05), True)


def test_a_margin_in_percent_is_of_the_champions_score() -> None:
    loss = only(decided(*LOSING, guardrails={"metrics": {"rr": "50%"}}), "metric")
    assert (loss.limit, loss.passed) == (pytest.approx(-0.1), True)
    assert loss.required == "loss below 0.1, 50 % of the champion's 0.2000"


def test_a_metric_that_is_one_number_is_compared_as_it_is() -> None:
    for number, margin, passed in (
        (0.45, 0.051, True), (0.45, 0.049, False), (0.45, "11 %", True), (0.45, "9 %", False), (0.25, 0.25, True),
    ):  # fmt: skip
        models = (
            compared_model("old", BASE, **{"coverage@10": 0.5}),
            compared_model("new", BASE + WAVE, **{"coverage@10": number}),
        )
        loss = only(decided(*models, guardrails={"metrics": {"coverage@10": margin}}), "metric")
        assert (loss.measured, loss.bound, loss.passed) == (pytest.approx(number - 0.5), None, passed)
        assert loss.required.endswith("; one number for all users has no bound")
        assert loss.required.startswith("loss at most ")


def test_a_guardrail_that_was_not_measured_does_not_hold() -> None:
    decision = decided(OLD, NEW, guardrails={"metrics": {"rr": 0.1, "coverage@10": 1}})
    assert (decision.outcome, decision.reason) == ("keep", "old stays: new: rr: not measured")


def test_a_guardrail_on_few_users_does_not_hold() -> None:
    few = np.where(np.arange(N) < 499, 0.5, np.nan)
    models = compared_model("old", BASE, rr=few), compared_model("new", BASE + WAVE, rr=few)
    loss = only(decided(*models, guardrails={"metrics": {"rr": 0.1}}), "metric")
    assert (loss.passed, loss.note) == (False, "only 499 users have scores of both models")


def test_a_share_of_a_mean_below_0_is_undefined() -> None:
    models = compared_model("old", BASE, kendall=-BASE), compared_model("new", BASE + WAVE, kendall=BASE)
    loss = only(decided(*models, guardrails={"metrics": {"kendall": "1 %"}}), "metric")
    assert (loss.passed, loss.note) == (False, "a share is undefined of a mean below 0")
    assert only(decided(*models, guardrails={"metrics": {"kendall": 0.01}}), "metric").passed
    number = (
        compared_model("old", BASE, **{"personalization@10": -1.0}),
        compared_model("new", BASE, **{"personalization@10": 1.0}),
    )
    loss = only(decided(*number, guardrails={"metrics": {"personalization@10": "1 %"}}), "metric")
    assert (loss.passed, loss.note) == (False, "a share is undefined of a mean below 0")


COSTLY = Costs(fit_seconds=60.0, recommend_seconds=40.0, score_seconds=1.0, peak_memory_mb=900.0)


@pytest.mark.parametrize(
    ("cost", "limit", "measured", "passed"),
    [
        ("fit_seconds", {"max": 30.0}, 60 / 2, True),
        ("fit_seconds", {"max": 29.9}, 60 / 2, False),
        ("recommend_seconds_per_user", {"max": 0.034}, 40 / 2 / N, True),
        ("recommend_seconds_per_user", {"max": 0.033}, 40 / 2 / N, False),
        ("peak_memory_mb", {"max": 900.0}, 900.0, True),
        ("peak_memory_mb", {"max_ratio": 3.0}, 900.0, True),
        ("peak_memory_mb", {"max_ratio": 2.99}, 900.0, False),
    ],
)
def test_costs_are_limited_by_a_fold(cost, limit, measured, passed):
    decision = decided(
        compared_model("old", BASE, folds=2),
        compared_model("new", BASE + WAVE, folds=2),
        costs={"old": Costs(10.0, 10.0, 1.0, 300.0), "new": COSTLY},
        guardrails={"costs": {cost: limit}},
    )
    found = only(decision, "cost")
    assert (found.name, found.measured, found.passed) == (cost, pytest.approx(measured), passed)
    assert decision.outcome == ("promote" if passed else "keep")


def test_both_limits_of_a_cost_are_conditions() -> None:
    decision = decided(
        OLD,
        NEW,
        costs={"old": Costs(10.0, 10.0, 1.0, 300.0), "new": COSTLY},
        guardrails={"costs": {"fit_seconds": {"max": 100, "max_ratio": 2}}},
    )
    told = [(c.required, c.passed) for c in decision.conditions if c.kind == "cost"]
    assert told == [("at most 100", True), ("at most 20, 2 times the champion's 10", False)]


def test_a_ratio_to_a_cost_that_was_not_measured_does_not_hold() -> None:
    limits = {"costs": {"fit_seconds": {"max_ratio": 2}}}
    found = only(decided(OLD, NEW, costs={"new": COSTLY}, guardrails=limits), "cost")
    assert (found.passed, found.limit, found.measured) == (False, None, 60.0)
    assert found.required == "at most 2 times the champion's, which was not measured"


def test_costs_that_were_not_measured_do_not_hold() -> None:
    unknown = dataclasses.replace(COSTLY, peak_memory_mb=math.nan)
    costs = {"old": COSTLY, "new": unknown}
    limits = {"costs": {"peak_memory_mb": {"max": 1000}}}
    found = only(decided(OLD, NEW, costs=costs, guardrails=limits), "cost")
    assert (found.passed, found.measured, found.measured_text) == (False, None, "not measured")
    assert not only(decided(OLD, NEW, guardrails={"costs": {"fit_seconds": {"max": 1}}}), "cost").passed


SMALL, LARGE = 100, N - 100
GROUPS = Segmentation(
    "activity", ("new", "old"), np.arange(N), np.r_[np.zeros(SMALL), np.ones(LARGE)].astype(np.int32)
)


def by_group(**margins: Any) -> Decision:
    """The challenger gains 0.05 in the large group and loses 0.05 in the small one."""
    values = BASE + np.where(GROUPS.group == 1, WAVE, -WAVE)
    one = contest(OLD, compared_model("new", values), segments=(GROUPS,))
    return decide(one, gate(guardrails={"segments": {"activity": margins}}), "old")


def test_no_group_may_lose_more_than_the_margin() -> None:
    sd = math.sqrt(SMALL * 0.05**2 / (SMALL - 1))
    half = stats.t.ppf(0.95, SMALL - 1) * sd / math.sqrt(SMALL)
    for margin, passed in ((0.05 + half + 1e-6, True), (0.05 + half - 1e-6, False)):
        decision = by_group(margin=margin, min_users=100)
        small, large = (c for c in decision.conditions if c.kind == "segment")
        assert (small.name, large.name) == ("activity: new", "activity: old")
        assert (small.users, large.users) == (SMALL, LARGE)
        assert small.bound == pytest.approx(-0.05 - half)
        assert (small.passed, large.passed) == (passed, True)
        assert decision.outcome == ("promote" if passed else "keep")


SMALL_SD, LARGE_SD = (math.sqrt(n * 0.05**2 / (n - 1)) for n in (SMALL, LARGE))
# Both statistics have two contrasts that decide; the fewest degrees of freedom are those of the small group.
CORRECTED = stats.t.ppf(1 - 0.05 / 2, SMALL - 1)


def test_the_worst_group_may_not_lose_more_than_the_margin() -> None:
    half = CORRECTED * SMALL_SD / math.sqrt(SMALL)
    for margin, passed in ((0.05 + half + 1e-6, True), (0.05 + half - 1e-6, False)):
        decision = by_group(worst=margin, min_users=100)
        found = only(decision, "segment")
        assert (found.name, found.users, found.passed) == ("activity: worst group", N, passed)
        assert (found.measured, found.bound) == pytest.approx((0.15 - 0.2, -0.05 - half))
        assert found.required == f"loss below {margin:.4g}"
        assert decision.outcome == ("promote" if passed else "keep")
        of_share = only(by_group(worst=f"{100 * margin / 0.2:.6f} %", min_users=100), "segment")
        assert (of_share.passed, of_share.bound) == (passed, pytest.approx(found.bound))
        assert of_share.required.endswith("% of the champion's 0.2000")


def test_the_gap_may_not_grow_by_more_than_the_margin() -> None:
    half = CORRECTED * math.sqrt(SMALL_SD**2 / SMALL + LARGE_SD**2 / LARGE)
    for margin, passed in ((0.1 + half + 1e-6, True), (0.1 + half - 1e-6, False)):
        found = only(by_group(gap=margin, min_users=100), "segment")
        assert (found.name, found.passed) == ("activity: gap", passed)
        assert (found.measured, found.bound) == pytest.approx((0 - 0.1, -0.1 - half))
        assert found.required == f"growth below {margin:.4g}"


def test_a_worst_group_by_an_error_is_the_highest() -> None:
    errors = 1 + np.where(GROUPS.group == 1, WAVE, -WAVE)
    models = compared_model("old", BASE, rmse=np.ones(N)), compared_model("new", BASE + WAVE, rmse=errors)
    half = stats.t.ppf(1 - 0.05 / 2, LARGE - 1) * LARGE_SD / math.sqrt(LARGE)
    for margin, passed in ((0.05 + half + 1e-6, True), (0.05 + half - 1e-6, False)):
        for text in (margin, f"{100 * margin:.6f} %"):
            margins = {"activity": {"worst": text, "metric": "rmse", "min_users": 100}}
            one = contest(*models, segments=(GROUPS,))
            found = only(decide(one, gate(guardrails={"segments": margins}), "old"), "segment")
            assert (found.name, found.passed) == ("activity: worst group, rmse", passed)
            assert (found.measured, found.bound) == pytest.approx((-0.05, -0.05 - half))


def test_margins_of_a_segment_are_judged_together() -> None:
    decision = by_group(margin=1, worst=1, gap=1, min_users=100)
    names = [c.name for c in decision.conditions if c.kind == "segment"]
    assert names == ["activity: new", "activity: old", "activity: worst group", "activity: gap"]
    assert decision.promoted == "new"


def test_a_segment_needs_a_margin() -> None:
    with pytest.raises(ValueError, match="needs margin, worst, gap or several of them"):
        gate(guardrails={"segments": {"activity": {"min_users": 100}}})


def test_groups_with_few_users_are_noted_and_not_judged() -> None:
    decision = by_group(margin=0.01)
    assert [c.name for c in decision.conditions if c.kind == "segment"] == ["activity: old"]
    assert decision.notes == ("activity: groups of fewer than 500 users are not judged: new (100)",)
    assert decision.promoted == "new"


def test_a_segment_that_cannot_be_judged_does_not_hold() -> None:
    for decision, note in (
        (by_group(gap=1), "takes 2 to 20 groups of 500 users"),
        (by_group(margin=0.01, min_users=501), "no group has 501 users"),
        (by_group(margin=0.01, metric="rr"), "rr was not measured"),
        (decided(OLD, NEW, guardrails={"segments": {"cold": {"margin": 0.1}}}),
         "there is no such segmentation; there are: none"),
    ):  # fmt: skip
        found = only(decision, "segment")
        assert (found.passed, found.note) == (False, note)


# What cannot be judged


@pytest.mark.parametrize(
    ("models", "reason"),
    [
        ((failed("old"), NEW), "the champion old failed: ValueError: k must be <= 12"),
        ((OLD,), "there is no challenger of the champion old"),
        ((OLD, failed("new")), "new: failed: ValueError: k must be <= 12"),
        (
            (OLD, compared_model("new", np.full(499, 0.9))),
            "new: users 499 (needed: at least 500 with scores of both models)",
        ),
        (
            (OLD, compared_model("new", BASE + WAVE, users=np.arange(N, 2 * N))),
            "new: users 0 (needed: at least 500 with scores of both models)",
        ),
    ],
)
def test_the_gate_refuses_where_nothing_can_be_judged(models: tuple[ComparedModel, ...], reason: str) -> None:
    decision = decided(*models)
    assert (decision.outcome, decision.promoted) == ("refuse", None)
    assert decision.reason == f"the gate cannot decide: {reason}"


NONE = np.full(N, np.nan)


@pytest.mark.parametrize("new", [NEW, compared_model("new", BASE + WAVE, rmse=NONE)], ids=["no", "undefined"])
def test_the_gate_refuses_without_scores_by_its_metric(new: ComparedModel) -> None:
    old, told = compared_model("old", BASE, rmse=BASE), "the gate cannot decide: "
    assert decided(old, new, metric="rmse").reason == f"{told}new: has no scores by rmse"
    no_champion = decided(new, old, champion="new", metric="rmse")
    assert no_champion.reason == f"{told}the champion new has no scores by rmse"
    loss = only(decided(old, new, guardrails={"metrics": {"rmse": 0.1}}), "metric")
    assert (loss.passed, loss.note) == (False, "not measured")


def test_a_champion_is_no_challenger_of_its_own() -> None:
    check_challengers(gate(), "old")
    check_challengers(gate(challengers=["old", "new"]), "old")
    with pytest.raises(DataError, match="'old' is the only challenger that is named, and is the champion"):
        check_challengers(gate(challengers=["old"]), "old")


def test_a_challenger_that_failed_is_no_obstacle_for_another() -> None:
    decision = decided(OLD, failed("broken"), NEW)
    assert decision.promoted == "new"
    assert only(decision, "result").note == "failed: ValueError: k must be <= 12"
    # It is not tested, so it costs the other nothing.
    assert only(decision, "gain").confidence == 0.95


def test_infinite_scores_pass_nothing() -> None:
    values = BASE + WAVE
    values[0] = np.inf
    gain = only(decided(OLD, compared_model("new", values)), "gain")
    assert (gain.passed, gain.bound, gain.p) == (False, None, None)


@pytest.mark.parametrize(
    ("outcome", "fail_on", "code"),
    [
        ("promote", "keep", 0),
        ("keep", "keep", 1),
        ("cannot_tell", "keep", 1),
        ("cannot_tell", "refuse", 0),
        ("refuse", "keep", 1),
        ("promote", "refuse", 0),
        ("keep", "refuse", 0),
        ("refuse", "refuse", 1),
        ("refuse", "never", 0),
    ],
)
def test_exit_code_by_fail_on(outcome: Any, fail_on: Any, code: int) -> None:
    assert dataclasses.replace(decided(OLD, NEW), outcome=outcome).exit_code(fail_on) == code


def test_gate_without_champion_drops_guardrails_except_cost_maxima() -> None:
    costs = {"fit_seconds": {"max": 60, "max_ratio": 2}, "peak_memory_mb": {"max_ratio": 2}}
    segments = {"activity": {"margin": 0.1}}
    full = gate(min_gain=0.01, guardrails={"metrics": {"rr": 0.1}, "costs": costs, "segments": segments})
    assert gate_without_champion(full) == gate(
        min_gain=0.01, guardrails={"costs": {"fit_seconds": {"max": 60}}}
    )


# How it is told


def full_decision() -> Decision:
    more = {"rr": BASE, "coverage@10": 0.5}
    models = compared_model("old", BASE, **more), compared_model("new", BASE + WAVE, **more), failed("a | b")
    guardrails = {
        "metrics": {"rr": 0.01, "coverage@10": 0.1},
        "costs": {"fit_seconds": {"max": 100}},
        "segments": {"activity": {"margin": 0.1}},
    }
    return decide(
        contest(*models, costs={"old": COSTLY, "new": COSTLY}, segments=(GROUPS,)),
        gate(guardrails=guardrails),
        "old",
        notes=["from there"],
    )


def test_decision_json_has_every_value() -> None:
    decision = full_decision()
    values = json.loads(decision.to_json())
    assert (values["format"], values["unit"]) == (2, "user")
    assert [condition["name"] for condition in values["conditions"]] == [c.name for c in decision.conditions]


def test_markdown_has_every_condition_with_its_numbers() -> None:
    text = decision_markdown(full_decision())
    assert text.startswith("# PROMOTE: new replaces the champion old\n")
    assert (
        f"| passed | ndcg@10 | gain above 0 | \\+0.0500 | \\+{0.05 - HALF:.4f} | "
        f"\\+{0.05 + HALF:.4f} | &lt; 0.0001 | 600 |" in text
    )
    assert "| passed | fit\\_seconds | at most 100 | 60 |  |  |  |  |" in text
    assert "## a \\| b: failed" in text
    assert "| failed | result \\(failed: ValueError: k must be &lt;= 12\\) | scores for each user |" in text
    assert text.endswith(
        "- from there\n- activity: groups of fewer than 500 users are not judged: new \\(100\\)\n"
    )


# The stated error rate (experiments/gate has the whole study)


@pytest.mark.parametrize("challengers", [1, 3])
def test_challengers_that_are_no_better_are_promoted_as_rarely_as_stated(challengers: int) -> None:
    rng = generator(0, "gate", challengers)
    asked, bakeoffs, wrong = gate(min_users=200), 400, 0
    for _ in range(bakeoffs):
        # Of 250 users some are easy for all models; most scores are 0, the others skewed.
        easy = rng.beta(0.5, 2, 250)
        models = [
            compared_model(str(i), (rng.random(250) < easy) * rng.beta(1.2, 3, 250))
            for i in range(challengers + 1)
        ]
        wrong += decide(contest(*models), asked, "0").outcome == "promote"
    # A binomial count of 5 % is above this once in a thousand times.
    assert wrong <= stats.binom.isf(0.001, bakeoffs, 0.05)
    assert wrong > 0
