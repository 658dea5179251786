"""The bake-offs of an experiment by one metric: means with intervals, roles and decisions, as rows and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evalplugin.base.errors import DataError, EvalpluginError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.base.numbers import UNDEFINED, number, span
from evalplugin.base.places import DataSplit
from evalplugin.comparison.compared import LEVEL
from evalplugin.features.history.past import PastBakeoff, PastModel, Value
from evalplugin.features.words import outcome_words
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.given import spec_of
from evalplugin.report.render.html import table_html
from evalplugin.report.render.text import plain_text
from evalplugin.report.sentences.statistics import small_line
from evalplugin.report.table import Table, TableCell, numbers, with_shared_footnotes, words

ModelRole = Literal["champion", "promoted", "baseline", "challenger"]

PROMOTED = "★ promoted then"
_SIGNS: dict[ModelRole, str] = {"promoted": " ★", "champion": " ☆", "baseline": "", "challenger": ""}


@dataclass(frozen=True)
class Point:
    """One model in one bake-off, by the metric of the history."""

    bakeoff: PastBakeoff
    model: PastModel
    value: Value | None  # None: it failed, or was not scored by this metric
    role: ModelRole
    outcome: str | None  # of the decision on its dataset and split
    line: int  # from 0, one more where the model's type, parameters or settings differ from those before

    @property
    def place(self) -> DataSplit:
        """The dataset and the split."""
        return DataSplit.of(self.model)


@dataclass(frozen=True)
class History:
    """Bake-offs of one experiment by one metric, the oldest first."""

    experiment: str
    metric: str  # canonical name
    higher_is_better: bool | None  # None: no better direction, or the metric of a plugin that is not loaded
    bakeoffs: tuple[PastBakeoff, ...]
    points: tuple[Point, ...]  # by bake-off, then in the order of its config

    @property
    def places(self) -> tuple[DataSplit, ...]:
        """Every dataset with its split, in the order in which they were logged."""
        return tuple(dict.fromkeys(point.place for point in self.points))

    @property
    def trends(self) -> dict[tuple[str, str, str], list[Point]]:
        """The points of each dataset, split and model, the oldest first."""
        trends: dict[tuple[str, str, str], list[Point]] = {}
        for point in self.points:
            trends.setdefault(_key(point.model), []).append(point)
        return trends

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each point, the oldest first."""
        rows = [_row(self.metric, point) for point in self.points]
        return pd.DataFrame(rows).astype({"users": "Int64"})

    def tables(self) -> list[Table]:
        """Return a table for each dataset and split, the model with the best newest value first.

        The first columns are the bake-off and, where there was a gate, its decision. The last table has the footnotes.
        """
        return with_shared_footnotes([_table(self, place) for place in self.places])

    def __repr__(self) -> str:
        return plain_text(self.tables())

    def _repr_html_(self) -> str:
        return "".join(map(table_html, self.tables()))


def history_of(experiment: str, bakeoffs: Sequence[PastBakeoff], metric: str | None = None) -> History:
    """Return the history of an experiment's bake-offs, in any order, by one metric; None: the newest one's primary.

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
            line = 0 if last is None else last.line + (_rules(last.model, name) != _rules(model, name))
            outcome = bakeoff.outcome if bakeoff.decided_on(DataSplit.of(model)) else None
            point = Point(bakeoff, model, value, _role(bakeoff, model), outcome, line)
            points.append(point)
            if value is not None:
                before[_key(model)] = point
    return History(experiment, name, up, tuple(ordered), tuple(points))


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
    bakeoff = point.bakeoff
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
        "outcome": point.outcome,
        "run_id": point.model.run_id,
        "data": point.model.data,
    }


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _table(history: History, place: DataSplit) -> Table:
    trends = {m: t for (d, s, m), t in history.trends.items() if (d, s) == place}
    names = sorted(trends, key=lambda name: _newest(trends[name], history.higher_is_better))
    gated = any(point.outcome for points in trends.values() for point in points)
    at = {name: {point.bakeoff.id: point for point in trends[name]} for name in names}
    rows = []
    for bakeoff in history.bakeoffs:
        points = [at[name].get(bakeoff.id) for name in names]
        if present := [point for point in points if point is not None]:
            head = TableCell(bakeoff.id, f"{bakeoff.at:%Y-%m-%d %H:%M} UTC")
            rows.append((head, *([_decided(present[0])] if gated else []), *map(_cell, points)))
    columns = (*words("bake-off", *(["decision"] if gated else [])), *numbers(*names))
    title = f"{history.experiment}: {history.metric} on {place}"
    return Table(title, columns, tuple(rows), footnotes=tuple(_footnotes(history)))


def _decided(point: Point) -> TableCell:
    return TableCell(
        outcome_words(point.outcome or ""),
        "not registered" if point.outcome and point.bakeoff.unregistered else "",
    )


def _cell(point: Point | None) -> TableCell:
    if point is None:
        return TableCell("")
    if point.value is None:
        return TableCell(UNDEFINED if point.model.values else "failed")
    value = point.value
    return TableCell(f"{number(value.mean)}{_SIGNS[point.role]}", span(value.low, value.high))


def _footnotes(history: History) -> Iterator[str]:
    known = [p for p in history.points if p.value is not None]
    if any(p.value is not None and not math.isnan(p.value.low) for p in known):
        yield small_line(LEVEL)
    if any(p.value is not None and p.value.differ for p in known):
        yield "Means are over each model's own users, who differ; compare ranks by those that all models have."
    roles = {p.role for p in known}
    signs: dict[ModelRole, str] = {"champion": "☆ champion then", "promoted": PROMOTED}
    if shown := [text for role, text in signs.items() if role in roles]:
        yield f"{', '.join(shown)}."


def _newest(points: Sequence[Point], up: bool | None) -> float:
    """Return the sort key of a model: by its newest value, the best first."""
    value = next((p.value.mean for p in reversed(points) if p.value is not None), math.nan)
    if math.isnan(value):
        return math.inf
    return value if up is False else -value
