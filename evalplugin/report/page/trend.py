"""The page's trend: the models' means over past bake-offs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.base.numbers import rounded
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.trends import History, PastBakeoff, Point, history_of
from evalplugin.report.page.theme import SHAPES
from evalplugin.report.words import NO_LINE, PROMOTED, worse_legend, worsened

__all__ = ["trend"]

_LEAST = 2  # bake-offs that make a trend


def trend(
    comparison: Comparison, past: Sequence[PastBakeoff], models: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the means of past bake-offs by the primary metric on the comparison's data; None: there are too few.

    Args:
        comparison: What the page shows.
        past: Bake-offs of its experiment, its own one included, in any order.
        models: Those of the page, with the colour and the outline that each has there; others are grey.

    Keys: ``bakeoffs`` (the oldest first), ``models``, each with its ``points``, ``note``: what is shown, and
    ``worse``: sentences on what got worse in the newest one.
    """
    history = _history(comparison, past)
    if history is None:
        return None
    points = [p for p in history.points if _is_here(p, comparison) and p.value is not None]
    bakeoffs = [b for b in history.bakeoffs if any(p.bakeoff is b for p in points)]
    if len(bakeoffs) < _LEAST:
        return None
    place = {b.id: i for i, b in enumerate(bakeoffs)}
    outcomes = {p.bakeoff.id: p.outcome for p in points}
    looks = {model["name"]: model for model in models}
    names = dict.fromkeys([*looks, *(p.model.model for p in points)])
    return {
        "note": _note(history, points, len(bakeoffs)),
        "worse": [worsened(p) for p in history.worse if _is_here(p, comparison)],
        "bakeoffs": [
            {"id": b.id, "at": b.at.isoformat(timespec="seconds"), "outcome": outcomes[b.id]}
            for b in bakeoffs
        ],
        "models": [
            {
                **(looks.get(name) or {"name": name, "colour": "var(--quiet)", "shape": SHAPES[0]}),
                "points": [_point(p, place) for p in points if p.model.model == name],
            }
            for name in names
        ],
    }


def _note(history: History, points: Sequence[Point], bakeoffs: int) -> str:
    """Return sentences on the bake-offs and signs that are shown."""
    said = [
        f"The latest {bakeoffs} bake-offs of this experiment on this dataset and split; the data may differ."
    ]
    if any(p.role == "promoted" for p in points):
        said.append(f"{PROMOTED}.")
    if any(p.change is not None and p.change.worse for p in points):
        said.append(f"{worse_legend(history.level)}.")
    if any(p.line for p in points):
        said.append(f"{NO_LINE.capitalize()}.")
    return " ".join(said)


def _history(comparison: Comparison, past: Sequence[PastBakeoff]) -> History | None:
    contest = comparison.contest
    if not any(contest.primary in model.values for bakeoff in past for model in bakeoff.models):
        return None
    return history_of(contest.name, past, contest.primary)


def _is_here(point: Point, comparison: Comparison) -> bool:
    contest = comparison.contest
    return (point.model.dataset, point.model.split) == (contest.dataset, contest.split)


def _point(point: Point, place: Mapping[str, int]) -> dict[str, Any]:
    value, change = point.value, point.change
    assert value is not None
    told: dict[str, Any] = {
        "bakeoff": place[point.bakeoff.id],
        "mean": rounded(value.mean),
        "low": rounded(value.low),
        "high": rounded(value.high),
        "role": point.role,
        "line": point.line,
    }
    if change is not None:
        told |= {
            "difference": rounded(change.difference),
            "differenceLow": rounded(change.low),
            "differenceHigh": rounded(change.high),
            "worse": change.worse,
        }
    return told
