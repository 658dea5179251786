"""Words of reports: headings of metrics, and pronouns of units."""

from __future__ import annotations

from evalplugin.data.queries import Unit
from evalplugin.metrics import MetricSpec


def whom(unit: Unit) -> str:
    """Return the pronoun of users or queries: for whom, for which."""
    return "whom" if unit == "user" else "which"


def one_by_one(unit: Unit) -> str:
    """Return how models are paired: user by user, query by query."""
    return f"{unit} by {unit}"


def heading(metric: MetricSpec) -> str:
    """Return a metric's name as a heading, with its unit if it has one."""
    return " ".join(filter(None, (metric.name, metric.metric.unit)))


def better_words(metric: MetricSpec) -> str:
    """Return "higher is better" or "lower is better"; empty for a metric without a better direction."""
    return {1: "higher is better", -1: "lower is better", 0: ""}[metric.direction]
