"""Forest plots: paired differences, or means where nothing is compared, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from evalplugin.base.numbers import percent
from evalplugin.comparison.compared import Mark
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import DataSplit
from evalplugin.metrics import parse
from evalplugin.report.palette import BASELINE_COLOUR, INK, QUIET, png_of, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["forest"]

_BETTER, _WORSE, _UNCLEAR = "#0072B2", "#D55E00", BASELINE_COLOUR
_LABEL = 48  # characters


class _Line(NamedTuple):
    label: str
    mean: float
    low: float
    high: float
    mark: Mark


def forest(comparisons: Sequence[Comparison], metric: str | None = None) -> Figure:
    """Return a figure with one panel for each comparison: every difference by a metric, with its interval.

    Blue is better, orange worse, grey not shown to be either. Without pairs it shows the models' means.
    ``metric`` is a canonical name; None: the primary one. A notebook shows the figure as the result of a cell.
    """
    panels = [(c, metric or c.contest.primary) for c in comparisons]
    lines_of = [_lines(comparison, name) for comparison, name in panels]
    heights = [1.0 + 0.34 * max(len(lines), 1) for lines, _ in lines_of]
    figure = _figure(sum(heights) + 0.25)
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (comparison, name), (lines, against) in zip(grid, panels, lines_of, strict=True):
        _draw(axes, lines, is_difference=against is not None)
        title = str(DataSplit.of(comparison.contest))
        axes.set_title(title, loc="left", fontsize=11, color=INK, parse_math=False)
        label = name if against is None else f"{name}: difference {against}"
        if any(math.isfinite(line.low) for line in lines):
            label += f", {percent(comparison.level)} intervals"
        label += {1: "  (right is better)", -1: "  (left is better)", 0: ""}[parse(name).direction]
        axes.set_xlabel(label, fontsize=10, color=QUIET, parse_math=False)
    return figure


def _lines(comparison: Comparison, metric: str) -> tuple[list[_Line], str | None]:
    """Return the lines, best model first, and the reference of the differences; None if the lines are means."""
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    if not pairs:
        cells = [(r.model, r.cells[metric]) for r in comparison.models if metric in r.cells]
        return [_Line(model, c.mean, c.low, c.high, "") for model, c in cells], None
    of_all = comparison.pairing == "all"
    lines = []
    for pair in pairs:
        label = f"{pair.model} − {pair.against}" if of_all else pair.model
        interval = pair.paired.interval
        lines.append(_Line(label, interval.mean, interval.low, interval.high, pair.mark))
    return lines, "between two models" if of_all else f"from {comparison.contest.baseline}"


def _draw(axes: Axes, lines: Sequence[_Line], *, is_difference: bool) -> None:
    colours = {"+": _BETTER, "-": _WORSE, "": _UNCLEAR if is_difference else _BETTER}
    for y, line in enumerate(lines):
        colour = colours[line.mark]
        if math.isfinite(line.low) and math.isfinite(line.high):
            axes.plot([line.low, line.high], [y, y], color=colour, linewidth=2.2, solid_capstyle="butt")
        axes.plot([line.mean], [y], "o", color=colour, markersize=6)
    if is_difference:
        axes.axvline(0, color=INK, linewidth=1)
    labels = [line.label if len(line.label) <= _LABEL else f"{line.label[: _LABEL - 3]}..." for line in lines]
    axes.set_yticks(range(len(lines)), labels, parse_math=False)
    axes.set_ylim(max(len(lines), 1) - 0.5, -0.5)
    style_axes(axes, INK, grid="x")


def _figure(height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that notebooks show although pyplot does not manage it."""

        def _repr_png_(self) -> bytes:
            return png_of(self, dpi=110)

    figure: Figure = Picture(figsize=(7.2, height), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure
