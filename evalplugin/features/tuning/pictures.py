"""Pictures of tuning on common axes, two for each model: values of trials, importance of parameters."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from evalplugin.base.numbers import number, share
from evalplugin.base.places import DataSplit
from evalplugin.base.text import cut
from evalplugin.base.units import count_text
from evalplugin.execution.results import ModelResult, Plan, Tuning
from evalplugin.features.tuning.summary import importance
from evalplugin.metrics import parse
from evalplugin.report.charts.palette import SHAPES, model_colours
from evalplugin.report.charts.pictures import Chart, ModelPicture, picture_of_run

_WORST = 0.1  # share of a model's trials that may be beyond the axis, drawn at its edge
_BARS = 3  # the fewest places for bars
_LABEL = 22  # characters of a parameter's name
_CROSS = "M-1,-1L1,1M-1,1L1,-1"


def study_pictures(plan: Plan, results: Sequence[ModelResult]) -> Iterator[ModelPicture]:
    """Yield the pictures of tuning, of the tuned models."""
    models = [model for model in results if model.tuning is not None]
    if not (tunings := [*map(_tuning, models)]):
        return
    metric = tunings[0].metric
    colours = model_colours(plan.models, plan.baseline)
    limits = history_limits(models, metric)
    trials = 1 + max(row["trial"] for tuning in tunings for row in tuning.trials.to_pylist())
    bars = max(_BARS, *(len(tuning.space) for tuning in tunings))
    for place, group in groupby(models, key=lambda model: DataSplit.of(model.data)):
        own = list(group)
        for model in own:
            others = [other for other in own if other is not model]
            history = history_chart(model, others, metric, colours[model.model], trials, limits)
            charts = {
                "tune_history.png": (history, _history_key(model, len(others))),
                "tune_importance.png": importance_chart(model, colours[model.model], bars),
            }
            for path, (chart, note) in charts.items():
                subtitle = [_subtitle(_tuning(model)), note]
                draw = partial(
                    picture_of_run, chart, title=model.model, colour=colours[model.model], subtitle=subtitle
                )
                yield ModelPicture(place, model.model, path, draw)


def _tuning(model: ModelResult) -> Tuning:
    assert model.tuning is not None
    return model.tuning


def _subtitle(tuning: Tuning) -> str:
    values = f"validation {number(tuning.validation)}, defaults {number(tuning.defaults)}"
    return f"{values}: {count_text(len(tuning.trials), 'trial')}"


def history_limits(models: Sequence[ModelResult], metric: str) -> tuple[float, float]:
    """Return the limits of the value axis of all histories: few very bad trials may be beyond them."""
    up = parse(metric).direction >= 0
    ends: list[float] = []
    for model in models:
        ends.append(model.mean(metric))
        if model.tuning is not None:
            rows = model.tuning.trials.to_pylist()
            values = [row["value"] for row in rows if row["value"] is not None]
            ends += [row["value"] for row in rows if row["trial"] == 0 and row["value"] is not None]
            ends.append(model.tuning.validation)
            if values:
                ends.append(float(np.quantile(values, _WORST if up else 1 - _WORST)))
                ends.append(max(values) if up else min(values))
    ends = [value for value in ends if math.isfinite(value)]
    if not ends:
        return (0.0, 1.0)
    low, high = min(ends), max(ends)
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 0.5
    return low - margin, high + margin


def history_chart(
    model: ModelResult,
    others: Sequence[ModelResult],
    metric: str,
    colour: str,
    trials: int,
    limits: tuple[float, float],
) -> Chart:
    """Return a model's trials: filled if done, hollow if dropped, a cross on the axis if failed, and the best so far.

    Args:
        model: The model.
        others: The other tuned models, whose best values are grey lines.
        metric: Canonical name.
        colour: Of the model.
        trials: The most trials of any model, for the axis.
        limits: Ends of the value axis, see ``history_limits``.
    """
    low, high = limits
    rows = [row for other in others for row in _best_so_far(other, metric, "var(--equal)", 1.5)]
    rows += _best_so_far(model, metric, colour, 2.5)
    for trial in _tuning(model).trials.to_pylist():
        style = {"colour": colour, "fill": colour, "shape": SHAPES[0]}
        if trial["state"] != "done":
            style["fill"] = "var(--surface)"
        if trial["state"] == "failed":
            style |= {"colour": "var(--worse)", "shape": _CROSS}
        value = low if trial["value"] is None else min(max(trial["value"], low), high)
        rows.append({"kind": "trial", "x": trial["trial"], "y": value, **style})
    if math.isfinite(test := model.mean(metric)):
        row = {"kind": "test", "x": trials - 0.5, "y": test, "colour": "var(--ink)"}
        rows.append({**row, "text": f"test {number(test)}"})
    values = {"title": f"{metric}, validation", "low": low, "high": high, "left": -0.5, "right": trials - 0.5}
    return Chart("tune_history", rows, values, "Trials in their order")


def _best_so_far(model: ModelResult, metric: str, colour: str, width: float) -> Iterator[dict[str, Any]]:
    """Yield the best value of the trials that are done, up to each trial, a line for each fold."""
    better = max if parse(metric).direction >= 0 else min
    best: dict[int, float] = {}
    for trial in _tuning(model).trials.to_pylist():
        fold, value = trial["fold"], trial["value"]
        if trial["state"] == "done":
            best[fold] = better(value, best.get(fold, value))
        if fold in best:
            row = {"kind": "best", "line": f"{model.model} {fold}", "x": trial["trial"], "y": best[fold]}
            yield {**row, "colour": colour, "width": width}


def _history_key(model: ModelResult, others: int) -> str:
    tuning = _tuning(model)
    folds = len(set(tuning.trials["fold"].to_pylist()))
    parts = ["line: best so far" + (f", of {folds} folds" if folds > 1 else "")]
    parts += ["hollow: dropped"] if tuning.count("dropped") else []
    parts += ["x: failed"] if tuning.count("failed") else []
    if others:
        parts.append("grey: another tuned model" if others == 1 else f"grey: {others} other tuned models")
    return " · ".join(parts)


def importance_chart(model: ModelResult, colour: str, bars: int) -> tuple[Chart, str]:
    """Return a bar for each tuned parameter of a model, and a line on them.

    Args:
        model: The model.
        colour: Of the bars.
        bars: Places for bars, as many for each model.
    """
    rows, tuning = [], _tuning(model)
    shares = importance(tuning)
    by = "by PED-ANOVA: what the best trials share"
    known, note = ({}, shares) if isinstance(shares, str) else (shares, by)
    for name in known or tuning.space:
        texts = [*([share(known[name])] if known else []), f"best {_best(tuning, name)}"]
        row = {"model": cut(name, _LABEL), "share": known.get(name, 0.0), "colour": colour}
        rows.append({**row, "text": " · ".join(texts)})
    places = [row["model"] for row in rows] + [" " * place for place in range(bars - len(rows))]
    return Chart("tune_importance", rows, {"names": places}, "Importance of parameters"), note


def _best(tuning: Tuning, name: str) -> str:
    """Return the best value of a tuned parameter as text: of each fold, where folds differ."""
    return cut(", ".join(dict.fromkeys(_value(best[name]) for best in tuning.best)), _LABEL)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value)
