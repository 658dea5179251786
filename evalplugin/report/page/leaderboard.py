"""The page's leaderboard: texts to show and values to sort by."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from evalplugin.base.numbers import UNDEFINED, bracketed, number, percent, seconds
from evalplugin.base.units import plural
from evalplugin.comparison.compared import Cell, ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Costs
from evalplugin.metrics import MetricSpec
from evalplugin.report.competition import competition_of, facts_of
from evalplugin.report.tables import own_cell
from evalplugin.report.words import (
    better_words,
    few_users_legend,
    marks_legend,
    ranking_basis,
    seed_texts,
    shared_lines,
)

_MARKS = {"+": "better", "-": "worse", "": ""}
_COSTS = ("fit", "recommend", "memory")


def leaderboard(comparison: Comparison, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return columns, rows and failed models; ``models`` are the page's, in the same order as the rows."""
    rows, metrics = comparison.scored, comparison.contest.metrics
    specs = [comparison.contest.spec(metric) for metric in metrics]
    best = {spec.name: _best(spec, rows) for spec in specs}
    with_costs = competition_of(comparison.contest) is not None
    units, primary = plural(comparison.contest.units.noun), comparison.contest.primary
    own = [primary] if ranking_basis(comparison, primary) != "" else []  # whose numbers of users are shown
    best_tag = "the best" if len(comparison.may_be_best) == 1 else "may be best"
    return {
        "note": _note(comparison),
        "columns": [
            _column("#", "rank"),
            _column("Model", "text"),
            *map(_metric_column, specs),
            *(_column(f"Own {units}", "number", "descending") for _ in own),
            *(_column(name, "number") for name in _COSTS if with_costs),
        ],
        "rows": [
            {
                "rank": row.rank or "",
                "model": model,
                "type": "" if facts.type == row.model else facts.type,
                "tuned": "" if facts.tuned is None else facts.tuned.budget,
                "best": best_tag if row.model in comparison.may_be_best else "",
                "baseline": row.is_baseline,
                "cells": [
                    *(_metric_cell(row.cells.get(metric), best[metric]) for metric in metrics),
                    *(_own_cell(row.cells.get(metric)) for metric in own),
                    *(_cost_cells(facts.costs) if with_costs else ()),
                ],
            }
            for row, model in zip(rows, models, strict=True)
            for facts in (facts_of(comparison.contest, row.model),)
        ],
        "metrics": metrics,
        "spreads": _spreads(comparison),
        "failed": [(row.model, row.error) for row in comparison.failed],
    }


def _spreads(comparison: Comparison) -> dict[str, list[list[str]]]:
    """Return the lowest and highest mean of any fold, and of any seed, where there are several: by title, a table."""
    rows, metrics = comparison.scored, comparison.contest.metrics
    spreads = {}
    if comparison.n_folds > 1:
        spreads["Spread over folds"] = [[_range(row, metric) for metric in metrics] for row in rows]
    if comparison.n_seeds > 1:
        spreads["Spread over seeds"] = [
            [", ".join(filter(None, seed_texts(row, metric))) for metric in metrics] for row in rows
        ]
    return spreads


def _range(row: ComparedModel, metric: str) -> str:
    defined = [mean for mean in row.means_of_folds(metric) if math.isfinite(mean)]
    return f"{number(min(defined))} to {number(max(defined))}" if defined else UNDEFINED


def _note(comparison: Comparison) -> str:
    unit = comparison.contest.units.noun
    sentences = [
        f"Means over {plural(unit)} with {percent(comparison.level)} intervals; the best in bold, where higher or "
        f"lower is better."
    ]
    sentences += shared_lines(comparison, comparison.contest.metrics)
    if any(cell.mark for row in comparison.models for cell in row.cells.values()):
        sentences.append(marks_legend(comparison.contest.baseline, comparison.level, unit))
        sentences += few_users_legend(comparison.pairs, comparison.contest.units.independent)
    if comparison.n_folds > 1:
        sentences.append(f"{plural(unit).capitalize()}' values are averaged over folds.")
    if comparison.n_seeds > 1:
        sentences.append(f"{plural(unit).capitalize()}' values are averaged over seeds.")
    return " ".join(sentences)


def _column(name: str, kind: str, first: str = "ascending", hint: str = "") -> dict[str, Any]:
    """Return a column; between the ``parts`` of its name a line may break."""
    return {"parts": re.findall(r"[^(=,]+[(=,]*\s*", name), "kind": kind, "first": first, "hint": hint}


def _metric_column(spec: MetricSpec) -> dict[str, Any]:
    first = "ascending" if spec.direction < 0 else "descending"
    better = "" if spec.direction > 0 else better_words(spec) or "neither is better"
    hint = ", ".join(filter(None, (spec.metric.unit, better)))
    return _column(spec.name, "number", first, hint)


def _best(spec: MetricSpec, rows: Sequence[ComparedModel]) -> float:
    direction = spec.direction
    means = [row.mean(spec.name) for row in rows]
    defined = [mean for mean in means if math.isfinite(mean)]
    if not direction or len(set(defined)) < 2:
        return math.nan
    return max(defined, key=lambda mean: direction * mean)


def _metric_cell(cell: Cell | None, best: float) -> dict[str, Any]:
    if cell is None:
        return _cell(math.nan, UNDEFINED)
    return {
        **_cell(cell.mean, number(cell.mean)),
        "interval": bracketed(cell.low, cell.high) or (UNDEFINED if cell.method == "none" else ""),
        "mark": _MARKS[cell.mark],
        "best": cell.mean == best,
    }


def _own_cell(cell: Cell | None) -> dict[str, Any]:
    shown = own_cell(cell)
    return _cell(math.nan if cell is None else cell.has, shown.text) | {"interval": shown.small}


def _cost_cells(costs: Costs | None) -> list[dict[str, Any]]:
    if costs is None:
        return [_cell(math.nan, UNDEFINED) for _ in _COSTS]
    return [
        _cell(costs.fit_seconds, seconds(costs.fit_seconds)),
        _cell(costs.recommend_seconds, seconds(costs.recommend_seconds)),
        _cell(costs.peak_memory_mb, f"{number(costs.peak_memory_mb, 0)} MB"),
    ]


def _cell(value: float, text: str) -> dict[str, Any]:
    return {
        "value": repr(value) if math.isfinite(value) else "",
        "text": text if math.isfinite(value) else UNDEFINED,
        "interval": "",
        "mark": "",
        "best": False,
    }
