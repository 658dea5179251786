"""Diagnostics of off-policy values, and values under other assumptions, as tables."""

from __future__ import annotations

from collections.abc import Iterator

from evalplugin.base.numbers import number, percent, span
from evalplugin.base.places import DataSplit
from evalplugin.comparison.doubt import (
    LEAST_EFFECTIVE,
    LEAST_REWARDED,
    MOST_LARGEST,
    MOST_UNSUPPORTED,
    WEIGHT_LEVEL,
    percents,
)
from evalplugin.features.off_policy.diagnostics import BOUNDS, Diagnostics, ModelDiagnostics
from evalplugin.features.off_policy.sweep import Sweep
from evalplugin.report.sentences.off_policy import cannot_tell
from evalplugin.report.table import Column, Table, TableCell, numbers, words

_TELLS = "This log can tell the values of all these models, as far as their weights show."
_LINES = (
    f"Effective decisions: of equal weight, whose mean would vary as much; {LEAST_EFFECTIVE:g} or more are needed, and "
    f"{LEAST_REWARDED:g} effective users (without users, decisions) with a reward.",
    f"Largest weight: share of one decision in all weight; {percents(MOST_LARGEST)} or less is allowed.",
    f"Mean weight, with its {percent(WEIGHT_LEVEL)} interval: 1 is expected where propensities are right and the log "
    f"shows all that the model may show.",
    f"Unsupported: share of what the model shows that the log never shows; {percents(MOST_UNSUPPORTED)} or less is "
    f"allowed.",
)
_CLIPPED = (
    "w ≤ 1 and so on: the value with weights of at most that. Where it keeps changing, few decisions decide."
)
_SWEEP = (
    "Propensities to the power of eta, which add up to 1 at each position; 1: as assumed. They are more equal below 1, "
    "and less above."
)


def diagnostics_table(diagnostics: Diagnostics, assumed: str) -> Table:
    """Return the weights of each model's decisions and what the log cannot tell; ``assumed``: a sentence, or empty."""
    doubts = {own.model: own.doubt for own in diagnostics.models if own.doubt is not None}
    bounds = BOUNDS if any(own.clipped for own in diagnostics.models) else ()
    return Table(
        f"What the log can tell of {diagnostics.metric} ({DataSplit.of(diagnostics)})",
        (
            *words("model"),
            *numbers("value", "effective decisions", "largest weight", "mean weight", "unsupported"),
            *words("doubt"),
            *(Column(f"w ≤ {bound}", group="clipped") for bound in bounds),
        ),
        tuple((*_cells(own), *map(_cell, own.clipped)) for own in diagnostics.models),
        cannot_tell(doubts) if doubts else _TELLS,
        (*_LINES, *([_CLIPPED] if bounds else []), *([assumed] if assumed else [])),
    )


def sweep_table(sweep: Sweep) -> Table:
    """Return the values of the models over the assumption."""
    return Table(
        f"Values of {sweep.metric} as the assumed propensities vary ({DataSplit.of(sweep)})",
        (*words("model"), *numbers(*(f"eta {eta:g}" for eta in sweep.etas))),
        tuple((TableCell(model), *map(_cell, values)) for model, values in sweep.values.items()),
        sweep.sentence,
        (_SWEEP,),
    )


def _cells(own: ModelDiagnostics) -> Iterator[TableCell]:
    weights = own.weights
    yield TableCell(own.model)
    yield TableCell(number(own.value), small=span(own.low, own.high), value=own.value)
    yield TableCell(f"{weights.effective:,.0f}", value=weights.effective)
    yield TableCell(percents(weights.largest), value=weights.largest)
    yield TableCell(number(weights.mean), small=span(weights.low, weights.high), value=weights.mean)
    yield TableCell(percents(weights.unsupported), value=weights.unsupported)
    yield TableCell("" if own.doubt is None else ", ".join(reason.kind for reason in own.doubt.reasons))


def _cell(value: float) -> TableCell:
    return TableCell(number(value), value=value)
