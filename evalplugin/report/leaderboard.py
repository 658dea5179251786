"""The leaderboard: all models by all metrics, with their costs; and their spread over folds and seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evalplugin.base.numbers import UNDEFINED, memory, number, seconds
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Costs
from evalplugin.report.competition import facts_of
from evalplugin.report.sentences.fits import fit_lines
from evalplugin.report.sentences.statistics import mark_lines, small_lines
from evalplugin.report.sentences.units import counted_lines, ranking_basis, shared_lines
from evalplugin.report.table import Column, Table, TableCell, numbers, words
from evalplugin.report.tables import mean_cell, name_cell, own_cell, own_column, rank_cell, seeds_cell
from evalplugin.report.words import heading

COST_COLUMNS = tuple(
    Column(heading, group="costs") for heading in ("start", "fit", "recommend", "score", "peak memory")
)


def leaderboard(comparison: Comparison, *, intervals: bool = True) -> Table:
    """Return all models by all metrics, best first, with their costs if they are known; failed ones last.

    Where models have values for different users, a column has the number of their own.
    """
    contest = comparison.contest
    columns = [*words("", "model")]
    columns += [Column(heading(s), direction=s.direction) for s in map(contest.spec, contest.metrics)]
    own = [contest.primary] if ranking_basis(comparison, contest.primary) != "" else []
    columns += [own_column(comparison) for _ in own]
    costs = {row.model: facts_of(contest, row.model).costs for row in comparison.models}
    with_costs = any(cost is not None for cost in costs.values())
    columns += COST_COLUMNS if with_costs else ()
    means = mean_cell if intervals else lambda cell: mean_cell(cell)._replace(small="")
    rows = [
        (
            rank_cell(row),
            name_cell(row),
            *(means(row.cells.get(metric)) for metric in contest.metrics),
            *(own_cell(row.cells.get(metric)) for metric in own),
            *(cost_cells(costs[row.model]) if with_costs else ()),
        )
        for row in comparison.scored
    ]
    empty = [TableCell("")] * (len(columns) - 3)
    rows += [(rank_cell(row), name_cell(row), TableCell("failed"), *empty) for row in comparison.failed]
    footnotes = (*(small_lines(comparison) if intervals else ()), *_footnotes(comparison))
    return Table(str(contest.place), tuple(columns), tuple(rows), footnotes=footnotes)


def cost_cells(costs: Costs | None) -> list[TableCell]:
    """Return a model's costs, below ``COST_COLUMNS``."""
    if costs is None:
        return [TableCell(UNDEFINED)] * len(COST_COLUMNS)
    times = (costs.start_seconds, costs.fit_seconds, costs.recommend_seconds, costs.score_seconds)
    cells = [TableCell(seconds(time), value=time) for time in times]
    return [*cells, TableCell(memory(costs.peak_memory_mb), value=costs.peak_memory_mb)]


def spreads(comparison: Comparison) -> Iterator[Table]:
    """Yield the lowest and highest mean of any fold, and of any seed, where there are several."""
    metrics = comparison.contest.metrics
    columns = (*words("model"), *numbers(*metrics))
    rows = comparison.scored
    if comparison.n_folds > 1:
        folds = tuple((name_cell(row), *(_range(row.means_of_folds(m)) for m in metrics)) for row in rows)
        yield Table("Spread over folds", columns, folds)
    if comparison.n_seeds > 1:
        seeds = tuple((name_cell(row), *(seeds_cell(row, m) for m in metrics)) for row in rows)
        yield Table("Spread over seeds", columns, seeds)


def _range(means: Sequence[float]) -> TableCell:
    defined = [mean for mean in means if math.isfinite(mean)]
    return TableCell(f"{number(min(defined))}–{number(max(defined))}" if defined else UNDEFINED)


def _footnotes(comparison: Comparison) -> Iterator[str]:
    contest = comparison.contest
    yield from mark_lines(comparison)
    yield from counted_lines(comparison, contest.primary)
    yield from shared_lines(comparison, contest.metrics)
    yield from fit_lines(comparison)
