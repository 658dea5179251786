"""The diagnostics of off-policy values: of each model the weights of its decisions, and its value by clip bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from evalplugin.base.remembering import remembered
from evalplugin.base.seeding import generator
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.doubt import (
    Doubt,
    Weights,
    companions_of,
    doubts_of,
    estimator_of,
    values_among,
    weights_of,
)
from evalplugin.comparison.statistics.intervals import mean_interval
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.base import UserMetric
from evalplugin.metrics.scores import PerUserScores

_BOUNDS = 8  # of the weights, from 1 to the largest one


@dataclass(frozen=True)
class ClippedValue:
    """A value with weights of at most a bound, and its interval."""

    bound: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelDiagnostics:
    """What the log tells of one model's value."""

    model: str
    value: float
    low: float  # of its interval
    high: float
    weights: Weights
    doubt: Doubt | None
    clipped: tuple[ClippedValue, ...]  # by bound, ascending; empty where the estimator has no weight to clip


@dataclass(frozen=True)
class Diagnostics:
    """The diagnostics of the models of one comparison by one value."""

    dataset: str
    split: str
    metric: str  # canonical name
    models: tuple[ModelDiagnostics, ...]  # best first


@remembered
def diagnostics_of(comparison: Comparison) -> tuple[Diagnostics, ...]:
    """Return the diagnostics of each value that was asked for, the primary one first."""
    values = values_among(map(comparison.contest.spec, comparison.contest.metrics))
    found = (_diagnostics(comparison, spec) for spec in values)
    return tuple(own for own in found if own.models)


def _diagnostics(comparison: Comparison, spec: MetricSpec) -> Diagnostics:
    contest, metric = comparison.contest, spec.name
    models, doubts = [], doubts_of(contest, metric)
    for row in comparison.scored:
        # Those of the contest: a comparison's own have values of shared decisions alone.
        scores = next(model.scores for model in contest.models if model.model == row.model)
        if scores is None or metric not in row.cells or (weights := weights_of(scores, spec)) is None:
            continue
        cell = row.cells[metric]
        clipped = tuple(clipped_values(scores, spec, level=comparison.level))
        models.append(
            ModelDiagnostics(
                row.model, cell.mean, cell.low, cell.high, weights, doubts.get(row.model), clipped
            )
        )
    return Diagnostics(contest.dataset, contest.split, metric, tuple(models))


def clipped_values(scores: PerUserScores, spec: MetricSpec, *, level: float) -> Iterator[ClippedValue]:
    """Yield a value as the weights of decisions are bounded, ever less; nothing where all are at most 1.

    Only of ips, clipped and snips, whose values are weighted rewards of whole decisions.

    Args:
        scores: With the metrics that accompany the value.
        spec: The value.
        level: Of the intervals.
    """
    names, estimator = companions_of(spec), estimator_of(spec)
    needed = names.get("ips", spec.name), names.get("weight", "")
    if estimator not in ("ips", "clipped", "snips") or not {*needed} <= {*scores.metrics}:
        return
    value, weight = map(scores.column, needed)
    defined = np.isfinite(value)
    value, weight = value[defined], weight[defined]
    codes = None if scores.units.codes is None else scores.units.codes[defined]
    if not len(weight) or weight.max() <= 1:
        return
    used = np.minimum(weight, getattr(spec.metric, "bound")) if estimator == "clipped" else weight  # noqa: B009
    reward = np.divide(value, used, out=np.zeros(len(value)), where=used > 0)
    for bound in np.geomspace(1, weight.max(), _BOUNDS).tolist():
        bounded = np.minimum(weight, bound)
        values = bounded * reward
        if estimator == "snips":
            assert isinstance(spec.metric, UserMetric)
            values = spec.metric.derive(values, bounded)
        of_bound = mean_interval(values, level=level, method="t", clusters=codes, rng=generator(0, "clip"))
        yield ClippedValue(bound, of_bound.mean, of_bound.low, of_bound.high)
