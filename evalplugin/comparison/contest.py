"""Models to compare: numbers of the same units by the same metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.places import DataSplit
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.statistics.clusters import RELIABLE_FROM, cluster_spread, clusters_in_order
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.clusters import ClusterMoments
from evalplugin.metrics.given import spec_of
from evalplugin.metrics.scores import Units
from evalplugin.segments import Segmentation

Pairing = Literal["baseline", "all"]


@dataclass(frozen=True, eq=False)
class Contest:
    """Models with scores of the same units by the same metrics, in the order in which they were given."""

    name: str  # of the bake-off, the experiment or the table
    dataset: str  # or the name of the table
    split: str  # may be empty
    models: tuple[ComparedModel, ...]
    metrics: tuple[str, ...]  # canonical names, the primary one first
    baseline: str | None
    seed: int
    digest: str  # of what was scored
    segments: tuple[Segmentation, ...] = ()  # groups of the units
    notes: tuple[str, ...] = ()  # sentences on choices made and results left out
    given: Mapping[str, MetricSpec] = field(default_factory=dict)  # metrics of a table of scores, by name
    assumed: str | None = None  # how propensities of a log of decisions are assumed; None: they are not

    @property
    def pairing(self) -> Pairing:
        """The models that are compared unless others are asked for: each with the baseline, if there is one."""
        return "all" if self.baseline is None else "baseline"

    @property
    def place(self) -> DataSplit:
        """The dataset and the split."""
        return DataSplit.of(self)

    @property
    def primary(self) -> str:
        """The metric that ranks the models."""
        return self.metrics[0]

    @cached_property
    def units(self) -> Units:
        """What any of the models has scores of; where all have the same in one order, those of the first itself."""
        every = [model.scores.units for model in self.models if model.scores is not None]
        if not every:
            return Units(np.empty(0, dtype=np.int64))
        if all(np.array_equal(own.ids, every[0].ids) for own in every[1:]):
            return every[0]
        return replace(every[0], ids=np.unique(np.concatenate([own.ids for own in every])))

    @cached_property
    def rows(self) -> dict[str, slice | npt.NDArray[np.intp]]:
        """The positions among ``units`` of those that each model has scores of; a model that failed has none."""
        ids = self.units.ids
        users = {model.model: model.scores.users for model in self.models if model.scores is not None}
        return {
            name: slice(None) if np.array_equal(ids, own) else np.searchsorted(ids, own)
            for name, own in users.items()
        }

    def values(self, models: Sequence[ComparedModel], metric: str) -> Floats:
        """Return the values of some models by a metric: float64 (U, M), NaN for those of ``units`` without one."""
        values = np.full((len(self.units), len(models)), np.nan)
        for column, model in enumerate(models):
            if model.scores is not None and metric in model.scores.metrics:
                values[self.rows[model.model], column] = model.scores.column(metric)
        return values

    @property
    def few_clusters(self) -> str:
        """The warning that a few large clusters decide the means; empty where they do not."""
        codes = None if self.units.codes is None else clusters_in_order(self.units.codes)
        if codes is None:
            return ""
        spread = cluster_spread(ClusterMoments.of(np.zeros(len(codes)), codes))
        number, n = spread.effective, spread.clusters
        if number >= RELIABLE_FROM or 2 * number >= n:
            return ""
        nouns, units = self.units.independents, self.units.nouns
        return (
            f"a few of {n:,} {nouns} have most {units}: means vary like those of {number:.0f} {nouns} of one size; "
            f"below {RELIABLE_FROM}, fewer 95 % intervals hold the true mean, and more tests err"
        )

    def spec(self, metric: str) -> MetricSpec:
        """Return a metric by its name in ``metrics``.

        Raises:
            ParameterError, UnknownNameError: A name that means no metric.
        """
        return spec_of(metric, self.given)


def with_choice(contest: Contest, *, baseline: str | None = None, primary: str | None = None) -> Contest:
    """Return a contest with another baseline, another primary metric, or both; None: unchanged.

    Raises:
        DataError: No such model or metric.
    """
    models = [c.model for c in contest.models]
    if baseline is not None and baseline not in models:
        near = did_you_mean(baseline, models, noun="there are")
        raise DataError(f"no model is called {baseline!r} to be the baseline{near}")
    metric = contest.primary if primary is None else contest.spec(primary).name
    if metric not in contest.metrics:
        near = did_you_mean(metric, contest.metrics, noun="there are")
        raise DataError(f"there is no metric {metric!r} to rank by{near}")
    return replace(
        contest,
        baseline=baseline or contest.baseline,
        metrics=(metric, *(m for m in contest.metrics if m != metric)),
    )
