"""Diagnostics of off-policy values as tables, and a chart of each model's value by the clip bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalplugin.base.libraries import vl_convert
from evalplugin.base.numbers import number, percent, span
from evalplugin.base.places import DataSplit
from evalplugin.comparison.doubt import (
    LEAST_EFFECTIVE,
    LEAST_REWARDED,
    MOST_LARGEST,
    MOST_UNSUPPORTED,
    WEIGHT_LEVEL,
    Weights,
    percents,
)
from evalplugin.features.off_policy.diagnostics import Diagnostics, ModelDiagnostics
from evalplugin.features.off_policy.sweep import Sweep
from evalplugin.report.charts.pictures import Chart, stacked
from evalplugin.report.charts.theme import LIGHT
from evalplugin.report.sentences.off_policy import cannot_tell
from evalplugin.report.table import Table, TableCell, numbers, words

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
_CHARTS = (
    "Charts: the value with weights of at most a bound. Where it keeps changing, it rests on few decisions."
)
_SWEEP = (
    "Propensities to the power of eta, which add up to 1 at each position; 1: as assumed. They are more equal below 1, "
    "and less above."
)
_ACROSS = 3  # charts in a row
_WIDTH = 190  # of each


def diagnostics_table(diagnostics: Diagnostics, assumed: str) -> Table:
    """Return the weights of each model's decisions and what the log cannot tell; ``assumed``: a sentence, or empty."""
    doubts = {own.model: own.doubt for own in diagnostics.models if own.doubt is not None}
    fields = words("model"), numbers("value", "effective decisions", "largest weight", "mean weight"), (
        *numbers("unsupported"), *words("doubt")
    )  # fmt: skip
    footnotes = [*_LINES, *([_CHARTS] if any(own.clipped for own in diagnostics.models) else []), assumed]
    return Table(
        f"What the log can tell of {diagnostics.metric} ({DataSplit.of(diagnostics)})",
        tuple(column for group in fields for column in group),
        tuple(tuple(_cells(own)) for own in diagnostics.models),
        cannot_tell(doubts) if doubts else _TELLS,
        tuple(filter(None, footnotes)),
    )


def sweep_table(sweep: Sweep) -> Table:
    """Return the values of the models over the assumption."""
    return Table(
        f"Values of {sweep.metric} as the assumed propensities vary ({DataSplit.of(sweep)})",
        (*words("model"), *numbers(*(f"eta {eta:g}" for eta in sweep.etas))),
        tuple(
            (TableCell(model), *(TableCell(number(value), value=value) for value in values))
            for model, values in sweep.values.items()
        ),
        sweep.sentence,
        (_SWEEP,),
    )


def clip_spec(diagnostics: Diagnostics, colours: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the charts as Vega-Lite, one for each model with weights to clip; None without any.

    ``colours``: of each model.
    """
    drawn = [own for own in diagnostics.models if own.clipped]
    ends = [end for own in drawn for at in own.clipped for end in (at.low, at.mean, at.high) if end == end]
    if not drawn:
        return None
    room = 0.05 * (max(ends) - min(ends) or abs(max(ends)) or 1)
    values = {
        "title": diagnostics.metric.partition("(")[0],
        "low": min(ends) - room,
        "high": max(ends) + room,
    }
    panels = [
        Chart(
            "clip",
            [
                {
                    "x": at.bound,
                    "y": at.mean,
                    "low": at.low,
                    "high": at.high,
                    "colour": colours.get(own.model, "var(--quiet)"),
                }
                for at in own.clipped
            ],
            values,
            f"Value of {own.model} by the highest weight",
        ).spec(width=_WIDTH, title=own.model)
        for own in drawn
    ]
    spec = stacked(panels)
    return spec | {"concat": spec.pop("vconcat"), "columns": _ACROSS}


def clip_svg(spec: Mapping[str, Any]) -> str:
    """Return charts as SVG in the colours of the page, light or dark."""
    svg: str = vl_convert.vegalite_to_svg(dict(spec))
    for name, colour in LIGHT.items():
        svg = svg.replace(f'"{colour}"', f'"var(--{name})"')
    return svg


def _cells(own: ModelDiagnostics) -> Iterator[TableCell]:
    weights: Weights = own.weights
    yield TableCell(own.model)
    yield TableCell(number(own.value), small=span(own.low, own.high), value=own.value)
    yield TableCell(f"{weights.effective:,.0f}", value=weights.effective)
    yield TableCell(percents(weights.largest), value=weights.largest)
    yield TableCell(number(weights.mean), small=span(weights.low, weights.high), value=weights.mean)
    yield TableCell(percents(weights.unsupported), value=weights.unsupported)
    yield TableCell("" if own.doubt is None else ", ".join(reason.kind for reason in own.doubt.reasons))
