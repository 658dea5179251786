"""Pictures of tuning on common axes, two for each model: values of trials, importance of parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.numbers import number, share
from evalplugin.base.text import cut
from evalplugin.base.units import count_text
from evalplugin.execution.results import BakeoffResult, DataSplit, ModelResult, Tuning
from evalplugin.features.tuning.summary import importance
from evalplugin.metrics import parse
from evalplugin.report.charts.palette import SHAPES, model_colours
from evalplugin.report.charts.pictures import Chart, ModelPicture, picture_of_run

_WORST = 0.1  # share of a model's trials that may be beyond the axis, drawn at its edge
_BARS = 3  # the fewest places for bars
_LABEL = 22  # characters of a parameter's name
_CROSS = "M-1,-1L1,1M-1,1L1,-1"


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

    def picture(self, chart: Chart, note: str) -> bytes:
        """Return a chart as PNG with this model's title and a line on its signs."""
        return picture_of_run(chart, title=self.model, colour=self.colour, subtitle=[self.subtitle, note])


def study_pictures(result: BakeoffResult) -> Iterator[ModelPicture]:
    """Yield the pictures of tuning; none without a tuned model.

    Else every model gets them, tuned or not: MLflow's compare page shows the files that all of its runs have.
    """
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
    bars = max(_BARS, *(len(curve.best) for curve in every))
    limits = history_limits(every)
    for place, group in groupby(curves, key=lambda pair: pair[0]):
        shown = [curve for _, curve in group]
        for curve in shown:
            others = [other for other in shown if other is not curve and other.folds]
            history = curve.picture(history_chart(curve, others, trials, limits), _history_key(curve, others))
            yield ModelPicture(place, curve.model, "tune_history.png", history)
            yield ModelPicture(place, curve.model, "tune_importance.png", importance_picture(curve, bars))


def _curve(result: ModelResult, metric: str, colour: str) -> StudyCurve:
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


def history_chart(
    curve: StudyCurve, others: Sequence[StudyCurve], trials: int, limits: tuple[float, float]
) -> Chart:
    """Return a model's trials: filled if done, hollow if dropped, a cross on the axis if failed, and the best so far.

    Args:
        curve: The model.
        others: The other tuned models, whose best values are grey lines.
        trials: The most trials of any model, for the axis.
        limits: Ends of the value axis, see ``history_limits``.
    """
    rows = [row for other in others for row in _steps(other, "var(--equal)", 1.5)]
    rows += _steps(curve, curve.colour, 2.5)
    for fold in curve.folds:
        for x, (value, done) in enumerate(zip(fold.values, fold.done, strict=True)):
            failed = math.isnan(value)
            rows.append(
                {
                    "kind": "trial",
                    "x": x,
                    "y": limits[0] if failed else float(np.clip(value, *limits)),
                    "colour": "var(--worse)" if failed else curve.colour,
                    "fill": curve.colour if done else "var(--surface)",
                    "shape": _CROSS if failed else SHAPES[0],
                }
            )
    if math.isfinite(curve.test):
        text = f"test {number(curve.test)}"
        rows.append(
            {"kind": "test", "x": trials - 0.5, "y": curve.test, "colour": "var(--ink)", "text": text}
        )
    values = {"title": f"{curve.metric}, validation", "low": limits[0], "high": limits[1]}
    return Chart(
        "tune_history", rows, values | {"left": -0.5, "right": trials - 0.5}, "Trials in their order"
    )


def _steps(curve: StudyCurve, colour: str, width: float) -> list[dict[str, Any]]:
    return [
        {"kind": "best", "line": f"{curve.model} {number}", "x": x, "y": y, "colour": colour, "width": width}
        for number, fold in enumerate(curve.folds)
        for x, y in enumerate(curve.best_so_far(fold).tolist())
        if not math.isnan(y)
    ]


def _history_key(curve: StudyCurve, others: Sequence[StudyCurve]) -> str:
    parts = []
    if folds := len(curve.folds):
        parts.append("line: best so far" + (f", of {folds} folds" if folds > 1 else ""))
    if any((~fold.done & np.isfinite(fold.values)).any() for fold in curve.folds):
        parts.append("hollow: dropped")
    if np.isnan(curve.values).any():
        parts.append("x: failed")
    if others:
        parts.append(
            "grey: another tuned model" if len(others) == 1 else f"grey: {len(others)} other tuned models"
        )
    return " · ".join(parts)


def importance_picture(curve: StudyCurve, bars: int) -> bytes:
    """Return a bar for each parameter of a model as PNG; ``bars``: places for them, as many for each model."""
    known = {} if isinstance(curve.importance, str) else curve.importance
    names = list(known or curve.best)
    rows = [
        {
            "model": cut(name, _LABEL),
            "share": known.get(name, 0.0),
            "colour": curve.colour,
            "text": " · ".join(
                [*([share(known[name])] if known else []), f"best {cut(curve.best.get(name, ''), _LABEL)}"]
            ),
        }
        for name in names
    ]
    places = [row["model"] for row in rows] + [" " * place for place in range(bars - len(rows))]
    chart = Chart("tune_importance", rows, {"names": places}, "Importance of parameters")
    note = (
        curve.importance if isinstance(curve.importance, str) else "by PED-ANOVA: what the best trials share"
    )
    return curve.picture(chart, note)
