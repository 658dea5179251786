"""The diagnostics of off-policy values: of each model the weights of its decisions, and its value by clip bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalplugin.base.remembering import remembered
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
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.metrics.scores import PerUserScores

BOUNDS = (1, 2, 5, 10, 50)  # of the weights


@dataclass(frozen=True)
class ModelDiagnostics:
    """What the log tells of one model's value."""

    model: str
    value: float
    low: float  # of its interval
    high: float
    weights: Weights
    doubt: Doubt | None
    clipped: tuple[float, ...]  # the value by ``BOUNDS``


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
    contest, doubts = comparison.contest, doubts_of(comparison.contest, spec.name)
    # A comparison's own scores are those of shared decisions alone.
    scores = {row.model: row.scores for row in contest.models if row.scores is not None}
    models = tuple(
        ModelDiagnostics(
            row.model, cell.mean, cell.low, cell.high, weights, doubts.get(row.model),
            clipped_means(scores[row.model], spec),
        )
        for row in comparison.scored
        if (cell := row.cells.get(spec.name)) and (weights := weights_of(scores[row.model], spec))
    )  # fmt: skip
    return Diagnostics(contest.dataset, contest.split, spec.name, models)


def clipped_means(scores: PerUserScores, spec: MetricSpec) -> tuple[float, ...]:
    """Return a value with weights of at most each of ``BOUNDS``.

    Empty for estimators other than ips, clipped and snips, whose values are weighted rewards of whole decisions.

    Args:
        scores: With the metrics that accompany the value.
        spec: The value.
    """
    names, estimator = companions_of(spec), estimator_of(spec)
    needed = names.get("ips", spec.name), names.get("weight", "")
    if estimator not in ("ips", "clipped", "snips") or not {*needed} <= {*scores.metrics}:
        return ()
    value, weight = map(scores.column, needed)
    used = np.minimum(weight, getattr(spec.metric, "bound")) if estimator == "clipped" else weight  # noqa: B009
    reward = np.divide(value, used, out=np.zeros(len(value)), where=used > 0)
    means = []
    for bound in BOUNDS:
        bounded = np.minimum(weight, bound)
        divisor = mean_of_defined(bounded) if estimator == "snips" else 1.0
        means.append(mean_of_defined(bounded * reward) / divisor if divisor else np.nan)
    return tuple(means)
