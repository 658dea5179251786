"""Trends of models over bake-offs: means with intervals, decisions, and regressions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from evalplugin.base.errors import DataError, EvalpluginError, did_you_mean
from evalplugin.base.libraries import pd, special
from evalplugin.base.text import escape_html
from evalplugin.comparison.compared import LEVEL
from evalplugin.execution.results import DataSplit
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.given import spec_of
from evalplugin.report.notebook import table_html
from evalplugin.report.plain import plain_text

ModelRole = Literal["champion", "promoted", "baseline", "challenger"]


@dataclass(frozen=True)
class Value:
    """One model's mean of one metric over its users, as it was logged; undefined numbers are NaN."""

    mean: float
    low: float = math.nan  # of the interval of the mean
    high: float = math.nan
    std: float = math.nan  # over users; NaN for a metric with one number for each model
    users: int = 0  # users with a value
    clusters: int | None = None  # of these users; None: they are independent
    design_effect: float = 1.0  # variance of the mean over the one that it had with independent users
    differ: bool = False  # whether other models of the bake-off had values for other users

    @property
    def variance(self) -> float:
        """The variance of the mean over users."""
        return self.design_effect * self.std**2 / self.users

    @property
    def units(self) -> int:
        """The number of independent units: of users, or of their clusters."""
        return self.users if self.clusters is None else self.clusters


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


@dataclass(frozen=True)
class Change:
    """The change of a model's mean since the bake-off before, with Welch's t interval.

    Users are assumed to be independent between bake-offs. Where many are the same, the interval is too wide, never too
    narrow, as the scores of one user are positively correlated.
    """

    since: str  # the bake-off before
    difference: float
    low: float
    high: float
    worse: bool  # the whole interval is on the worse side


@dataclass(frozen=True)
class Point:
    """One model in one bake-off, by the metric of the history."""

    bakeoff: PastBakeoff
    model: PastModel
    value: Value | None  # None: it failed, or was not scored by this metric
    role: ModelRole
    outcome: str | None  # of the decision on its dataset and split
    change: Change | None  # None: no value before it, or not comparable with it
    line: int  # from 0, one more where the model's type, parameters or settings differ from those before


@dataclass(frozen=True)
class History:
    """Bake-offs of one experiment by one metric, the oldest first: the result of ``evalplugin.history``.

    A notebook and ``print`` show it as a table of models by bake-off.
    """

    experiment: str
    metric: str  # canonical name
    higher_is_better: bool | None  # None: no better direction, or the metric of a plugin that is not loaded
    level: float  # of the intervals of changes
    bakeoffs: tuple[PastBakeoff, ...]
    points: tuple[Point, ...]  # by bake-off, then in the order of its config

    @property
    def trends(self) -> dict[tuple[str, str, str], list[Point]]:
        """The points of each dataset, split and model, the oldest first."""
        trends: dict[tuple[str, str, str], list[Point]] = {}
        for point in self.points:
            trends.setdefault(_key(point.model), []).append(point)
        return trends

    @property
    def worse(self) -> tuple[Point, ...]:
        """The points of the newest bake-off that got worse."""
        return tuple(p for p in self.points if p.bakeoff is self.bakeoffs[-1] and p.change and p.change.worse)

    def rows(self) -> list[dict[str, Any]]:
        """Return a plain mapping for each point; unknown values are None."""
        return [_row(self.metric, point) for point in self.points]

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each point, the oldest first; see ``rows``."""
        return pd.DataFrame(self.rows())

    def __repr__(self) -> str:
        from evalplugin.features.history.report import history_tables, worse_lines

        return plain_text(history_tables(self), worse_lines(self))

    def _repr_html_(self) -> str:
        from evalplugin.features.history.report import history_tables, worse_lines

        lines = (f"<div>{escape_html(line)}</div>" for line in worse_lines(self))
        return "".join([*map(table_html, history_tables(self)), *lines])


def history_of(experiment: str, bakeoffs: Sequence[PastBakeoff], metric: str | None = None) -> History:
    """Return the history of an experiment's bake-offs, in any order, by one metric; None: the newest one's primary.

    A model got worse where Welch's interval of the difference of its mean from the one in the bake-off before lies on
    the worse side of 0. Values are compared if type and parameters, definition of the metric, length of lists,
    candidates, threshold and type of split are the same; the data may differ, as a history is about fresh data.

    Raises:
        DataError: No bake-off, or none that was scored by the metric.
    """
    ordered = sorted(bakeoffs, key=lambda b: (b.at, b.id))
    if not ordered:
        raise DataError(f"the experiment {experiment!r} has no bake-offs")
    newest = ordered[-1]
    name, up = _resolve(newest.primary if metric is None else metric, newest.given)
    known = list(dict.fromkeys(n for b in ordered for m in b.models for n in m.values))
    if name not in known:
        near = did_you_mean(name, known, noun="there are")
        raise DataError(f"no bake-off of the experiment {experiment!r} was scored by {name!r}{near}")
    points: list[Point] = []
    before: dict[tuple[str, str, str], Point] = {}
    for bakeoff in ordered:
        for model in bakeoff.models:
            value = model.values.get(name)
            last = before.get(_key(model))
            change = None if last is None or value is None else _change(last, model, value, name, up)
            line = 0 if last is None else last.line + (_rules(last.model, name) != _rules(model, name))
            outcome = bakeoff.outcome if bakeoff.decided_on(DataSplit.of(model)) else None
            point = Point(bakeoff, model, value, _role(bakeoff, model), outcome, change, line)
            points.append(point)
            if value is not None:
                before[_key(model)] = point
    return History(experiment, name, up, LEVEL, tuple(ordered), tuple(points))


def _change(last: Point, model: PastModel, value: Value, metric: str, up: bool | None) -> Change | None:
    old = last.value
    assert old is not None
    if _rules(last.model, metric) != _rules(model, metric):
        return None
    # A single user has no spread, nor has a metric with one number for each model.
    if min(old.units, value.units) < 2 or math.isnan(old.std) or math.isnan(value.std):
        return None
    spreads = [mean.variance for mean in (old, value)]
    error = math.sqrt(sum(spreads))
    degrees = (
        sum(spreads) ** 2
        / sum(s**2 / (mean.units - 1) for s, mean in zip(spreads, (old, value), strict=True))
        if error
        else 1.0
    )
    difference = value.mean - old.mean
    margin = float(special.stdtrit(degrees, (1 + LEVEL) / 2)) * error
    low, high = difference - margin, difference + margin
    return Change(
        since=last.bakeoff.id,
        difference=difference,
        low=low,
        high=high,
        worse=up is not None and (high < 0 if up else low > 0),
    )


def _rules(model: PastModel, metric: str) -> tuple[str | None, str]:
    return model.definitions.get(metric), model.settings


def _role(bakeoff: PastBakeoff, model: PastModel) -> ModelRole:
    if bakeoff.decided_on(DataSplit.of(model)):
        if model.model == bakeoff.promoted:
            return "promoted"
        if model.model == bakeoff.champion:
            return "champion"
    return "baseline" if model.model == bakeoff.baseline else "challenger"


def _key(model: PastModel) -> tuple[str, str, str]:
    return model.dataset, model.split, model.model


def _resolve(metric: str, given: Mapping[str, MetricSpec]) -> tuple[str, bool | None]:
    """Return the canonical name of a metric, and whether higher is better; None where that is unknown."""
    try:
        spec = spec_of(metric, given)
    except EvalpluginError:  # perhaps of a plugin that is not loaded: logged under this very name
        return metric, None
    return spec.name, spec.metric.higher_is_better


def _row(metric: str, point: Point) -> dict[str, Any]:
    bakeoff, change = point.bakeoff, point.change
    value = point.value or Value(math.nan)
    return {
        "bakeoff": bakeoff.id,
        "at": bakeoff.at.isoformat(timespec="seconds"),
        "dataset": point.model.dataset,
        "split": point.model.split,
        "model": point.model.model,
        "role": point.role,
        "metric": metric,
        "mean": _known(value.mean),
        "low": _known(value.low),
        "high": _known(value.high),
        "users": value.users or None,
        "since": getattr(change, "since", None),
        "difference": getattr(change, "difference", None),
        "difference_low": getattr(change, "low", None),
        "difference_high": getattr(change, "high", None),
        "worse": getattr(change, "worse", None),
        "outcome": point.outcome,
        "run_id": point.model.run_id,
        "data": point.model.data,
    }


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number
