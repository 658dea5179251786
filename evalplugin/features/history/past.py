"""Bake-offs of the past as values: their models' means as they were logged, and the decisions of their gates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from evalplugin.base.places import DataSplit
from evalplugin.metrics import MetricSpec


@dataclass(frozen=True)
class Value:
    """One model's mean of one metric over its users, as it was logged; undefined numbers are NaN."""

    mean: float
    low: float = math.nan  # of the interval of the mean
    high: float = math.nan
    users: int = 0  # users with a value
    differ: bool = False  # whether other models of the bake-off had values for other users


@dataclass(frozen=True)
class PastModel:
    """One model on one dataset under one split in one bake-off, by its logged means; without ``values`` it failed."""

    model: str
    dataset: str
    split: str
    run_id: str
    values: Mapping[str, Value]  # by canonical name of the metric
    definitions: Mapping[str, str]  # hash of each metric's definition, by canonical name
    settings: str  # all else that must be the same for two values to be comparable
    data: str  # digest of the test data


@dataclass(frozen=True)
class PastBakeoff:
    """One bake-off of the past, and the decision of its gate, if it had one."""

    id: str
    at: datetime  # when it started, in UTC
    primary: str  # canonical name
    baseline: str | None
    models: tuple[PastModel, ...] = field(repr=False)
    outcome: str | None = None  # promote, keep, cannot_tell or refuse
    champion: str | None = None  # the model that the others had to beat
    promoted: str | None = None  # the model that beat it
    unregistered: bool = False  # whether the promoted model could not be registered
    decided: DataSplit | None = None  # dataset and split of the decision; None: not logged
    given: Mapping[str, MetricSpec] = field(default_factory=dict)  # metrics of a table of scores, by name

    def decided_on(self, place: DataSplit) -> bool:
        """Return whether the decision was on a dataset and split; if not logged: whether there are no others."""
        if self.decided is not None:
            return self.decided == place
        return {DataSplit.of(model) for model in self.models} == {place}
