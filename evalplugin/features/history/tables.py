"""Tables and sentences of a history: a row a bake-off, a column a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evalplugin.base.numbers import UNDEFINED, number, percent, signed, span
from evalplugin.comparison.compared import LEVEL
from evalplugin.execution.results import DataSplit
from evalplugin.features.history.trends import History, ModelRole, Point
from evalplugin.report.tables import TextCell, TextTable
from evalplugin.report.words import outcome_words, small_legend

__all__ = ["NO_LINE", "PROMOTED", "WORSE", "history_tables", "worse_legend", "worse_lines", "worsened"]

PROMOTED = "★ promoted then"
WORSE = "▼ worse than in the bake-off before"
NO_LINE = "no line where type, parameters or rules changed"

_SIGNS: dict[ModelRole, str] = {"promoted": " ★", "champion": " ☆", "baseline": "", "challenger": ""}


def history_tables(history: History) -> list[TextTable]:
    """Return a table for each dataset and split, the model with the best newest value first; the last has the legend.

    The first ``words`` columns are the bake-off and, where there was a gate, its decision.
    """
    tables = []
    for place in dict.fromkeys(DataSplit.of(point.model) for point in history.points):
        trends = {m: t for (d, s, m), t in history.trends.items() if (d, s) == place}
        names = sorted(trends, key=lambda name: _newest(trends[name], history.higher_is_better))
        gated = any(point.outcome for points in trends.values() for point in points)
        at = {name: {point.bakeoff.id: point for point in trends[name]} for name in names}
        rows = []
        for bakeoff in history.bakeoffs:
            points = [at[name].get(bakeoff.id) for name in names]
            if present := [point for point in points if point is not None]:
                head = TextCell(bakeoff.id, f"{bakeoff.at:%Y-%m-%d %H:%M} UTC")
                rows.append((head, *([_decided(present[0])] if gated else []), *map(_cell, points)))
        heads = ("bake-off", *(["decision"] if gated else []))
        title = f"{history.experiment}: {history.metric} on {place}"
        tables.append(TextTable(title, (*heads, *names), tuple(rows), words=len(heads)))
    tables[-1] = tables[-1]._replace(legend=tuple(_legend(history)))
    return tables


def worse_lines(history: History) -> list[str]:
    """Return a sentence on each model that got worse in the newest bake-off."""
    return [worsened(point, on=str(DataSplit.of(point.model))) for point in history.worse]


def worse_legend(level: float) -> str:
    """Return the meaning of the mark of a model that got worse from one bake-off to the next."""
    return f"{WORSE}: Welch's {percent(level)} interval of the change excludes 0"


def worsened(point: Point, *, on: str = "") -> str:
    """Return a sentence on a model that got worse: since which bake-off and by how much; ``on``: dataset and split."""
    change = point.change
    assert change is not None
    return (
        f"{point.model.model} got worse{f' on {on}' if on else ''} since {change.since}: "
        f"{signed(change.difference)} ({span(change.low, change.high, sign=True)})"
    )


def _decided(point: Point) -> TextCell:
    return TextCell(
        outcome_words(point.outcome or ""),
        "not registered" if point.outcome and point.bakeoff.unregistered else "",
    )


def _cell(point: Point | None) -> TextCell:
    if point is None:
        return TextCell("")
    if point.value is None:
        return TextCell(UNDEFINED if point.model.values else "failed")
    value, worse = point.value, point.change is not None and point.change.worse
    text = f"{number(value.mean)}{_SIGNS[point.role]}"
    return TextCell(text, span(value.low, value.high), "-" if worse else "")


def _legend(history: History) -> Iterator[str]:
    known = [p for p in history.points if p.value is not None]
    if any(p.value is not None and not math.isnan(p.value.low) for p in known):
        yield f"{small_legend(LEVEL)}."
    roles = {p.role for p in known}
    signs: dict[ModelRole, str] = {"champion": "☆ champion then", "promoted": PROMOTED}
    if shown := [text for role, text in signs.items() if role in roles]:
        yield f"{', '.join(shown)}."
    if history.higher_is_better is None:
        yield f"Which way {history.metric} is better is not known: nothing is marked as worse."
    elif any(p.change is not None and p.change.worse for p in history.points):
        yield (
            f"{worse_legend(history.level)}; by chance alone so does about 1 change in "
            f"{round(2 / (1 - history.level))}."
        )


def _newest(points: Sequence[Point], up: bool | None) -> float:
    """Return the sort key of a model: by its newest value, the best first."""
    value = next((p.value.mean for p in reversed(points) if p.value is not None), math.nan)
    if math.isnan(value):
        return math.inf
    return value if up is False else -value
