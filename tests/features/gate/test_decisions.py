"""The outcome ``cannot tell``, and a gate whose error is spent over many decisions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from evalplugin.base.errors import DataError
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics import detectable_gain, users_needed
from evalplugin.features.gate.decide import check_decisions, decide
from evalplugin.features.gate.decision import Decision, DecisionBudget
from evalplugin.features.gate.report import decision_markdown, decision_statement
from evalplugin.features.gate.schema import Gate
from evalplugin.metrics.scores import PerUserScores, Units

N = 600
WAVE = np.where(np.arange(N) % 2, 0.1, -0.1)  # gains of 0 on average
SD = WAVE.std(ddof=1)
ERROR = SD / math.sqrt(N)


def model(name: str, gain: Any, **metrics: Any) -> ComparedModel:
    columns = {"ndcg@10": 0.2 + np.broadcast_to(gain, N)} | metrics
    scores = PerUserScores(Units(np.arange(N)), np.stack(list(columns.values()), axis=1), tuple(columns))
    return ComparedModel(name, scores)


def decided(*challengers: ComparedModel, budget: DecisionBudget | None = None, **values: Any) -> Decision:
    models = (model("old", 0.0, rr=np.full(N, 0.5)), *challengers)
    contest = Contest("b-1", "toy", "last_n", models, ("ndcg@10",), None, 0, "test")
    return decide(contest, Gate.model_validate(values), "old", budget=budget)


def next_of(decision: Decision) -> str:
    """Return what the details say first: what happens next."""
    first, *_ = decision_statement(decision).details
    assert first.startswith("Next: ")
    return first.removeprefix("Next: ")


def gaining(mean: float, name: str = "new", **metrics: Any) -> ComparedModel:
    return model(name, WAVE + mean, **metrics)


# Cannot tell


def test_a_gain_that_is_neither_shown_nor_excluded_cannot_be_told() -> None:
    decision = decided(gaining(0.004))
    half = stats.t.ppf(0.95, N - 1) * ERROR
    (gain,) = decision.conditions
    assert (decision.outcome, decision.promoted, decision.champion_stays) == ("cannot_tell", None, True)
    assert (gain.bound, gain.upper) == pytest.approx((0.004 - half, 0.004 + half))
    assert gain.detectable == pytest.approx(detectable_gain(SD, N, one_sided=True))
    assert gain.users_needed == users_needed(SD, 0.004, one_sided=True) == 3872
    title = "CANNOT TELL: The champion old stays: too few users to tell whether one is better by enough"
    assert decision_statement(decision).title == title
    assert [table.title for table in decision_statement(decision).tables] == ["new: too few users to tell"]
    assert decision.reason == (
        "old stays, as it cannot be told whether new is better by enough: gain from \N{MINUS SIGN}0.0027 to +0.0107 "
        "ndcg@10 (needed: above 0), each bound with 95 % confidence"
    )
    assert (
        next_of(decision)
        == "old stays in production; with 600 users a gain of 0.0102 ndcg@10 is found 4 times in 5."
    )


def test_users_needed_are_for_the_minimum_gain_where_there_is_one() -> None:
    decision = decided(gaining(0.004), min_gain=0.002)
    assert decision.outcome == "cannot_tell"
    (gain,) = decision.conditions
    assert (gain.sought, gain.users_needed) == (0.002, users_needed(SD, 0.002, one_sided=True))
    assert next_of(decision) == (
        "old stays in production; with 600 users a gain of 0.0122 ndcg@10 is found 4 times in 5; about 15,000 users "
        "find one of 0.0040, and exclude one above 0.0020 if there is none, 4 times in 5: 26 times as many."
    )


def test_a_loss_that_may_be_a_gain_has_the_number_of_users_that_excludes_it() -> None:
    decision = decided(gaining(-0.001))
    assert decision.outcome == "cannot_tell"
    (gain,) = decision.conditions
    assert gain.users_needed == users_needed(SD, 0.001, one_sided=True)


@pytest.mark.parametrize("times", [0.4, 1.0, 1.6])
def test_champion_is_not_kept_while_a_gain_above_the_minimum_is_possible(times: float) -> None:
    # 600 users find twice this minimum 4 times in 5, and the bounds of these gains are on both sides of it.
    decision = decided(gaining(times * 0.0104), min_gain=0.0104)
    (gain,) = decision.conditions
    assert gain.detectable is not None and gain.detectable < 0.0104
    assert gain.bound is not None and gain.upper is not None and gain.bound < 0.0104 < gain.upper
    assert decision.outcome == "cannot_tell"


def test_users_needed_are_for_the_measured_gain_where_it_is_near_the_minimum() -> None:
    decision = decided(gaining(0.015), min_gain=0.0104)
    (gain,) = decision.conditions
    assert gain.users_needed == users_needed(SD, 0.015 - 0.0104, one_sided=True)
    # The measured gain may be chance.
    assert next_of(decision).endswith("with 600 users a gain of 0.0206 ndcg@10 is found 4 times in 5.")
    decision = decided(model("new", WAVE + 0.0104), min_gain=0.0104)
    assert decision.conditions[0].users_needed is None
    assert next_of(decision).endswith("ndcg@10 is found 4 times in 5.")


def test_a_champion_that_is_kept_has_the_upper_bound_of_every_gain() -> None:
    decision = decided(gaining(0.0, "a"), gaining(0.002, "b"), min_gain=0.02)
    assert decision.outcome == "keep"
    # Any one upper bound errs in 5 %, and keeping is wrong only if that of the best challenger does: no correction.
    upper = [stats.t.ppf(0.95, N - 1) * ERROR, 0.002 + stats.t.ppf(0.95, N - 1) * ERROR]
    assert [gain.upper for gain in decision.conditions] == pytest.approx(upper)
    assert decision.reason == (
        "old stays: b: gain +0.0087 ndcg@10 or less (needed: above 0.02); a: gain +0.0067 ndcg@10 or less (needed: "
        "above 0.02), with 95 % confidence"
    )
    assert (
        next_of(decision)
        == "old stays in production; with 600 users a gain of 0.0315 ndcg@10 is found 4 times in 5."
    )
    (table, last) = decision_statement(decision).tables
    assert [cell.text for cell in table.rows[0]][4:6] == ["\N{MINUS SIGN}0.0060", "+0.0087"]
    assert "with 95 % confidence. p:" in last.footnotes[0]
    assert "so the first was tested at 97.5 % (Holm's correction)" in decision_statement(decision).details[-1]


def test_a_challenger_that_a_guardrail_refuses_is_named_with_the_guardrail() -> None:
    decision = decided(gaining(0.004, rr=np.full(N, 0.1)), guardrails={"metrics": {"rr": 0.01}})
    assert decision.outcome == "keep"
    assert decision.reason == (
        "old stays: new: rr may lose 0.4000 (needed: loss below 0.01), with 95 % confidence"
    )


def test_gains_that_are_undefined_are_refused_and_not_kept() -> None:
    infinite = WAVE.copy()
    infinite[0] = math.inf
    decision = decided(model("new", infinite))
    assert decision.outcome == "refuse"
    assert decision.reason == "the gate cannot decide: new: ndcg@10: not finite for every user"


@pytest.mark.parametrize(
    ("challenger", "values"),
    [
        (gaining(-0.02), {}),  # shown to be worse
        (gaining(0.0), {"min_gain": 0.02}),  # shown to be no better by enough
        (model("new", 0.0), {}),  # the same for every user
        (gaining(0.004, rr=np.full(N, 0.1)), {"guardrails": {"metrics": {"rr": 0.01}}}),
    ],
)
def test_the_champion_is_kept_where_more_users_would_change_nothing(challenger, values):
    assert decided(challenger, **values).outcome == "keep"


def test_one_challenger_that_is_undecided_is_enough() -> None:
    decision = decided(gaining(-0.05, "bad"), gaining(0.005, "near"), gaining(0.002, "far"))
    assert decision.outcome == "cannot_tell"
    assert "it cannot be told whether near is better by enough: gain from" in decision.reason
    assert decided(gaining(-0.05, "bad"), gaining(0.05, "good"), gaining(0.002, "far")).promoted == "good"


def test_the_loss_of_a_metric_of_which_less_is_better_is_looked_at_the_right_way_round() -> None:
    old, new = np.full(N, 1.0), 1.0 - WAVE - 0.004
    models = (model("old", 0.0, rmse=old), model("new", 0.0, rmse=new))
    contest = Contest("b-1", "toy", "last_n", models, ("rmse", "ndcg@10"), None, 0, "test")
    (gain,) = (decision := decide(contest, Gate(), "old")).conditions
    assert (decision.outcome, gain.users_needed) == ("cannot_tell", 3872)
    assert gain.upper is not None and gain.upper > 0.004


# The error over many decisions


def test_the_error_is_divided_by_the_decisions() -> None:
    assert DecisionBudget(90).error(0.95) == pytest.approx(0.05 / 90)
    assert DecisionBudget(90, taken=12, spent=12 * 0.05 / 90).error(0.95) == pytest.approx(0.05 / 90)
    assert DecisionBudget(90, taken=90, spent=0.05).error(0.95) == 0
    # 10 of 30 were taken when it was raised to 90: what is left is divided anew.
    assert DecisionBudget(90, taken=10, spent=10 * 0.05 / 30).error(0.95) == pytest.approx(0.05 * 2 / 3 / 80)
    # All of 30 were taken: no more is left, however many there are to be.
    assert DecisionBudget(90, taken=30, spent=math.fsum([0.05 / 30] * 30)).error(0.95) == 0


@settings(max_examples=50)
@given(
    asked=st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from([0.9, 0.95, 0.99])), min_size=1, max_size=60
    )
)
def test_what_is_spent_is_never_more_than_the_error(asked: list[tuple[int, float]]) -> None:
    taken, spent = 0, 0.0
    for decisions, confidence in asked:
        if decisions >= taken and (error := DecisionBudget(decisions, taken, spent).error(confidence)):
            taken, spent = taken + 1, spent + error
            assert spent <= 1 - confidence + 1e-9


def test_a_decision_has_its_share_of_the_error() -> None:
    challenger = gaining(stats.t.isf(0.001, N - 1) * ERROR)  # p = 0.001
    assert decided(challenger).outcome == "promote"
    assert decided(challenger, decisions=49).outcome == "promote"
    decision = decided(challenger, decisions=51)
    assert decision.outcome == "cannot_tell"
    (gain,) = decision.conditions
    assert gain.confidence == pytest.approx(1 - 0.05 / 51)
    assert decision.error == pytest.approx(0.05 / 51)
    assert (decision.budget, decision.decisions_left) == (DecisionBudget(51), 50)


def test_challengers_of_one_decision_share_its_error() -> None:
    decision = decided(gaining(0.0, "a"), gaining(0.001, "b"), decisions=10)
    assert [c.confidence for c in decision.conditions] == pytest.approx([1 - 0.05 / 10 / 2] * 2)


def test_guardrails_keep_their_confidence() -> None:
    rails = {"metrics": {"rr": 0.1}}
    decision = decided(gaining(0.05, rr=np.full(N, 0.5)), decisions=90, guardrails=rails)
    confidence = {c.kind: c.confidence for c in decision.conditions}
    assert confidence == {"gain": pytest.approx(1 - 0.05 / 90), "metric": 0.95}


def test_the_gate_refuses_when_all_decisions_are_taken() -> None:
    spent = DecisionBudget(30, taken=30, spent=0.05)
    decision = decided(gaining(0.05), decisions=30, budget=spent)
    assert (decision.outcome, decision.promoted, decision.decisions_left) == ("refuse", None, 0)
    assert decision.reason == (
        "the gate cannot decide: all of the 30 decisions of gate.decisions are taken; to begin anew, give the config "
        "another experiment"
    )
    assert decision.exit_code("refuse") == 1


def test_fewer_decisions_than_were_taken_are_an_error() -> None:
    check_decisions(DecisionBudget(30, taken=30))
    with pytest.raises(DataError) as error:
        check_decisions(DecisionBudget(30, taken=31))
    assert str(error.value) == (
        "gate.decisions is 30, but 31 decisions of this gate have been taken: set it to how many there are to be in "
        "all, more than 31, or begin anew in another experiment"
    )


def test_it_is_said_for_how_long_the_confidence_holds() -> None:
    plain = decided(gaining(0.05))
    assert decision_statement(plain).details[-1] == (
        "Error: up to 5 % per decision that a challenger is promoted that is no better; 78.5 % over 30 independent "
        "ones (gate.decisions bounds it over all)."
    )
    spending = decided(gaining(0.05), decisions=90, budget=DecisionBudget(90, 12, 12 * 0.05 / 90))
    assert decision_statement(spending).details[-1] == (
        "Error: up to 5 % over all 90 decisions that a challenger is promoted that is no better, so this one was taken "
        "at 99.944 %; 77 of 90 decisions are left."
    )
    refused = decided(decisions=90, budget=DecisionBudget(90, 12, 12 * 0.05 / 90))
    assert decision_statement(refused).details[-1] == (
        "Error: this decision spends nothing of the 5 % over all 90 decisions; 78 of 90 decisions are left."
    )
    assert "so this one was taken at 99.944 %; 77 of 90 decisions are left.\n" in decision_markdown(spending)
