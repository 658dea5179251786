"""The page's data: a comparison as rounded JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from evalplugin.base.numbers import rounded
from evalplugin.comparison.compared import ComparedModel, Pair, SegmentCell
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Costs
from evalplugin.report.charts.distribution import axis_limits
from evalplugin.report.charts.palette import SHAPES, model_colours
from evalplugin.report.charts.theme import model_variables
from evalplugin.report.competition import competition_of, facts_of
from evalplugin.report.hit_rates import hit_rates
from evalplugin.report.page.examples import examples
from evalplugin.report.words import whom
from evalplugin.segments import Segmentation


def colours_of(comparison: Comparison) -> dict[str, str]:
    """Return the colour of each model, in config order: the same as in every other figure."""
    contest = comparison.contest
    return model_colours([c.model for c in contest.models], contest.baseline)


def contest_data(comparison: Comparison) -> dict[str, Any]:
    """Return the data of a comparison's tab on the page, as JSON values; models are numbered best first.

    Keys: ``bakeoff``, ``unit`` (user or query) with its plural ``units`` and its pronoun ``whom``,
    ``isTable`` (it has scores alone), ``opening`` (the leader and its strongest rival, or None), ``models``,
    ``metrics`` (with means, spread, quantiles and pairs of each), ``curves`` (metric at k), ``precision``, ``costs``,
    ``segments``, ``hitRates`` (by popularity of items, or None), ``examples`` (None without two models to compare).
    """
    contest, rows = comparison.contest, comparison.scored
    competition = competition_of(contest)
    position = {row.model: i for i, row in enumerate(rows)}
    best = comparison.best.get(contest.primary)
    opening = [position[best.leader], position[best.rival]] if best and best.rival is not None else None
    return {
        "bakeoff": contest.name,
        "unit": contest.units.noun,
        "units": contest.units.nouns,
        "whom": whom(contest.units.noun),
        "isTable": competition is None,
        "n": 0 if competition is None else competition.rules.n,
        "threshold": None if competition is None else competition.rules.threshold,
        "baseline": next((i for i, row in enumerate(rows) if row.is_baseline), None),
        "opening": opening,
        "models": _models(comparison),
        "metrics": [_metric(comparison, position, metric) for metric in contest.metrics],
        "curves": _curves(rows),
        "precision": _union("recall", [row.scores.pr_curve for row in rows if row.scores is not None]),
        "costs": _costs(comparison),
        "segments": [_segmentation(comparison, position, s) for s in contest.segments],
        "hitRates": _hit_rates(comparison),
        "examples": examples(comparison),
    }


def _models(comparison: Comparison) -> list[dict[str, Any]]:
    colours = colours_of(comparison)
    variables, order = model_variables(colours), list(colours)
    return [
        {
            "name": row.model,
            "run": row.run_id,
            "colour": f"var(--{variables[row.model]})",
            "shape": SHAPES[order.index(row.model) % len(SHAPES)],
        }
        for row in comparison.scored
    ]


def _metric(comparison: Comparison, position: Mapping[str, int], metric: str) -> dict[str, Any]:
    spec = comparison.contest.spec(metric)
    cells = [row.cells.get(metric) for row in comparison.scored]
    summaries = [None if c is None or not spec.is_by_unit else c.summary for c in cells]
    known = [s for s in summaries if s is not None and s.n]
    defined = [s.quantiles for s in known]
    low, high = axis_limits(spec, defined)
    return {
        "name": metric,
        "better": spec.direction,
        "perUser": bool(defined),
        "family": spec.at(None).name,
        # Values of at most 1 whose mean is the share that is not 0.
        "binary": all(s.quantiles.max() <= 1 and abs(s.mean + s.zero_share - 1) < 1e-9 for s in known),
        "axis": [rounded(low), rounded(high)],
        "means": [
            None if c is None else [*map(rounded, (c.mean, c.low, c.high)), c.users, c.undefined]
            for c in cells
        ],
        "spread": [None if s is None else [rounded(s.std), rounded(s.zero_share)] for s in summaries],
        "quantiles": [None if s is None else [*map(rounded, s.quantiles.tolist())] for s in summaries],
        "pairs": [_pair(p, position) for p in comparison.every_pair if p.metric == metric],
    }


def _pair(pair: Pair, position: Mapping[str, int]) -> dict[str, Any]:
    paired = pair.paired
    return {
        "model": position[pair.model],
        "against": position[pair.against],
        "users": paired.users,
        "difference": rounded(paired.interval.mean),
        "low": rounded(paired.interval.low),
        "high": rounded(paired.interval.high),
        "relative": rounded(paired.relative),
        "effect": rounded(paired.effect),
        "above": rounded(paired.above),
        "equal": rounded(paired.equal),
        "below": rounded(paired.below),
        "p": rounded(pair.p),
        "holm": rounded(pair.p_holm),
        "bh": rounded(pair.p_bh),
        "tests": {name: rounded(p) for name, p in paired.p.items() if name != "permutation"},
        "detectable": rounded(paired.detectable),
        "mark": pair.mark,
    }


def _curves(rows: Sequence[ComparedModel]) -> dict[str, Any]:
    """Return each metric's means over the cutoff."""
    by_model = [row.scores.at_k for row in rows if row.scores is not None]
    families = dict.fromkeys(name for at_k in by_model for name in at_k)
    return {family: _union("ks", [at_k.get(family, {}) for at_k in by_model]) for family in families}


def _union(name: str, curves: Sequence[Mapping[int, float]]) -> dict[str, Any]:
    """Return the points of all models' curves, under a name, and a list of ``values`` for each model."""
    points = sorted({point for curve in curves for point in curve})
    values = [[rounded(curve.get(point, math.nan)) for point in points] for curve in curves]
    return {name: points, "values": values}


def _costs(comparison: Comparison) -> list[dict[str, Any]]:
    """Return costs against quality, an entry for each kind of cost that was measured."""
    rows, primary = comparison.scored, comparison.contest.primary
    costs = [facts_of(comparison.contest, row.model).costs for row in rows]
    quality = [row.mean(primary) for row in rows]
    direction = comparison.contest.spec(primary).direction
    kinds = []
    for name, unit, of in _COSTS:
        values = [math.nan if own is None else of(own, row) for own, row in zip(costs, rows, strict=True)]
        if defined := [v for v in values if math.isfinite(v)]:
            kinds.append(
                {
                    "name": name.format(unit=comparison.contest.units.noun),
                    "unit": unit,
                    "values": [rounded(v) for v in values],
                    # A linear axis would show most values as nearly 0.
                    "log": min(defined) > 0 and max(defined) / min(defined) > 20,
                    "frontier": _frontier(values, [direction * mean for mean in quality])
                    if direction
                    else [],
                }
            )
    return kinds


def _per_user_ms(costs: Costs, row: ComparedModel) -> float:
    users = 0 if row.scores is None else len(row.scores.users)
    return 1000 * costs.recommend_seconds / users if users else math.nan


_COSTS = (
    ("fit time", "s", lambda costs, row: costs.fit_seconds),
    ("recommending, per {unit}", "ms", _per_user_ms),
    ("peak memory", "MB", lambda costs, row: costs.peak_memory_mb),
)


def _frontier(costs: Sequence[float], quality: Sequence[float]) -> list[int]:
    """Return the Pareto frontier of models by cost and quality, cheapest first."""
    points = [
        (cost, -value, i)
        for i, (cost, value) in enumerate(zip(costs, quality, strict=True))
        if math.isfinite(cost) and math.isfinite(value)
    ]
    return [
        i
        for cost, loss, i in sorted(points)
        if not any(c <= cost and q <= loss and (c, q) != (cost, loss) for c, q, _ in points)
    ]


def _hit_rates(comparison: Comparison) -> dict[str, Any] | None:
    if (rates := hit_rates(comparison)) is None:
        return None
    hits = [rates.hits.get(row.model) for row in comparison.scored]
    return {"labels": rates.labels, "items": rates.items, "truth": rates.truth, "hits": hits}


def _segmentation(
    comparison: Comparison, position: Mapping[str, int], segmentation: Segmentation
) -> dict[str, Any]:
    labels = segmentation.labels
    counts = np.bincount(segmentation.group[segmentation.group >= 0], minlength=len(labels))
    # By metric: a list for each group, with a cell for each model.
    metrics: dict[str, list[list[dict[str, Any] | None]]] = {}
    for cell in comparison.segments:
        if cell.segment == segmentation.name:
            table = metrics.setdefault(cell.metric, [[None] * len(position) for _ in labels])
            table[labels.index(cell.label)][position[cell.model]] = _segment_cell(cell)
    return {
        "name": segmentation.name,
        "labels": list(labels),
        "users": counts.tolist(),
        "metrics": metrics,
    }


def _segment_cell(cell: SegmentCell) -> dict[str, Any]:
    mean: dict[str, Any] = {
        "mean": rounded(cell.interval.mean),
        "low": rounded(cell.interval.low),
        "high": rounded(cell.interval.high),
        "users": cell.interval.n,
    }
    if cell.difference is not None:
        interval = cell.difference.paired.interval
        mean |= {
            "difference": rounded(interval.mean),
            "differenceLow": rounded(interval.low),
            "differenceHigh": rounded(interval.high),
            "holm": rounded(cell.difference.p_holm),
            "mark": cell.difference.mark,
        }
    return mean
