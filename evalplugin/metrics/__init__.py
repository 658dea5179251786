"""Metrics by name: the grammar, the context they are functions of, and one small definition each."""

from __future__ import annotations

from evalplugin.metrics import binary, catalogue, graded, ranked, ratings  # register the metrics
from evalplugin.metrics.base import CONVENTIONS_VERSION, METRICS, Metric, OverallMetric, UserMetric, metric
from evalplugin.metrics.blocks import Blocks
from evalplugin.metrics.context import Ranked, ScoringContext
from evalplugin.metrics.example import evaluate
from evalplugin.metrics.names import MetricSpec, definitions_hash, parse

__all__ = [
    "CONVENTIONS_VERSION",
    "METRICS",
    "Blocks",
    "Metric",
    "MetricSpec",
    "OverallMetric",
    "Ranked",
    "ScoringContext",
    "UserMetric",
    "binary",
    "catalogue",
    "definitions_hash",
    "evaluate",
    "graded",
    "metric",
    "parse",
    "ranked",
    "ratings",
]
