"""A gate's decision as text: outcome, conditions, legend."""

from __future__ import annotations

from evalplugin.base.numbers import p_value, percent
from evalplugin.comparison.gate.decision import Condition, Decision
from evalplugin.report.tables import TextCell, TextTable

__all__ = ["LEGEND", "decision_tables", "summary_line", "title_of"]

LEGEND = (
    "Of metrics: the difference from the champion, user by user, more is better; what it is at least, one-sided; and "
    "how likely one at least as large is where the true one is not above what is required. Of a gain both with Holm's "
    "correction for the number of challengers."
)
_HEADS = ("", "condition", "required", "measured", "at least", "p", "users")
_OUTCOMES = {"promote": "promoted", "keep": "the champion stays", "refuse": "no decision"}


def title_of(decision: Decision) -> str:
    """Return the outcome in a few words."""
    outcome = f"{decision.promoted} is promoted" if decision.promoted else _OUTCOMES[decision.outcome]
    return f"{decision.outcome.upper()}: {outcome}"


def summary_line(decision: Decision) -> str:
    """Return bake-off, dataset, split, champion, metric and confidence of a decision, in one line."""
    names = ", ".join(filter(None, (decision.contest, decision.dataset, decision.split)))
    return f"{names}; champion {decision.champion}; by {decision.metric} at {percent(decision.confidence)}, one-sided"


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
