"""Metrics: definitions by family, the grammar of their names, and the scoring context that they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalplugin.base.libraries import imported_names
from evalplugin.metrics import (  # noqa: F401 - registers the metrics
    average_precision,
    catalogue,
    categories,
    correlation,
    gain,
    item_groups,
    judged_pairs,
    novelty_diversity,
    off_policy,
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
from evalplugin.metrics.context import RankedItems, ScoringContext
from evalplugin.metrics.names import MetricSpec, definitions_hash, parse
from evalplugin.metrics.train_data import TrainData

if TYPE_CHECKING:
    from evalplugin.metrics.blocks import Blocks as Blocks
    from evalplugin.metrics.example import evaluate as evaluate

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

# These need models and data, which the definitions do not.
__getattr__ = imported_names(
    __name__, {"evalplugin.metrics.blocks": ("Blocks",), "evalplugin.metrics.example": ("evaluate",)}
)
