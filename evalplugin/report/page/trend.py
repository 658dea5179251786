"""How the models did over the bake-offs of the past, as the page draws and tabulates it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.trends import History, PastBakeoff, Point, history_of
from evalplugin.report.page.theme import SHAPES
from evalplugin.report.page.wording import bounds, plain, signed

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
        "note": _note(points, len(bakeoffs)),
        "worse": _worse([p for p in history.worse if _is_here(p, comparison)]),
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


def _note(points: Sequence[Point], bakeoffs: int) -> str:
    """Return in sentences what is shown, and what each sign that is there means."""
    said = [
        f"The latest {bakeoffs} bake-offs of this experiment on this dataset and split; the data may differ."
    ]
    if any(p.role == "promoted" for p in points):
        said.append("★ promoted then.")
    if any(p.change is not None and p.change.worse for p in points):
        said.append("▼ worse than in the bake-off before: Welch's 95 % interval of the change excludes 0.")
    if any(p.line for p in points):
        said.append("No line where a model's type, its parameters or the rules changed.")
    return " ".join(said)


def _worse(points: Sequence[Point]) -> list[str]:
    """Return in sentences what got worse since the bake-off before."""
    return [
        f"{p.model.model} got worse since {p.change.since}: {signed(p.change.difference)} "
        f"{bounds(p.change.low, p.change.high)}"
        for p in points
        if p.change is not None
    ]


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
        "mean": plain(value.mean),
        "low": plain(value.low),
        "high": plain(value.high),
        "role": point.role,
        "line": point.line,
    }
    if change is not None:
        told |= {
            "difference": plain(change.difference),
            "differenceLow": plain(change.low),
            "differenceHigh": plain(change.high),
            "worse": change.worse,
        }
    return told
