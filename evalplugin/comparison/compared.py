"""Values of a comparison: models with their ranks, means with intervals, paired differences and groups of users."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.clusters import cluster_means
from evalplugin.comparison.statistics.intervals import Interval, mean_intervals
from evalplugin.comparison.statistics.paired import Paired
from evalplugin.comparison.statistics.seeds import SeedSpread, interval_with_seeds, seed_spread
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.distribution import Distribution, Summary
from evalplugin.metrics.scores import PerUserScores

LEVEL = 0.95  # default of every interval

Mark = Literal["+", "-", ""]


@dataclass(frozen=True)
class Pair:
    """One model against another by one metric, over the users for whom both are defined.

    P-values are adjusted over the family of comparisons: all pairs of models of this comparison, by this metric.

    ``mark``: ``+`` where the model is better than the other at the comparison's level after Holm's correction,
    ``-`` where it is worse, empty where neither is shown or the metric has no better direction.
    """

    metric: str  # canonical name
    model: str
    against: str
    direction: int  # 1 where higher values of the metric are better, -1 where lower ones are, 0 where neither
    paired: Paired
    p: float  # of the paired permutation test, two-sided
    p_holm: float
    p_bh: float
    mark: Mark
    # By how much the models may differ if only their seeds do, one fit of each; NaN without several seeds.
    seed_range: float = math.nan

    @property
    def is_within_seeds(self) -> bool:
        """Whether the difference is within the range that other seeds give."""
        return abs(self.paired.interval.mean) < self.seed_range

    @property
    def better(self) -> float:
        """Share of users for whom the model is better; NaN where the metric has no better direction."""
        return self._share(self.paired.above, self.paired.below)

    @property
    def worse(self) -> float:
        """Share of users for whom the model is worse; NaN where the metric has no better direction."""
        return self._share(self.paired.below, self.paired.above)

    def _share(self, if_higher: float, if_lower: float) -> float:
        return {1: if_higher, -1: if_lower, 0: math.nan}[self.direction]


@dataclass(frozen=True)
class Cell:
    """One model's value of one metric; undefined numbers are NaN."""

    metric: str  # canonical name
    mean: float
    low: float = math.nan  # of the interval of the mean; NaN for a metric with one number for each model
    high: float = math.nan
    method: str = ""  # of the interval: bootstrap, t
    rank: int | None = None  # from 1, by this metric; None: not ranked
    users: int = 0  # users that the mean is over: those with a value of every ranked model
    has: int = 0  # users with a value of this model
    own_mean: float = math.nan  # over all of these
    lacks: int = 0  # users with a value of another model alone
    undefined: int = 0  # users of this model without a value
    summary: Summary | None = None  # of the users' values; None for a metric with one number for each model
    difference: Pair | None = None  # against the baseline
    seeds: SeedSpread | None = None  # of the mean; None: the model was fitted once
    seed_share: float = math.nan  # the seeds' share of the variance of the mean over users and seeds
    clusters: int | None = None  # of users, such as sessions of queries; None: users are independent
    design_effect: float = 1.0  # variance of the mean over the one that it had with independent users
    # The mean over clusters, in which each counts the same; its interval knows no other seeds. None: no clusters.
    over_clusters: Interval | None = None

    @property
    def mark(self) -> Mark:
        """The mark of the difference from the baseline; see ``Pair``."""
        return "" if self.difference is None else self.difference.mark


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """One model's scores, and its rank among the models that it is compared with.

    The models of a ``Contest`` have scores only; ``compare`` adds ``rank``, ``is_baseline``, ``cells``.
    """

    model: str
    scores: PerUserScores | None  # None: the model failed
    fold_means: tuple[Mapping[str, float], ...] = ()
    seed_means: tuple[Mapping[str, float], ...] = ()  # empty: the model was fitted once
    error: str | None = None  # the exception of a failed model, in one line
    run_id: str | None = None  # of the run that the scores were read from
    rank: int | None = None  # from 1, by the primary metric; None: not ranked
    is_baseline: bool = False
    # By canonical name, the primary metric first; empty for a model that failed.
    cells: Mapping[str, Cell] = field(default_factory=dict, repr=False)

    def mean(self, metric: str) -> float:
        """Return the mean of a metric; NaN for a model without values."""
        return self.cells[metric].mean if metric in self.cells else math.nan

    def means_of_folds(self, metric: str) -> list[float]:
        """Return the mean of each fold; NaN where a fold has none."""
        return [means.get(metric, math.nan) for means in self.fold_means]

    def has_values(self, metric: str) -> bool:
        """Return whether any user has a score; a metric of ratings has none where a model predicts no ratings."""
        scores = self.scores
        return scores is not None and metric in scores.metrics and not np.isnan(scores.column(metric)).all()

    def spread_of_seeds(self, metric: str) -> SeedSpread | None:
        """Return the spread of a metric's mean from seed to seed; None where the model was fitted once."""
        return _spread(self.seed_means, metric)


@dataclass(frozen=True)
class SegmentCell:
    """One model's mean of one metric over one group of users, and its difference from the baseline there."""

    segment: str  # e.g. activity
    label: str  # e.g. "1-20 interactions"
    model: str
    metric: str
    interval: Interval  # of the mean
    difference: Pair | None  # against the baseline; corrected over all models and groups of the segmentation


def shared_values(values: Floats) -> Floats:
    """Return the values of some models (U, M) that they are ranked by; NaN for others.

    These are of the units with a value of every ranked model. Ranked is a model with values for at least half as many
    units as the model that has most.
    """
    has = ~np.isnan(values)
    counts = has.sum(axis=0)
    ranked = (counts > 0) & (2 * counts >= counts.max(initial=0))
    shared = has[:, ranked].all(axis=1) & ranked.any()
    return np.where(shared[:, None] & ranked, values, np.nan)


def metric_cells(
    scores: PerUserScores | None,
    metrics: Sequence[MetricSpec],
    seed: int,
    *,
    seed_means: Sequence[Mapping[str, float]] = (),
    level: float = LEVEL,
) -> dict[str, Cell]:
    """Return a model's value of each metric; empty for a model that failed.

    Args:
        scores: None: the model failed.
        metrics: In the order of the result.
        seed: Of the random numbers.
        seed_means: Means of each seed, whose spread the intervals take in; empty: the model was fitted once.
        level: Of the intervals.
    """
    if scores is None:
        return {}
    specs = {spec.name: spec for spec in metrics}
    own = [m for m in specs if m in scores.metrics]
    values = np.stack([scores.column(m) for m in own], axis=1) if own else np.empty((len(scores.users), 0))
    # One random stream for all, so that no number depends on the names of models and data or on other metrics.
    bounds = [specs[m].metric.bounds for m in own]
    rng = generator(seed, "interval")
    intervals = mean_intervals(values, level=level, bounds=bounds, clusters=scores.units.codes, rng=rng)
    of_clusters: list[Interval | None] = [None] * len(own)
    if own and (clusters := scores.units.codes) is not None:
        means = np.stack([cluster_means(column, clusters) for column in values.T], axis=1)
        of_clusters = [*mean_intervals(means, level=level, bounds=bounds, rng=rng)]
    cells = {
        m: _cell(m, values[:, i], interval, _spread(seed_means, m), of_clusters[i])
        for i, (m, interval) in enumerate(zip(own, intervals, strict=True))
    }
    cells |= {
        m: Cell(m, float(value), users=len(scores.users), seeds=_spread(seed_means, m))
        for m, value in scores.overall.items()
    }
    return {m: cells[m] for m in specs if m in cells}


def _spread(seed_means: Sequence[Mapping[str, float]], metric: str) -> SeedSpread | None:
    return seed_spread([means.get(metric, math.nan) for means in seed_means])


def _cell(
    metric: str,
    values: npt.NDArray[np.float64],
    interval: Interval,
    seeds: SeedSpread | None,
    over_clusters: Interval | None,
) -> Cell:
    summary = Distribution.of(values).summary
    seed_share = math.nan
    if seeds is not None:
        interval = interval_with_seeds(interval, [seeds])
        of_seeds, of_users = seeds.error**2, interval.design_effect * summary.std**2 / max(1, summary.n)
        if of_seeds + of_users > 0:
            seed_share = of_seeds / (of_seeds + of_users)
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
        seed_share=seed_share,
        clusters=interval.clusters,
        design_effect=interval.design_effect,
        over_clusters=None if interval.clusters is None else over_clusters,
    )
