"""Scores of lists, and the metrics that are defined for lists."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pd
from evalplugin.base.seeding import generator
from evalplugin.comparison.statistics.intervals import Interval, distribution_interval, mean_interval
from evalplugin.metrics import MetricSpec, parse
from evalplugin.metrics.distribution import Distribution, Summary
from evalplugin.metrics.names import with_companions
from evalplugin.metrics.scores import Counts, PerUserScores, ScoreTotals


class ScoreRow(NamedTuple):
    """The mean of a metric over users, NaN where it is undefined."""

    metric: str
    mean: float
    low: float  # of the 95 % interval of the mean
    high: float
    users: int  # for whom it is defined
    undefined: int


@dataclass(frozen=True, eq=False, repr=False)
class ListScores:
    """Scores of lists from any system: ``.scores`` user by user, ``.notes`` on the input, ``.fold_means``."""

    source: PerUserScores | ScoreTotals
    table: Any = None  # of users' values, where they are kept elsewhere
    # Of ``evalplugin.score``: on ids of the input, if it was read at once, and on values that a log cannot tell.
    notes: tuple[str, ...] = ()
    fold_means: tuple[Mapping[str, float], ...] = ()  # the means of each fold, where there are several
    assumed: str | None = None  # how the propensities of a log are assumed; None: they are not

    def __repr__(self) -> str:
        means = ", ".join(f"{name}={mean:.4g}" for name, mean in self.means.items())
        return f"{type(self).__name__}({means})"

    @property
    def scores(self) -> PerUserScores:
        """The scores user by user.

        Raises:
            DataError: They are kept elsewhere.
        """
        if isinstance(self.source, ScoreTotals):
            raise DataError("the values of users are not in memory: they are in the table per_user")
        return self.source

    @cached_property
    def per_user(self) -> pd.DataFrame:
        """One row a user, by raw id ascending; one float64 column a metric, NaN where undefined."""
        return self.table if isinstance(self.source, ScoreTotals) else self.source.to_frame()

    @property
    def means(self) -> dict[str, float]:
        """Each metric's mean over the users it is defined for."""
        return self.source.means

    @property
    def counts(self) -> dict[str, Counts]:
        """For each metric the numbers of users for whom it is defined and undefined."""
        return self.source.counts

    @property
    def unlisted(self) -> int:
        """The number of users with a truth and without a list."""
        return self.source.unlisted

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """For each metric spread and quantiles."""
        if isinstance(self.source, ScoreTotals):
            return {name: values.summary for name, values in self.source.distributions.items()}
        return {name: Distribution.of(self.source.column(name)).summary for name in self.source.metrics}

    def interval(self, metric: str, *, level: float = 0.95, seed: int = 0) -> Interval:
        """Return the interval of a metric's mean over users."""
        rng, bounds = generator(seed, "interval", metric), parse(metric).metric.bounds
        if isinstance(self.source, ScoreTotals):
            return distribution_interval(
                self.source.distributions[metric], level=level, bounds=bounds, rng=rng
            )
        values, clusters = self.source.column(metric), self.source.units.codes
        return mean_interval(values, level=level, bounds=bounds, clusters=clusters, rng=rng)

    @property
    def rows(self) -> list[ScoreRow]:
        """A row for each metric, those of all lists together last."""
        rows = []
        for name, mean in self.means.items():
            if name in self.counts:
                interval, counts = self.interval(name), self.counts[name]
                rows.append(ScoreRow(name, mean, interval.low, interval.high, counts.users, counts.undefined))
            else:
                rows.append(ScoreRow(name, mean, math.nan, math.nan, len(self.scores.users), 0))
        return rows

    def to_frame(self) -> pd.DataFrame:
        """Return ``rows`` as a table: ``metric``, ``mean``, ``low``, ``high``, ``users``, ``undefined``."""
        return pd.DataFrame(self.rows, columns=ScoreRow._fields)


def specs_of(metrics: Sequence[str | MetricSpec]) -> list[MetricSpec]:
    """Return the metrics of a list of names, and their companions.

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
        if "predictions" in spec.needs:
            raise DataError(
                f"metric {spec.name} needs the ratings that a model predicts for the truth; lists have none"
            )
    return with_companions(specs)
