"""A gate's decision as text: outcome, conditions, legend."""

from __future__ import annotations

from evalplugin.base.numbers import p_value, percent
from evalplugin.comparison.gate.decision import Condition, Decision
from evalplugin.report.tables import TextCell, TextTable

__all__ = ["LEGEND", "decision_tables", "headline_of", "summary_line", "title_of"]

LEGEND = (
    "Measured, of metrics: the mean difference from the champion, user by user; + is better, \N{MINUS SIGN} is worse. "
    "At least: the true difference is not below it, with that confidence. p: how likely a difference as large as the "
    "measured one is if the true one is just what is required; small is convincing. Of a gain, both allow for the "
    "number of challengers (Holm's correction)."
)
_HEADS = ("", "condition", "required", "measured", "at least (confidence)", "p", "users")


def title_of(decision: Decision) -> str:
    """Return the outcome in a few words."""
    return f"{decision.outcome.upper()}: {headline_of(decision)}"


def headline_of(decision: Decision) -> str:
    """Return what happens to the champion, in a few words."""
    match decision.outcome:
        case "promote":
            return f"{decision.promoted} replaces the champion {decision.champion}"
        case "keep":
            return f"The champion {decision.champion} stays"
        case "refuse":
            return "No decision: the gate could not judge"


def summary_line(decision: Decision) -> str:
    """Return bake-off, dataset, split, champion, metric and confidence of a decision, in one line."""
    names = ", ".join(filter(None, (decision.contest, decision.dataset, decision.split)))
    return (
        f"{names}; champion {decision.champion}; decided by {decision.metric} with {percent(decision.confidence)} "
        f"confidence"
    )


def decision_tables(decision: Decision) -> list[TextTable]:
    """Return a table of conditions for each challenger, those with the largest gain first."""
    tables = []
    for name in decision.ranked:
        if conditions := decision.of(name):
            outcome = "passed" if decision.passed(name) else "failed"
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
        "" if p is None else p_value(p),
        "" if condition.users is None else f"{condition.users:,}",
    )
