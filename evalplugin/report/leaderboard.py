"""A bake-off's outcome as rows of plain numbers: means with intervals, and what differs from the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

import numpy as np
import numpy.typing as npt

from evalplugin.metrics import parse
from evalplugin.results import Bakeoff, BakeoffResult, Costs, ModelResult
from evalplugin.scoring import PerUserScores, Summary, summarise
from evalplugin.seeding import generator
from evalplugin.statistics import mean_interval, paired_interval

__all__ = [
    "LEVEL",
    "Cell",
    "Difference",
    "LeaderboardRow",
    "headline",
    "headline_metrics",
    "leaderboard_rows",
]

LEVEL = 0.95  # of every interval

Mark = Literal["+", "-", ""]


@dataclass(frozen=True)
class Difference:
    """Model minus baseline, over the users for whom both are defined."""

    mean: float
    low: float
    high: float
    users: int


@dataclass(frozen=True)
class Cell:
    """One model's value of one metric; what is undefined is NaN.

    ``mark``: ``+`` where the interval of the difference from the baseline shows the model better, ``-`` where it
    shows it worse, and empty where it holds 0, where there is no such interval, or where neither way is better.
    """

    metric: str  # canonical name
    mean: float
    low: float = math.nan  # of the interval of the mean; NaN for a metric that is one number a model
    high: float = math.nan
    method: str = ""  # how the interval was found: bootstrap, t
    users: int = 0  # that count
    undefined: int = 0  # users without a value
    summary: Summary | None = None  # of the users' values; None for a metric that is one number a model
    difference: Difference | None = None
    mark: Mark = ""


@dataclass(frozen=True)
class LeaderboardRow:
    """One model on one dataset under one split. ``rank`` counts from 1 by the primary metric; None: not ranked."""

    dataset: str
    split: str
    model: str
    type: str
    rank: int | None
    is_baseline: bool
    cells: Mapping[str, Cell]  # by canonical name, the primary metric first; empty for a model that failed
    costs: Costs | None
    error: str | None  # the last line of what a failed model raised


def headline_metrics(bakeoff: Bakeoff) -> tuple[str, ...]:
    """Return the canonical names of a bake-off's metrics, the primary one first."""
    return (bakeoff.primary, *(m for m in bakeoff.metrics if m != bakeoff.primary))


def headline(bakeoff: Bakeoff, result: ModelResult) -> dict[str, Cell]:
    """Return a model's value of each metric, the primary one first; nothing for a model that failed."""
    scores = result.per_user
    if scores is None:
        return {}
    cells = {}
    for metric in headline_metrics(bakeoff):
        if metric in scores.metrics:
            values = scores.column(metric)
            summary = summarise(values)
            # Named by the metric alone: the names of models and data change no number.
            rng = generator(bakeoff.seed, "interval", metric)
            interval = mean_interval(values, level=LEVEL, rng=rng)
            cells[metric] = Cell(
                metric,
                mean=summary.mean,
                low=interval.low,
                high=interval.high,
                method=interval.method,
                users=summary.n,
                undefined=summary.undefined,
                summary=summary,
            )
        elif metric in scores.overall:
            cells[metric] = Cell(metric, float(scores.overall[metric]), users=len(scores.users))
    return cells


def leaderboard_rows(
    result: BakeoffResult, cells: Sequence[Mapping[str, Cell]] | None = None
) -> list[LeaderboardRow]:
    """Return the rows of the final table: by dataset and split in config order, then best first, failed last.

    Args:
        result: The bake-off.
        cells: What ``headline`` returned for each of its models, where that is known already.
    """
    bakeoff = result.bakeoff
    known = cells if cells is not None else [headline(bakeoff, model) for model in result.models]
    rows: list[LeaderboardRow] = []
    for _, group in groupby(
        zip(result.models, known, strict=True), key=lambda pair: (pair[0].data.dataset, pair[0].data.split)
    ):
        rows.extend(_ranked(bakeoff, list(_compared(bakeoff, list(group)))))
    return rows


def _compared(
    bakeoff: Bakeoff, group: Sequence[tuple[ModelResult, Mapping[str, Cell]]]
) -> Iterator[LeaderboardRow]:
    baseline = next((m for m, _ in group if m.model == bakeoff.baseline), None)
    for model, cells in group:
        is_baseline = model.model == bakeoff.baseline
        if (
            baseline is not None
            and baseline.per_user is not None
            and model.per_user is not None
            and not is_baseline
        ):
            cells = {
                name: _with_difference(bakeoff, cell, model, model.per_user, baseline.per_user)
                for name, cell in cells.items()
            }
        yield LeaderboardRow(
            model.data.dataset,
            model.data.split,
            model.model,
            model.type,
            None,
            is_baseline,
            cells,
            model.costs,
            model.failure,
        )


def _with_difference(
    bakeoff: Bakeoff, cell: Cell, model: ModelResult, ours: PerUserScores, theirs: PerUserScores
) -> Cell:
    if cell.summary is None or cell.metric not in theirs.metrics:
        return cell
    mine, base = _same_users(ours, theirs, cell.metric)
    both = int(np.count_nonzero(np.isfinite(mine) & np.isfinite(base)))
    if both == 0:
        return cell
    rng = generator(
        bakeoff.seed, "difference", model.data.dataset, model.data.split, model.model, cell.metric
    )
    interval = paired_interval(mine, base, level=LEVEL, rng=rng)
    difference = Difference(interval.mean, interval.low, interval.high, both)
    return replace(cell, difference=difference, mark=_mark(difference, cell.metric))


def _same_users(
    ours: PerUserScores, theirs: PerUserScores, metric: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    mine, base = ours.column(metric), theirs.column(metric)
    if np.array_equal(ours.users, theirs.users):
        return mine, base
    _, at_ours, at_theirs = np.intersect1d(ours.users, theirs.users, assume_unique=True, return_indices=True)
    return mine[at_ours], base[at_theirs]


def _mark(difference: Difference, metric: str) -> Mark:
    higher_is_better = parse(metric).metric.higher_is_better
    if higher_is_better is None or not (difference.low > 0 or difference.high < 0):
        return ""
    return "+" if (difference.low > 0) == higher_is_better else "-"


def _ranked(bakeoff: Bakeoff, rows: Sequence[LeaderboardRow]) -> Iterator[LeaderboardRow]:
    ascending = parse(bakeoff.primary).metric.higher_is_better is False

    def primary(row: LeaderboardRow) -> float:
        cell = row.cells.get(bakeoff.primary)
        return math.nan if cell is None else cell.mean

    ranked = [row for row in rows if math.isfinite(primary(row))]
    # Sorting is stable, so that equal models stay in config order.
    ranked.sort(key=lambda row: primary(row) if ascending else -primary(row))
    for row in ranked:
        # Equal means share a rank.
        yield replace(
            row, rank=1 + sum(_is_better(primary(other), primary(row), ascending) for other in ranked)
        )
    rest = [row for row in rows if not math.isfinite(primary(row))]
    yield from sorted(rest, key=lambda row: row.error is not None)


def _is_better(one: float, other: float, ascending: bool) -> bool:
    return one < other if ascending else one > other
