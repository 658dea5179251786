"""Scores of lists, and the metrics that are defined for lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError
from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics import Interval, mean_interval
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.distribution import Summary, summarise
from evalplugin.metrics.scores import Counts, PerUserScores

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ListScores", "specs_of"]


@dataclass(frozen=True, eq=False)
class ListScores:
    """Scores of lists from any system: ``per_user``, ``means``, ``counts``, and the spread of each metric."""

    scores: PerUserScores

    @cached_property
    def per_user(self) -> pd.DataFrame:
        """One row a user, indexed by raw id, ascending; one float64 column a metric, NaN where undefined."""
        return self.scores.to_frame()

    @property
    def means(self) -> dict[str, float]:
        """Each metric's mean over the users it is defined for; metrics of all lists together unchanged."""
        return self.scores.means

    @property
    def counts(self) -> dict[str, Counts]:
        """For each metric with a value a user: the numbers of users for whom it is defined and undefined."""
        return self.scores.counts

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """For each metric with a value a user: spread and quantiles."""
        return {name: summarise(self.scores.column(name)) for name in self.scores.metrics}

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> Interval:
        """Return the interval of a metric's mean over users: the same for the same scores and seed."""
        return mean_interval(self.scores.column(metric), level=level, rng=generator(seed, "interval", metric))


def specs_of(metrics: Sequence[str | MetricSpec]) -> list[MetricSpec]:
    """Return the metrics of a list of names.

    Raises:
        DataError: The list is empty, or a metric needs the ratings a model predicts.
        ParameterError, UnknownNameError: A name that means no metric.
    """
    if isinstance(metrics, str):
        raise DataError(f"metrics must be a list of names such as ['ndcg@10'], not the text {metrics!r}")
    if metrics is None or not all(isinstance(metric, str | MetricSpec) for metric in metrics):
        raise DataError(f"metrics must be a list of names such as ['ndcg@10'], not {metrics!r}")
    specs = [parse(metric) if isinstance(metric, str) else metric for metric in metrics]
    if not specs:
        raise DataError("no metric is asked for, such as 'ndcg@10'")
    for spec in specs:
        if "predictions" in spec.metric.needs:
            raise DataError(
                f"metric {spec.name} needs the ratings that a model predicts for the truth; lists have none"
            )
    return specs
