"""Metrics: definitions by family, the grammar of their names, and the scoring context that they read."""

from __future__ import annotations

from evalplugin.metrics import (  # noqa: F401 - registers the metrics
    average_precision,
    catalogue,
    categories,
    correlation,
    gain,
    novelty_diversity,
    precision_recall,
    ratings,
    separation,
)
from evalplugin.metrics.base import (
    METRICS,
    Metric,
    OverallMetric,
    UserMetric,
    is_overall,
    metric,
)
from evalplugin.metrics.blocks import Blocks
from evalplugin.metrics.context import RankedItems, ScoringContext
from evalplugin.metrics.example import evaluate
from evalplugin.metrics.names import MetricSpec, definitions_hash, parse
from evalplugin.metrics.train_data import TrainData

__all__ = [
    "METRICS",
    "Blocks",
    "Metric",
    "MetricSpec",
    "OverallMetric",
    "RankedItems",
    "ScoringContext",
    "TrainData",
    "UserMetric",
    "definitions_hash",
    "evaluate",
    "is_overall",
    "metric",
    "parse",
]
