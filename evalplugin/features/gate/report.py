"""A gate's decision as tables and sentences, as Markdown, and as log items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from evalplugin.base.numbers import about, number, p_value, percent, signed
from evalplugin.base.places import DataSplit
from evalplugin.base.units import plural
from evalplugin.features.gate.decision import Condition, Decision
from evalplugin.features.words import GateOutcome, outcome_words
from evalplugin.metrics import parse
from evalplugin.report.documents import statement_markdown
from evalplugin.report.sections import Statement
from evalplugin.report.table import Table, numbers, text_rows, with_shared_footnotes, words
from evalplugin.report.words import one_by_one
from evalplugin.tracking.write.items import Artifact, Datum, Tag

DECISION = "decision.json"
_LEGEND = (
    "Measured, of metrics: the mean difference from the champion, {one_by_one}; + is better, \N{MINUS SIGN} is worse. "
    "At least, at most: the true difference is not below or above it, with {confidence} confidence. p: how likely a "
    "difference as large as the measured one is if the true one is just what is needed; small is convincing. Of a "
    "gain, p and the lower bound allow for the number of challengers (Holm's correction)."
)
_STATUS: Mapping[GateOutcome, Literal["better", "keep", "worse"]] = {
    "promote": "better", "keep": "keep", "cannot_tell": "keep", "refuse": "worse",
}  # fmt: skip
_NIGHTS = 30
_COLUMNS = (
    *words("", "condition", "needed"),
    *numbers("measured", "at least", "at most", "p (gain: Holm)"),
)


def decision_statement(decision: Decision) -> Statement:
    """Return a decision as it is shown: with a table of conditions for each challenger, the largest gain first."""
    place = DataSplit.of(decision)
    names = ", ".join(filter(None, (decision.contest, *place)))
    return Statement(
        place=place,
        status=_STATUS[decision.outcome],
        subject="Gate",
        outcome=outcome_words(decision.outcome),
        headline=_headline(decision),
        reason=decision.reason,
        details=(
            f"Next: {_next(decision)}.",
            f"{names}; champion {decision.champion}; decided by {decision.metric}.",
            _error_line(decision),
        ),
        tables=tuple(with_shared_footnotes(list(_tables(decision)))),
        notes=decision.notes,
    )


def decision_markdown(decision: Decision) -> str:
    """Return a decision with its reason, every condition of every challenger, and notes."""
    return statement_markdown(decision_statement(decision))


def decision_files(decision: Decision) -> Iterator[Artifact]:
    """Yield a decision for people and for programs."""
    yield Artifact("decision.md", decision_markdown(decision))
    yield Artifact(DECISION, decision.to_json())


def decision_tags(decision: Decision) -> Iterator[Tag | Datum]:
    """Yield the outcome of a decision and the data it was made on; ``promoted`` is empty where no model was."""
    yield Tag("evalplugin.outcome", decision.outcome)
    yield Tag("evalplugin.champion", decision.champion)
    yield Tag("evalplugin.promoted", decision.promoted or "")
    yield Datum("decided_dataset", decision.dataset)
    yield Datum("decided_split", decision.split)
    yield Datum("reason", decision.reason)
    if decision.budget is not None:
        yield Datum("decisions", decision.budget.decisions)
        yield Datum("decisions_left", decision.decisions_left)
        yield Datum("error_spent", decision.error_spent)


def _headline(decision: Decision) -> str:
    match decision.outcome:
        case "promote":
            return f"{decision.promoted} replaces the champion {decision.champion}"
        case "keep":
            return f"The champion {decision.champion} stays"
        case "cannot_tell":
            is_few = any(map(decision.is_undecided, decision.challengers))
            few = f"too few {plural(decision.unit)} to tell" if is_few else "the log cannot tell"
            return f"The champion {decision.champion} stays: {few} whether one is better by enough"
        case "refuse":
            return "No decision: the gate could not judge"


def _next(decision: Decision) -> str:
    """Return what happens next, and how large a gain must be to be found, or how many users it takes."""
    if not decision.champion_stays:
        return (
            "nothing changes"
            if decision.promoted is None
            else f"deploy {decision.promoted}, unless register does so"
        )
    stays = f"{decision.champion} stays in production"
    gains = [c for c in decision.conditions if c.detectable is not None and not c.passed]
    undecided = [c for c in gains if decision.is_undecided(c.challenger)]
    if not gains:
        return stays
    gain = max(
        undecided, key=lambda c: c.measured or 0.0, default=max(gains, key=lambda c: c.detectable or 0.0)
    )
    assert gain.limit is not None and gain.detectable is not None and gain.users is not None
    units, least = plural(decision.unit), f"{number(gain.limit + gain.detectable)} {parse(gain.name).name}"
    text = f"{stays}; with {gain.users:,} {units} a gain of {least} is found 4 times in 5"
    if undecided and gain.users_needed is None and not gain.is_at_limit:
        return f"{text}; another seed gives as much as the measured gain: it takes more seeds, not {units}"
    if not undecided or gain.users_needed is None or gain.sought != gain.limit:
        return text
    ratio = gain.users_needed / gain.users
    return (
        f"{text}; about {about(gain.users_needed)} {units} find one of {number(2 * gain.limit)}, and exclude one above "
        f"{number(gain.limit)} if there is none, 4 times in 5: {ratio:,.{1 if ratio < 10 else 0}f} times as many"
    )


def _error_line(decision: Decision) -> str:
    """Return sentences on the challengers and the number of decisions that the confidence holds for."""
    tested, holm = sum(c.kind == "gain" for c in decision.conditions), ""
    if tested > 1:
        passed, level = sum(map(decision.passed, decision.challengers)), percent(1 - decision.error / tested)
        holm = (
            f"{passed} of {tested} challengers passed; the confidence is for all together, so the first was tested at "
            f"{level} (Holm's correction). "
        )
    error = percent(1 - decision.confidence)
    budget = decision.budget
    if budget is None:
        many = percent(round(1 - decision.confidence**_NIGHTS, 3))
        return (
            f"{holm}Error: up to {error} per decision that a challenger is promoted that is no better; {many} over "
            f"{_NIGHTS} independent ones (gate.decisions bounds it over all)."
        )
    left = f"{decision.decisions_left:,} of {budget.decisions:,} decisions are left."
    if decision.outcome == "refuse":
        return f"Error: this decision spends nothing of the {error} over all {budget.decisions:,} decisions; {left}"
    return (
        f"{holm}Error: up to {error} over all {budget.decisions:,} decisions that a challenger is promoted that is no "
        f"better, so this one was taken at {percent(1 - decision.error)}; {left}"
    )


def _tables(decision: Decision) -> Iterator[Table]:
    units = plural(decision.unit)
    for name in decision.ranked:
        if conditions := decision.of(name):
            undecided = f"too few {units} to tell" if decision.is_undecided(name) else "failed"
            outcome = "passed" if decision.passed(name) else undecided
            columns, rows = (*_COLUMNS, *numbers(units)), text_rows(map(_row, conditions))
            others = {c.confidence for c in conditions if c.kind != "gain"} - {None, decision.confidence}
            sure = [
                percent(decision.confidence),
                *(f"{percent(c)} (guardrails)" for c in others if c is not None),
            ]
            footnote = _LEGEND.format(one_by_one=one_by_one(decision.unit), confidence=" or ".join(sure))
            yield Table(f"{name}: {outcome}", columns, rows, footnotes=(footnote,))


def _row(condition: Condition) -> tuple[str, ...]:
    p = condition.p if condition.p_holm is None else condition.p_holm
    return (
        "passed" if condition.passed else "failed",
        f"{condition.name} ({condition.note})" if condition.note else condition.name,
        condition.required,
        condition.measured_text,
        "" if condition.bound is None else signed(condition.bound),
        "" if condition.upper is None else signed(condition.upper),
        "" if p is None else p_value(p),
        "" if condition.users is None else f"{condition.users:,}",
    )
