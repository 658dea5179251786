"""The page's trend: the models' means over past bake-offs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.base.numbers import rounded
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.execution.results import DataSplit
from evalplugin.features.history.tables import NO_LINE, PROMOTED, worse_legend, worsened
from evalplugin.features.history.trends import History, PastBakeoff, Point, history_of
from evalplugin.report.page.theme import SHAPES
from evalplugin.report.words import outcome_words

__all__ = ["trend"]

_LEAST = 2  # bake-offs that make a trend


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
    return DataSplit.of(point.model) == DataSplit.of(contest)


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
