"""Pictures of tuning on common axes, two for each model: values of trials, importance of parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.numbers import number, share
from evalplugin.base.text import cut
from evalplugin.base.units import count_text
from evalplugin.metrics import parse
from evalplugin.report.figures import DPI, SIZE, figure_note, figure_title
from evalplugin.report.palette import INK, QUIET, model_colours, png_of, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evalplugin.execution.results import BakeoffResult, DataSplit, ModelResult, Tuning
    from evalplugin.report.drawing import PictureRequest

_OTHER = "#C4C4C4"
_FAILED = "#B00020"
_WORST = 0.1  # share of a model's trials that may be beyond the axis, drawn at its edge
_LEFT, _WIDTH = 0.105, 0.85  # of the axes, as shares of the figure
_BARS = 3  # the fewest places for bars
_LABEL = 22  # characters of a parameter's name


class FoldTrials(NamedTuple):
    """The trials on one fold, in order."""

    values: npt.NDArray[np.float64]  # (T,) by the metric on the validation data; NaN for a trial that failed
    done: npt.NDArray[np.bool_]  # (T,) whether the trial has seen all users: neither dropped nor failed


@dataclass(frozen=True)
class StudyCurve:
    """How one model was tuned, and the style of its pictures; without folds, it was not."""

    model: str
    metric: str  # canonical name
    colour: str
    folds: tuple[FoldTrials, ...]
    validation: float
    test: float  # mean on the test data; NaN where the metric has none there
    importance: Mapping[str, float] | str  # by parameter, from 0 to 1; or the reason why there is none
    best: Mapping[str, str]  # the best value of each parameter, as text
    subtitle: str

    @property
    def up(self) -> bool:
        """Whether higher values of the metric are better."""
        return parse(self.metric).direction >= 0

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The values of the trials on all folds."""
        return np.concatenate([np.empty(0), *(fold.values for fold in self.folds)])

    def best_so_far(self, fold: FoldTrials) -> npt.NDArray[np.float64]:
        """Return (T,) the best value up to each trial; NaN before the first that is done."""
        worst = -np.inf if self.up else np.inf
        values = np.where(fold.done, fold.values, worst)
        best = (np.maximum if self.up else np.minimum).accumulate(values)
        return np.where(np.isfinite(best), best, np.nan)


class StudyRequest(NamedTuple):
    """A picture of each model's tuning: the history of its trials, or the importance of its parameters."""

    kind: Literal["history", "importance"]
    curves: Sequence[StudyCurve]
    length: int  # of the axis: the most trials of any fold, or the most parameters of any model
    limits: tuple[float, float] = (0.0, 1.0)  # of the values of a history, see ``history_limits``

    @property
    def size(self) -> int:
        """How many values there are."""
        return sum(len(curve.values) for curve in self.curves)

    def draw(self) -> dict[str, bytes]:
        """Return the PNG of each model."""
        paint = _history if self.kind == "history" else _importance
        pictures = {}
        for curve in self.curves:
            figure = _figure(curve)
            paint(self, curve, figure)
            pictures[curve.model] = png_of(figure)
        return pictures


def study_pictures(result: BakeoffResult) -> Iterator[tuple[DataSplit, str, PictureRequest]]:
    """Yield the requests of the pictures of tuning, each behind dataset and split, and the file's name.

    Without a tuned model there are none. Else every model gets them, tuned or not: MLflow's compare page shows the
    files that all of its runs have.
    """
    from evalplugin.execution.results import DataSplit  # not where pictures are drawn

    metric = next((model.tuning.metric for model in result.models if model.tuning is not None), None)
    if metric is None:
        return
    bakeoff = result.bakeoff
    colours = model_colours(bakeoff.models, bakeoff.baseline)
    curves = [
        (DataSplit.of(model.data), _curve(model, metric, colours[model.model]))
        for model in result.models
        if model.tuning is not None or model.error is None
    ]
    every = [curve for _, curve in curves]
    trials = max(len(fold.values) for curve in every for fold in curve.folds)
    parameters = max(len(curve.best) for curve in every)
    limits = history_limits(every)
    for data, group in groupby(curves, key=lambda pair: pair[0]):
        shown = [curve for _, curve in group]
        yield data, "tune_history.png", StudyRequest("history", shown, trials, limits)
        yield data, "tune_importance.png", StudyRequest("importance", shown, parameters)


def _curve(result: ModelResult, metric: str, colour: str) -> StudyCurve:
    from evalplugin.features.tuning.summary import importance  # not where pictures are drawn

    tuning = result.tuning
    if tuning is None:
        return StudyCurve(
            result.model, metric, colour, (), math.nan, result.mean(metric), "not tuned", {}, "not tuned"
        )
    rows = tuning.trials
    fold, values = np.asarray(rows["fold"]), np.asarray(rows["value"].to_pylist(), dtype=float)
    done = np.asarray(rows["state"]) == "done"
    folds = [FoldTrials(values[fold == number], done[fold == number]) for number in np.unique(fold)]
    better = f"validation {number(tuning.validation)}, defaults {number(tuning.defaults)}"
    return StudyCurve(
        model=result.model,
        metric=metric,
        colour=colour,
        folds=tuple(folds),
        validation=tuning.validation,
        test=result.mean(tuning.metric),
        importance=importance(tuning),
        best=_best(tuning),
        subtitle=f"{better}: {count_text(len(rows), 'trial')}",
    )


def _best(tuning: Tuning) -> Mapping[str, str]:
    """Return the best value of each tuned parameter as text: of each fold, where folds differ."""
    texts = {}
    for name in tuning.space:
        values = dict.fromkeys(_value(best[name]) for best in tuning.best if name in best)
        texts[name] = ", ".join(values) or "unset"
    return texts


def _value(value: object) -> str:
    return (
        f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    )


def history_limits(curves: Sequence[StudyCurve]) -> tuple[float, float]:
    """Return the limits of the value axis of all histories: few very bad trials may be beyond them."""
    ends: list[float] = []
    for curve in curves:
        values = curve.values[np.isfinite(curve.values)]
        defaults = [float(fold.values[0]) for fold in curve.folds if len(fold.values)]
        ends += [v for v in (*defaults, curve.test, curve.validation) if np.isfinite(v)]
        if len(values):
            ends += [float(np.quantile(values, _WORST if curve.up else 1 - _WORST))]
            ends += [float(values.max() if curve.up else values.min())]
    if not ends:
        return (0.0, 1.0)
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return low - margin, high + margin


def _figure(curve: StudyCurve) -> Figure:
    """Return a figure with the title of a model."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI, facecolor="white")
    figure_title(figure, curve.model, curve.colour, curve.subtitle)
    return figure


def _history(request: StudyRequest, curve: StudyCurve, figure: Figure) -> None:
    from matplotlib.ticker import MaxNLocator

    axes = figure.add_axes((_LEFT, 0.155, _WIDTH, 0.695))
    axes.set_xlim(-0.5, max(request.length, 1) - 0.5)
    axes.set_ylim(request.limits)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("trial; the first has the defaults", color=QUIET, fontsize=11, loc="left")
    axes.set_ylabel(f"{curve.metric}, validation", color=QUIET, fontsize=11, parse_math=False)
    style_axes(axes, QUIET)
    others = [other for other in request.curves if other is not curve and other.folds]
    for other in others:
        _steps(axes, other, color=_OTHER, linewidth=1.3, zorder=2)
    for fold in curve.folds:
        _points(axes, curve, fold, request.limits)
    _steps(axes, curve, color=curve.colour, linewidth=2.4, zorder=4)
    _level(axes, curve, request.limits)
    figure_note(figure, "   ".join(_key(curve, len(others))), most=80)


def _steps(axes: Axes, curve: StudyCurve, **style: Any) -> None:
    for fold in curve.folds:
        axes.step(np.arange(len(fold.values)), curve.best_so_far(fold), where="post", **style)


def _points(axes: Axes, curve: StudyCurve, fold: FoldTrials, limits: tuple[float, float]) -> None:
    """Draw trials as points: filled if done, hollow if dropped, and a cross on the axis if failed."""
    number, values = np.arange(len(fold.values)), np.clip(fold.values, *limits)
    failed = np.isnan(fold.values)
    dropped = ~failed & ~fold.done
    style: dict[str, Any] = {"linestyle": "none", "clip_on": False, "zorder": 3, "markersize": 5}
    full: dict[str, Any] = {"marker": "o", "color": curve.colour, "alpha": 0.55, "markeredgewidth": 0}
    hollow: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markeredgecolor": curve.colour}
    axes.plot(number[fold.done], values[fold.done], **style, **full)
    axes.plot(number[dropped], values[dropped], **style, **hollow)
    bottom = np.full(failed.sum(), limits[0])
    axes.plot(number[failed], bottom, **{**style, "markersize": 7}, marker="x", color=_FAILED)


def _level(axes: Axes, curve: StudyCurve, limits: tuple[float, float]) -> None:
    """Draw the mean on the test data as a dotted line."""
    if not np.isfinite(curve.test):
        return
    axes.axhline(curve.test, color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)), zorder=5)
    above = curve.test < limits[0] + 0.9 * (limits[1] - limits[0])
    axes.annotate(
        f"test {number(curve.test)}",
        (0.99, curve.test),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3 if above else -3),
        textcoords="offset points",
        ha="right",
        va="bottom" if above else "top",
        color=INK,
        fontsize=11,
        zorder=5,
    )


def _key(curve: StudyCurve, others: int) -> Iterator[str]:
    folds = len(curve.folds)
    if folds:
        yield "line: best so far" + (f", of {folds} folds" if folds > 1 else "")
    if any((~fold.done & np.isfinite(fold.values)).any() for fold in curve.folds):
        yield "hollow: dropped"
    if np.isnan(curve.values).any():
        yield "x: failed"
    if others:
        yield "grey: another tuned model" if others == 1 else f"grey: {others} other tuned models"


def _importance(request: StudyRequest, curve: StudyCurve, figure: Figure) -> None:
    left = 0.3
    axes = figure.add_axes((left, 0.155, _LEFT + _WIDTH - left, 0.695))
    axes.set_xlim(0, 1)
    axes.set_ylim(max(request.length, _BARS) - 0.5, -0.5)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel("importance", color=QUIET, fontsize=11, loc="left")
    style_axes(axes, INK, grid="x")
    why_none = curve.importance if isinstance(curve.importance, str) else ""
    known = {} if isinstance(curve.importance, str) else curve.importance
    names = list(known or curve.best)
    axes.set_yticks(range(len(names)), [cut(name, _LABEL) for name in names], parse_math=False)
    for y, name in enumerate(names):
        width = known.get(name, 0.0)
        if known:
            axes.barh(y, width, height=0.55, color=curve.colour)
        text = " · ".join(
            [*([share(width)] if known else []), f"best {cut(curve.best.get(name, ''), _LABEL)}"]
        )
        inside = width > 0.55
        axes.annotate(
            text,
            (width, y),
            xytext=(-6 if inside else 6, 0),
            textcoords="offset points",
            ha="right" if inside else "left",
            va="center",
            color="white" if inside else INK,
            fontsize=11,
            parse_math=False,
        )
    figure_note(figure, why_none or "by PED-ANOVA: what the best trials share", most=80)
