"""Metrics whose values are given, in a table of scores: name, better direction and bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from evalplugin.base.arrays import Floats
from evalplugin.base.errors import EvalpluginError
from evalplugin.base.libraries import np
from evalplugin.metrics.base import UserMetric
from evalplugin.metrics.names import MetricSpec, parse

_ANY = (-math.inf, math.inf)


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


def spec_of(name: str, given: Mapping[str, MetricSpec]) -> MetricSpec:
    """Return the metric of a name: one of the given ones, or else one of ours."""
    return given[name] if name in given else parse(name)
