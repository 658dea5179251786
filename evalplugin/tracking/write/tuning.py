"""Metrics, parameters, trials and pictures of tuning, as a run logs them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np

from evalplugin.base.numbers import number
from evalplugin.base.units import count_text
from evalplugin.execution.results import BakeoffResult, DataSplit, ModelResult, Tuning
from evalplugin.report.drawing import PictureRequest
from evalplugin.report.importance import importance
from evalplugin.report.palette import model_colours
from evalplugin.report.studies import (
    FoldTrials,
    HistoryRequest,
    ImportanceRequest,
    StudyCurve,
    history_limits,
)
from evalplugin.tracking.names import flatten
from evalplugin.tracking.write.items import Metric

__all__ = ["study_requests", "tuning_metrics", "tuning_params"]


def tuning_metrics(result: ModelResult) -> Iterator[Metric]:
    """Yield the metrics of how a model was tuned; none where it was not."""
    if (tuning := result.tuning) is None:
        return
    yield Metric("tune/validation", tuning.validation)
    yield Metric("tune/defaults", tuning.defaults)
    if result.error is None:
        yield Metric("tune/optimism", result.optimism)
    for state in ("done", "dropped", "failed"):
        yield Metric(f"tune/trials_{state}", tuning.count(state))
    yield Metric("tune/seconds", tuning.seconds)


def tuning_params(tuning: Tuning) -> dict[str, Any]:
    """Return the section ``tune`` of the config and the space, as parameters of the run."""
    return flatten("tune", tuning.settings) | {
        f"tune.space.{name}": json.dumps(space, ensure_ascii=False) for name, space in tuning.space.items()
    }


def study_requests(result: BakeoffResult) -> Iterator[tuple[DataSplit, str, PictureRequest]]:
    """Yield the requests of the pictures of tuning, each behind dataset and split, and the file's name.

    None without a tuned model. Else every model gets them, tuned or not: MLflow's compare page shows the files that all
    of its runs have.
    """
    metric = next((one.tuning.metric for one in result.models if one.tuning is not None), None)
    if metric is None:
        return
    bakeoff = result.bakeoff
    colours = model_colours(bakeoff.models, bakeoff.baseline)
    curves = [
        (DataSplit.of(one.data), _curve(one, metric, colours[one.model]))
        for one in result.models
        if one.tuning is not None or one.error is None
    ]
    every = [curve for _, curve in curves]
    trials = max(len(fold.values) for curve in every for fold in curve.folds)
    most = max(len(curve.best) for curve in every)
    limits = history_limits(every)
    for data, group in groupby(curves, key=lambda pair: pair[0]):
        shown = [curve for _, curve in group]
        yield data, "tune_history.png", HistoryRequest(shown, trials, limits)
        yield data, "tune_importance.png", ImportanceRequest(shown, most)


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
    found = {}
    for name in tuning.space:
        values = dict.fromkeys(_value(best[name]) for best in tuning.best if name in best)
        found[name] = ", ".join(values) or "unset"
    return found


def _value(value: object) -> str:
    return (
        f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    )
