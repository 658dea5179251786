"""Figures of per-user scores, one for each model, on common axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.text import cut
from evalplugin.base.units import plural
from evalplugin.data.queries import Unit
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.moments import mean_of_defined
from evalplugin.report.palette import INK, QUIET, png_with, style_axes

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (6.4, 4.4)  # inches, of 100 dots each: sharp at full size and legible as a thumbnail
DPI = 100
_POINTS = np.linspace(0.0, 100.0, 401)
_OTHER = "#C4C4C4"
_LEFT = 0.105  # of axes and texts, as a share of the figure


@dataclass(frozen=True)
class Curve:
    """A model's values of a metric for each user, and its style."""

    model: str
    values: npt.NDArray[np.float64]  # (U,), NaN where undefined
    colour: str
    is_baseline: bool = False


def axis_limits(metric: MetricSpec, values: Iterable[npt.NDArray[np.float64]]) -> tuple[float, float]:
    """Return the limits of the value axis of all figures of a metric, from the metric's lower bound if it has one."""
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


class FigureRequest(NamedTuple):
    """A picture of each model: its users' values, lowest first, in colour, with the other models' values in grey."""

    metric: str  # canonical name
    curves: Sequence[Curve]  # of every model; models without a defined value are left out
    limits: tuple[float, float]  # of the value axis; see ``axis_limits``
    subtitles: Mapping[str, str]  # a second line for each model, by name
    unit: Unit = "user"

    @property
    def size(self) -> int:
        """The number of values."""
        return sum(len(curve.values) for curve in self.curves)

    def draw(self) -> dict[str, bytes]:
        """Return the PNG of each model."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        defined = [(c, c.values[np.isfinite(c.values)]) for c in self.curves]
        drawn = [(c, np.percentile(values, _POINTS)) for c, values in defined if len(values)]
        figure = Figure(figsize=SIZE, dpi=DPI, facecolor="white")
        canvas: Any = FigureCanvasAgg(figure)
        axes = figure.add_axes((_LEFT, 0.155, 0.85, 0.695))
        _frame(axes, self.metric, self.limits, self.unit)
        # All that the pictures share is drawn once. A model's own line covers its thinner grey one.
        for curve, quantiles in drawn:
            axes.plot(
                _POINTS,
                quantiles,
                color=QUIET if curve.is_baseline else _OTHER,
                linewidth=1.3,
                linestyle=(0, (4, 2)) if curve.is_baseline else "solid",
                zorder=2,
            )
        canvas.draw()
        shared = canvas.copy_from_bbox(figure.bbox)
        pictures: dict[str, bytes] = {}
        for curve, quantiles in drawn:
            canvas.restore_region(shared)
            own = [
                *_draw(axes, curve, quantiles, self.limits),
                *figure_title(figure, curve.model, curve.colour, self.subtitles.get(curve.model, "")),
                _key(figure, drawn, curve),
            ]
            pictures[curve.model] = png_with(canvas, own)
            for artist in own:
                artist.remove()
        return pictures


def _frame(axes: Axes, metric: str, limits: tuple[float, float], unit: Unit) -> None:
    span = limits[1] - limits[0]
    axes.set_xlim(0, 100)
    axes.set_ylim(limits[0] - 0.015 * span, limits[1] + 0.03 * span)
    axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel(f"share of {plural(unit)}, lowest first", color=QUIET, fontsize=11, loc="left")
    axes.set_ylabel(metric, color=QUIET, fontsize=11, parse_math=False)
    style_axes(axes, QUIET)


def _draw(
    axes: Axes, curve: Curve, quantiles: npt.NDArray[np.float64], limits: tuple[float, float]
) -> list[Artist]:
    """Draw the model of a picture; return the artists, from the lowest layer to the highest."""
    area = axes.fill_between(_POINTS, quantiles, limits[0], color=curve.colour, alpha=0.13, linewidth=0)
    values = curve.values[np.isfinite(curve.values)]
    mean = mean_of_defined(values)
    level = axes.axhline(mean, color=curve.colour, linewidth=1.2, linestyle=(0, (1, 1.5)))
    line = axes.plot(
        _POINTS, quantiles, color=curve.colour, linewidth=3.0, solid_capstyle="round", clip_on=False
    )
    zeros = float(np.mean(values == 0))
    if zeros >= 0.01 and limits[0] <= 0 <= limits[1]:
        line += axes.plot(
            [0, 100 * zeros], [0, 0], color=curve.colour, linewidth=6, solid_capstyle="butt", clip_on=False
        )
    above = mean < limits[0] + 0.9 * (limits[1] - limits[0])
    label = axes.annotate(
        f"mean {mean:.4g}",
        (0.8, mean),
        xytext=(0, 3 if above else -3),
        textcoords="offset points",
        va="bottom" if above else "top",
        color=curve.colour,
        fontsize=11,
        fontweight="bold",
    )
    return [area, level, *line, label]


def _key(figure: Figure, drawn: Sequence[tuple[Curve, npt.NDArray[np.float64]]], curve: Curve) -> Artist:
    others = [c for c, _ in drawn if c is not curve]
    parts = []
    if baseline := [c.model for c in others if c.is_baseline]:
        parts.append(f"dashed: {baseline[0][:30]} (baseline)")
    if count := sum(not c.is_baseline for c in others):
        parts.append(f"grey: the {'other model' if count == 1 else f'{count} other models'}")
    return figure_note(figure, "   ".join(parts))


def figure_title(figure: Figure, title: str, colour: str, subtitle: str) -> list[Artist]:
    """Add a title, and a line below it, at the top of a figure; return both.

    Args:
        figure: The figure.
        title: Cut to 64 characters.
        colour: Of the title.
        subtitle: The line below it, cut in the same way.
    """
    return [
        _text(figure, 0.965, title, fontsize=16, weight="bold", color=colour, va="top"),
        _text(figure, 0.895, subtitle, fontsize=11, color=INK, va="top"),
    ]


def figure_note(figure: Figure, text: str, most: int = 64) -> Artist:
    """Add a line at the bottom of a figure, cut to ``most`` characters; return it."""
    return _text(figure, 0.012, text, most, fontsize=10, color=QUIET, va="bottom")


def _text(figure: Figure, y: float, text: str, most: int = 64, **style: Any) -> Artist:
    # Names may hold "$", which would start a formula.
    return figure.text(_LEFT, y, cut(text, most), parse_math=False, **style)


def _round_up(high: float, low: float) -> float:
    span = high - low
    if span <= 0:
        return high
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(s for s in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if s * unit >= span * (1 - 1e-12))
    return low + step * unit
