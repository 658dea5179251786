"""A decision in Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from evalplugin.comparison.gate.decision import Condition, Decision, percent
from evalplugin.report.text import escape

__all__ = ["HEADS", "LEGEND", "decision_markdown", "decision_rows", "summary_line", "title_of"]

HEADS = ("", "condition", "required", "measured", "at least", "p", "users")
LEGEND = (
    "Of metrics: the difference from the champion, user by user, more is better; what it is at least, one-sided; and "
    "how likely one at least as large is where the true one is not above what is required. Of a gain both with Holm's "
    "correction for the number of challengers."
)
_OUTCOMES = {"promote": "promoted", "keep": "the champion stays", "refuse": "no decision"}


def title_of(decision: Decision) -> str:
    """Return the outcome in a few words."""
    outcome = f"{decision.promoted} is promoted" if decision.promoted else _OUTCOMES[decision.outcome]
    return f"{decision.outcome.upper()}: {outcome}"


def summary_line(decision: Decision) -> str:
    """Return what was decided on, and how sure it must be."""
    where = ", ".join(filter(None, (decision.contest, decision.dataset, decision.split)))
    return f"{where}; champion {decision.champion}; by {decision.metric} at {percent(decision.confidence)}, one-sided"


def decision_rows(decision: Decision, challenger: str) -> list[tuple[str, ...]]:
    """Return a row of text for each condition of a challenger, under ``HEADS``; the first cell: passed or failed."""
    return [_row(condition) for condition in decision.of(challenger)]


def decision_markdown(decision: Decision) -> str:
    """Return everything about a decision: outcome, reason, every condition of every challenger, notes."""
    return "\n".join([*_lines(decision), ""])


def _lines(decision: Decision) -> Iterator[str]:
    yield f"# {escape(title_of(decision))}"
    yield ""
    yield escape(decision.reason)
    yield ""
    yield escape(summary_line(decision))
    for challenger in decision.ranked:
        rows = decision_rows(decision, challenger)
        if not rows:
            continue
        verdict = "passed" if decision.passed(challenger) else "failed"
        yield ""
        yield f"## {escape(challenger)}: {verdict}"
        yield ""
        yield f"| {' | '.join(HEADS)} |"
        yield "|---|---|---|--:|--:|--:|--:|"
        yield from (f"| {' | '.join(map(escape, row))} |" for row in rows)
    yield ""
    yield LEGEND
    if decision.notes:
        yield ""
        yield from (f"- {escape(note)}" for note in decision.notes)


def _row(condition: Condition) -> tuple[str, ...]:
    p = condition.p if condition.p_holm is None else condition.p_holm
    return (
        "passed" if condition.passed else "failed",
        f"{condition.name} ({condition.note})" if condition.note else condition.name,
        condition.required,
        condition.measured_text,
        condition.bound_text,
        "" if p is None else _p(p),
        "" if condition.users is None else f"{condition.users:,}",
    )


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
