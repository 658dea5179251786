"""A model's value of each metric, with the interval over users and seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from evalplugin.base.seeding import generator
from evalplugin.comparison.compared import Cell
from evalplugin.comparison.statistics import (
    Interval,
    SeedSpread,
    interval_with_seeds,
    mean_intervals,
    seed_spread,
)
from evalplugin.metrics import parse
from evalplugin.metrics.distribution import Summary, summarise
from evalplugin.metrics.scores import PerUserScores

__all__ = ["LEVEL", "metric_cells"]

LEVEL = 0.95  # default of every interval


def metric_cells(
    scores: PerUserScores | None,
    metrics: Sequence[str],
    seed: int,
    *,
    seed_means: Sequence[Mapping[str, float]] = (),
    level: float = LEVEL,
) -> dict[str, Cell]:
    """Return a model's value of each metric, in the order of ``metrics``; empty for a model that failed.

    The intervals take in what other seeds give, if there are ``seed_means``.
    """
    if scores is None:
        return {}
    own = [m for m in metrics if m in scores.metrics]
    values = np.stack([scores.column(m) for m in own], axis=1) if own else np.empty((len(scores.users), 0))
    # One random stream for all, so that no number depends on the names of models and data or on other metrics.
    bounds = [parse(m).metric.bounds for m in own]
    intervals = mean_intervals(values, level=level, bounds=bounds, rng=generator(seed, "interval"))
    cells = {
        m: _cell(m, values[:, i], interval, _spread(seed_means, m))
        for i, (m, interval) in enumerate(zip(own, intervals, strict=True))
    }
    cells |= {
        m: Cell(m, float(value), users=len(scores.users), seeds=_spread(seed_means, m))
        for m, value in scores.overall.items()
    }
    return {m: cells[m] for m in metrics if m in cells}


def _spread(seed_means: Sequence[Mapping[str, float]], metric: str) -> SeedSpread | None:
    return seed_spread([means.get(metric, math.nan) for means in seed_means])


def _cell(metric: str, values: npt.NDArray[np.float64], interval: Interval, seeds: SeedSpread | None) -> Cell:
    summary = summarise(values)
    if seeds is not None:
        interval = interval_with_seeds(interval, [seeds])
    return Cell(
        metric,
        mean=summary.mean,
        low=interval.low,
        high=interval.high,
        method=interval.method,
        users=summary.n,
        undefined=summary.undefined,
        summary=summary,
        seeds=seeds,
        seed_share=math.nan if seeds is None else _seed_share(seeds, summary),
    )


def _seed_share(seeds: SeedSpread, summary: Summary) -> float:
    """Return the seeds' share of the variance of a mean over users and seeds; NaN without any."""
    of_seeds, of_users = seeds.error**2, summary.std**2 / max(1, summary.n)
    return of_seeds / (of_seeds + of_users) if of_seeds + of_users > 0 else math.nan
