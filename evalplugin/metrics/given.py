"""Metrics whose values are given, in a table of scores: name, better direction and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import EvalpluginError, UnknownNameError, did_you_mean
from evalplugin.metrics.base import UserMetric
from evalplugin.metrics.names import MetricSpec, parse

_ANY = (-math.inf, math.inf)
_BETTER = {1: "higher", -1: "lower", 0: "neither"}
_HIGHER = {"higher": True, "lower": False, "neither": None}
_ENDS = ("low", "high")  # of bounds


@dataclass(frozen=True)
class GivenMetric(UserMetric):
    """A metric that was computed elsewhere."""

    higher_is_better: bool | None  # type: ignore[misc]  # of this metric, not of all given ones
    bounds: tuple[float, float]  # type: ignore[misc]


@dataclass(frozen=True)
class GivenSpec(MetricSpec):
    """A metric that was computed elsewhere, under the name that its table gives it."""

    @cached_property
    def name(self) -> str:
        """The name in the table."""
        return self.family

    @property
    def definition(self) -> str:
        """Name and direction: how the values were computed is not known."""
        return f"{self.name} given, {_BETTER[self.direction]} is better"


def given_metric(name: str, values: Floats, *, lower_is_better: bool | None = None) -> MetricSpec:
    """Return the metric of a column of scores.

    A name of our grammar, such as ``rmse`` or ``ndcg@10``, has the direction of that metric; any other name is of a
    metric of which higher values are better, unless ``lower_is_better`` says otherwise. Bounds are those of that metric
    where all values are within, or else 0 and 1 where all values are, or else none.

    Args:
        name: Of the metric.
        values: Its scores of all models, NaN where undefined.
        lower_is_better: None: by the name.
    """
    known = known_metric(name)
    lowest, highest = (
        (float(of(values)) for of in (np.nanmin, np.nanmax)) if np.isfinite(values).any() else _ANY
    )
    ranges = [(0.0, 1.0)] if known is None else [known.metric.bounds, (0.0, 1.0)]
    bounds = next(((low, high) for low, high in ranges if low <= lowest and highest <= high), _ANY)
    if lower_is_better is not None:
        higher: bool | None = not lower_is_better
    else:
        higher = True if known is None else known.metric.higher_is_better
    return GivenSpec(name, GivenMetric(higher, bounds))


def known_metric(name: str) -> MetricSpec | None:
    """Return our own metric of a name; None if there is none."""
    try:
        return parse(name)
    except EvalpluginError:
        return None


def plain_metrics(given: Mapping[str, MetricSpec]) -> dict[str, dict[str, str | float]]:
    """Return direction and bounds of given metrics as plain values; ``metrics_of_plain`` reads them."""
    return {
        name: {"better": _BETTER[spec.direction]}
        | {end: v for end, v in zip(_ENDS, spec.metric.bounds, strict=True) if math.isfinite(v)}
        for name, spec in given.items()
    }


def metrics_of_plain(values: Mapping[str, Mapping[str, Any]]) -> dict[str, MetricSpec]:
    """Return given metrics by name from their directions and bounds, see ``plain_metrics``."""
    specs: dict[str, MetricSpec] = {}
    for name, value in values.items():
        low, high = (float(value.get(end, bound)) for end, bound in zip(_ENDS, _ANY, strict=True))
        specs[name] = GivenSpec(name, GivenMetric(_HIGHER[value["better"]], (low, high)))
    return specs


def with_all_bounds(given: Sequence[Mapping[str, MetricSpec]]) -> dict[str, MetricSpec]:
    """Return the metrics of several tables by name, with bounds that hold in all of them."""
    specs: dict[str, MetricSpec] = {}
    for name, spec in chain.from_iterable(own.items() for own in given):
        bounds = [spec.metric.bounds, specs.get(name, spec).metric.bounds]
        widest = min(low for low, _ in bounds), max(high for _, high in bounds)
        specs[name] = GivenSpec(name, GivenMetric(spec.metric.higher_is_better, widest))
    return specs


def spec_of(name: str, given: Mapping[str, MetricSpec]) -> MetricSpec:
    """Return the metric of a name: one of the given ones, or else one of ours.

    Raises:
        ParameterError, UnknownNameError: A name that means no metric; where metrics are given, it is one of these.
    """
    if name in given:
        return given[name]
    try:
        return parse(name)
    except EvalpluginError:
        if not given:
            raise
        near = did_you_mean(name, list(given), noun="there are")
        raise UnknownNameError(f"there is no metric {name!r}{near}") from None
