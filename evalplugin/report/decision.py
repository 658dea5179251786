"""A gate's decision as text: outcome, conditions, legend."""

from __future__ import annotations

from evalplugin.base.numbers import p_value, percent
from evalplugin.comparison.gate.decision import Condition, Decision
from evalplugin.execution.results import DataSplit
from evalplugin.report.tables import TextCell, TextTable

__all__ = [
    "LEGEND", "decision_tables", "error_line", "headline_of", "outcome_words", "summary_line", "title_of",
]  # fmt: skip

LEGEND = (
    "Measured, of metrics: the mean difference from the champion, user by user; + is better, \N{MINUS SIGN} is worse. "
    "At least, at most: the true difference is not below or above it, with that confidence. p: how likely a difference "
    "as large as the measured one is if the true one is just what is required; small is convincing. Of a gain, p and "
    "the lower bound allow for the number of challengers (Holm's correction)."
)
_NIGHTS = 30
_HEADS = (
    "", "condition", "required", "measured", "at least (confidence)", "at most (confidence)", "p (gain: Holm)", "users",
)  # fmt: skip


def title_of(decision: Decision) -> str:
    """Return the outcome in a few words."""
    return f"{outcome_words(decision.outcome).upper()}: {headline_of(decision)}"


def outcome_words(outcome: str) -> str:
    """Return an outcome as it is shown: ``cannot tell`` for ``cannot_tell``."""
    return outcome.replace("_", " ")


def headline_of(decision: Decision) -> str:
    """Return what happens to the champion, in a few words."""
    match decision.outcome:
        case "promote":
            return f"{decision.promoted} replaces the champion {decision.champion}"
        case "keep":
            return f"The champion {decision.champion} stays"
        case "cannot_tell":
            return f"The champion {decision.champion} stays: too few users to tell whether one is better by enough"
        case "refuse":
            return "No decision: the gate could not judge"


def summary_line(decision: Decision) -> str:
    """Return bake-off, dataset, split, champion, metric and confidence of a decision, in one line."""
    names = ", ".join(filter(None, (decision.contest, *DataSplit.of(decision))))
    return (
        f"{names}; champion {decision.champion}; decided by {decision.metric} with {percent(decision.confidence)} "
        f"confidence"
    )


def error_line(decision: Decision) -> str:
    """Return for how long the confidence holds, and what is left of it."""
    error = percent(1 - decision.confidence)
    budget = decision.budget
    if budget is None:
        many = percent(round(1 - decision.confidence**_NIGHTS, 3))
        return (
            f"Error: up to {error} per decision that a challenger is promoted that is no better; {many} over "
            f"{_NIGHTS} independent ones (gate.decisions bounds it over all)"
        )
    left = f"{decision.decisions_left:,} of {budget.decisions:,} decisions are left"
    if decision.outcome == "refuse":
        return f"Error: this decision spends nothing of the {error} over all {budget.decisions:,} decisions; {left}"
    return (
        f"Error: up to {error} over all {budget.decisions:,} decisions that a challenger is promoted that is no "
        f"better, so this one was taken at {percent(1 - decision.error)}; {left}"
    )


def decision_tables(decision: Decision) -> list[TextTable]:
    """Return a table of conditions for each challenger, those with the largest gain first."""
    tables = []
    for name in decision.ranked:
        if conditions := decision.of(name):
            undecided = "too few users to tell" if decision.is_undecided(name) else "failed"
            outcome = "passed" if decision.passed(name) else undecided
            rows = tuple(tuple(map(TextCell, _row(condition))) for condition in conditions)
            tables.append(TextTable(f"{name}: {outcome}", _HEADS, rows, words=3))
    return tables


def _row(condition: Condition) -> tuple[str, ...]:
    p = condition.p if condition.p_holm is None else condition.p_holm
    return (
        "passed" if condition.passed else "failed",
        f"{condition.name} ({condition.note})" if condition.note else condition.name,
        condition.required,
        condition.measured_text,
        condition.bound_text,
        condition.upper_text,
        "" if p is None else p_value(p),
        "" if condition.users is None else f"{condition.users:,}",
    )
