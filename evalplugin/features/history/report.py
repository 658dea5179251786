"""A history as tables, with a row a bake-off and a column a model; and as the page's trend."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from evalplugin.base.numbers import UNDEFINED, number, percent, rounded, signed, span
from evalplugin.comparison.compared import LEVEL
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.execution.results import DataSplit
from evalplugin.features.history.trends import History, ModelRole, PastBakeoff, Point, history_of
from evalplugin.report.page.theme import SHAPES
from evalplugin.report.tables import TextCell, TextTable
from evalplugin.report.words import outcome_words, small_legend

PROMOTED = "★ promoted then"
WORSE = "▼ worse than in the bake-off before"
NO_LINE = "no line where type, parameters or rules changed"
_LEAST = 2  # bake-offs that make a trend

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
    if any(p.value is not None and p.value.differ for p in known):
        yield "Means are over each model's own users, who differ; compare ranks by those that all models have."
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


def trend(
    comparison: Comparison, past: Sequence[PastBakeoff], models: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the means of past bake-offs by the primary metric on the comparison's data; None if there are too few.

    Args:
        comparison: The comparison on the page.
        past: Bake-offs of its experiment, its own one included, in any order.
        models: The models of the page, with their colours and outlines; past ones that are not among them are grey.

    Keys: ``bakeoffs`` (the oldest first), ``models``, each with its ``points``, ``note``: the legend, and ``worse``:
    sentences on the models that got worse in the newest bake-off.
    """
    contest = comparison.contest
    if not any(contest.primary in model.values for bakeoff in past for model in bakeoff.models):
        return None
    history = history_of(contest.name, past, contest.primary)
    points = [p for p in history.points if _is_of(contest, p) and p.value is not None]
    bakeoffs = [b for b in history.bakeoffs if any(p.bakeoff is b for p in points)]
    if len(bakeoffs) < _LEAST:
        return None
    position = {b.id: i for i, b in enumerate(bakeoffs)}
    outcomes = {p.bakeoff.id: p.outcome and outcome_words(p.outcome) for p in points}
    styles = {model["name"]: model for model in models}
    names = dict.fromkeys([*styles, *(p.model.model for p in points)])
    return {
        "note": _note(history, points, len(bakeoffs)),
        "worse": [worsened(p) for p in history.worse if _is_of(contest, p)],
        "bakeoffs": [
            {"id": b.id, "at": b.at.isoformat(timespec="seconds"), "outcome": outcomes[b.id]}
            for b in bakeoffs
        ],
        "models": [
            {
                **(styles.get(name) or {"name": name, "colour": "var(--quiet)", "shape": SHAPES[0]}),
                "points": [_point(p, position) for p in points if p.model.model == name],
            }
            for name in names
        ],
    }


def _note(history: History, points: Sequence[Point], bakeoffs: int) -> str:
    """Return sentences on the bake-offs and the signs on the chart."""
    sentences = [
        f"The latest {bakeoffs} bake-offs of this experiment on this dataset and split; the data may differ."
    ]
    if any(p.role == "promoted" for p in points):
        sentences.append(f"{PROMOTED}.")
    if any(p.change is not None and p.change.worse for p in points):
        sentences.append(f"{worse_legend(history.level)}.")
    if any(p.line for p in points):
        sentences.append(f"{NO_LINE.capitalize()}.")
    return " ".join(sentences)


def _is_of(contest: Contest, point: Point) -> bool:
    return DataSplit.of(point.model) == contest.place


def _point(point: Point, position: Mapping[str, int]) -> dict[str, Any]:
    value, change = point.value, point.change
    assert value is not None
    row: dict[str, Any] = {
        "bakeoff": position[point.bakeoff.id],
        "mean": rounded(value.mean),
        "low": rounded(value.low),
        "high": rounded(value.high),
        "role": point.role,
        "line": point.line,
    }
    if change is not None:
        row |= {
            "difference": rounded(change.difference),
            "differenceLow": rounded(change.low),
            "differenceHigh": rounded(change.high),
            "worse": change.worse,
        }
    return row
