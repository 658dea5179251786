"""Every user's scores of a metric, lowest first: the axis, and a picture of each model on this axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.numbers import share
from evalplugin.base.text import cut
from evalplugin.base.units import plural
from evalplugin.data.queries import Unit
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.report.charts.pictures import Chart, picture_of_run

_PERCENT = np.arange(101)
_SYMBOLS = 12  # percent between the symbols on a line
_FINE_UP_TO = 20  # models


@dataclass(frozen=True)
class Curve:
    """A model's values of a metric for each user, and its style."""

    model: str
    values: npt.NDArray[np.float64]  # (U,), finite
    style: Mapping[str, str]  # colour and shape
    is_baseline: bool = False


def axis_limits(metric: MetricSpec, values: Iterable[npt.NDArray[np.float64]]) -> tuple[float, float]:
    """Return the limits of the value axis of all charts of a metric, from the metric's lower bound if it has one."""
    lowest, highest = metric.metric.bounds
    finite = [v[np.isfinite(v)] for v in values]
    finite = [v for v in finite if len(v)]
    if not finite:
        return (0.0, 1.0)
    low, high = min(float(v.min()) for v in finite), max(float(v.max()) for v in finite)
    low = lowest if math.isfinite(lowest) else low
    # If no value is near the metric's upper bound, an axis up to it would be mostly empty.
    is_wide = math.isfinite(highest) and high - low > 0.5 * (highest - low)
    high = highest if is_wide else _round_up(high, low)
    return (low, high) if high > low else (low, low + 1.0)


def user_pictures(
    metric: MetricSpec, curves: Sequence[Curve], limits: tuple[float, float], place: str, unit: Unit
) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield each model's name with a function that draws its picture as PNG.

    The model is in its colour, the others are in grey.

    Args:
        metric: The metric.
        curves: The models on one dataset under one split.
        limits: Ends of the value axis, see ``axis_limits``.
        place: Dataset and split, for the subtitle.
        unit: What has a value each.
    """
    # Four digits: each picture passes the lines of all models on as text.
    quantiles = [[float(f"{y:.4g}") for y in np.percentile(curve.values, _PERCENT)] for curve in curves]
    step = 2 if len(curves) <= _FINE_UP_TO else 4  # enough for a thin line
    lines = [list(_rows_of_other(curve, ys, step)) for curve, ys in zip(curves, quantiles, strict=True)]
    # The baseline's line is above the grey ones.
    order = sorted(range(len(curves)), key=lambda number: curves[number].is_baseline)
    for number, own in enumerate(curves):
        rows = [row for other in order if other != number for row in lines[other]]
        rows += _own_rows(own, quantiles[number])
        values = {"title": metric.name, "low": limits[0], "high": limits[1]}
        values["shares"] = f"share of {plural(unit)}, lowest first"
        chart = Chart("one_model", rows, values, f"{metric.name} of every {unit}, lowest to highest")
        zeros = share(float(np.mean(own.values == 0)))
        subtitle = [
            f"{place}: {len(own.values):,} {plural(unit)}, {zeros} of them at 0",
            _key([curve for curve in curves if curve is not own]),
        ]
        yield (
            own.model,
            partial(picture_of_run, chart, title=own.model, colour=own.style["colour"], subtitle=subtitle),
        )


def _rows_of_other(curve: Curve, quantiles: Sequence[float], step: int) -> Iterator[dict[str, Any]]:
    """Yield the corners of a line, and a gap: the grey lines are one, as each further one would take as long."""
    style = {"colour": "var(--quiet)" if curve.is_baseline else "var(--equal)", "width": 1.5}
    style |= {"baseline": True} if curve.is_baseline else {}
    points = [quantiles[percent] for percent in range(0, 101, step)]
    for place, (before, y, after) in enumerate(
        zip([nan, *points[:-1]], points, [*points[1:], nan], strict=True)
    ):
        if not before == y == after:
            yield {"x": place * step / 100, "y": y, **style}
    yield {"x": 1.0, "y": None, **style}


def _own_rows(curve: Curve, quantiles: Sequence[float]) -> Iterator[dict[str, Any]]:
    mean = mean_of_defined(curve.values)
    style = {**curve.style, "width": 3, "own": True}
    for percent, y in enumerate(quantiles):
        point = percent % _SYMBOLS == _SYMBOLS // 2 and y > quantiles[0]
        text = f"mean {mean:.4g}"
        yield {
            "model": curve.model,
            "x": percent / 100,
            "y": y,
            "mean": mean,
            "text": text,
            "point": point,
        } | style


def _key(others: Sequence[Curve]) -> str:
    parts = [f"dashed: {cut(curve.model, 30)} (baseline)" for curve in others if curve.is_baseline]
    if count := sum(not curve.is_baseline for curve in others):
        parts.append(f"grey: the {'other model' if count == 1 else f'{count} other models'}")
    return " · ".join(parts)


def _round_up(high: float, low: float) -> float:
    span = high - low
    if span <= 0:
        return high
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(s for s in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if s * unit >= span * (1 - 1e-12))
    return low + step * unit
