"""The leaderboard as texts to show and values to sort by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.comparison.compared import Cell, ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.metrics import parse
from evalplugin.report.page.data import scored
from evalplugin.report.page.wording import bounds, shown

__all__ = ["leaderboard"]

_MARKS = {"+": "better", "-": "worse", "": ""}
_WAYS = {True: "", False: "lower is better", None: "neither is better"}
_COSTS = ("fit", "recommend", "memory")


def leaderboard(comparison: Comparison, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return columns, rows and failed models; ``models`` are the page's, in the same order as the rows."""
    rows = scored(comparison)
    metrics = comparison.contest.metrics
    best = {metric: _best(metric, rows) for metric in metrics}
    return {
        "note": _note(comparison),
        "columns": [
            {"name": "#", "kind": "rank", "first": "ascending", "hint": ""},
            {"name": "Model", "kind": "text", "first": "ascending", "hint": ""},
            *(_metric_column(metric) for metric in metrics),
            *({"name": name, "kind": "number", "first": "ascending", "hint": ""} for name in _COSTS),
        ],
        "rows": [
            {
                "rank": row.rank or "",
                "model": model,
                "type": "" if row.type == row.model else row.type,
                "baseline": row.is_baseline,
                "cells": [
                    *(_metric_cell(row.cells.get(metric), best[metric]) for metric in metrics),
                    *_cost_cells(row),
                ],
            }
            for row, model in zip(rows, models, strict=True)
        ],
        "metrics": metrics,
        "folds": _folds(rows, models, metrics),
        "failed": [(row.model, row.error) for row in comparison.models if row.error is not None],
    }


def _folds(
    rows: Sequence[ComparedModel], models: Sequence[Mapping[str, Any]], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the lowest and the highest mean of any fold, for each model and metric; nothing of a single fold."""
    if all(len(row.fold_means) < 2 for row in rows):
        return []
    return [
        {"model": model, "cells": [_range(row, metric) for metric in metrics]}
        for row, model in zip(rows, models, strict=True)
    ]


def _range(row: ComparedModel, metric: str) -> str:
    means = [fold.get(metric, math.nan) for fold in row.fold_means]
    defined = [mean for mean in means if math.isfinite(mean)]
    return f"{shown(min(defined))} to {shown(max(defined))}" if defined else shown(math.nan)


def _note(comparison: Comparison) -> str:
    said = [f"Means over users with {100 * comparison.level:g} % intervals, the best of each in bold."]
    baseline = comparison.contest.baseline
    if any(cell.mark for row in comparison.models for cell in row.cells.values()):
        said.append(f"▲ better, ▼ worse than the baseline {baseline}, Holm's correction included.")
    if any(len(row.fold_means) > 1 for row in comparison.models):
        said.append("Users' values are averaged over folds.")
    return " ".join(said)


def _metric_column(metric: str) -> dict[str, str]:
    up = parse(metric).metric.higher_is_better
    first = "ascending" if up is False else "descending"
    return {"name": metric, "kind": "number", "first": first, "hint": _WAYS[up]}


def _best(metric: str, rows: Sequence[ComparedModel]) -> float:
    up = parse(metric).metric.higher_is_better
    means = [row.cells[metric].mean for row in rows if metric in row.cells]
    defined = [mean for mean in means if math.isfinite(mean)]
    if up is None or len(defined) < 2:
        return math.nan
    return max(defined) if up else min(defined)


def _metric_cell(cell: Cell | None, best: float) -> dict[str, Any]:
    if cell is None:
        return _cell(math.nan, shown(math.nan))
    return {
        **_cell(cell.mean, shown(cell.mean)),
        "interval": bounds(cell.low, cell.high),
        "mark": _MARKS[cell.mark],
        "best": cell.mean == best,
    }


def _cost_cells(row: ComparedModel) -> list[dict[str, Any]]:
    costs = row.costs
    if costs is None:
        return [_cell(math.nan, shown(math.nan)) for _ in _COSTS]
    return [
        _cell(costs.fit_seconds, f"{shown(costs.fit_seconds, 2)} s"),
        _cell(costs.recommend_seconds, f"{shown(costs.recommend_seconds, 2)} s"),
        _cell(costs.peak_memory_mb, f"{shown(costs.peak_memory_mb, 0)} MB"),
    ]


def _cell(value: float, text: str) -> dict[str, Any]:
    return {
        "value": repr(value) if math.isfinite(value) else "",
        "text": text if math.isfinite(value) else shown(math.nan),
        "interval": "",
        "mark": "",
        "best": False,
    }
