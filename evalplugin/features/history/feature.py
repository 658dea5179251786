"""The bake-offs before, read from the runs of their experiment: a chart on the page, and values in the outcome."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from evalplugin.base.errors import DataError, TrackingError
from evalplugin.base.places import DataSplit
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.history.chart import history_tab
from evalplugin.features.history.past import PastBakeoff, PastModel, Value
from evalplugin.features.words import GateOutcome
from evalplugin.report.sections import Section
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import existing_store, tracking_call
from evalplugin.tracking.names import metric_name
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import (
    DONE,
    MODEL_RUNS,
    SUMMARY_RUNS,
    experiments_called,
    in_config_order,
    run_pages,
    search_runs,
)

LAST = 30  # bake-offs that a trend shows by default
_PAGE = 100  # runs a request: each takes milliseconds
# Parameters that must be the same for the values of two bake-offs to be comparable.
_RULES = (
    "eval.n",
    "eval.candidates",
    "eval.ties",
    "eval.cold_users",
    "eval.threshold",
    "split.type",
    "split.folds",
)


class HistoryFeature(Feature):
    """Reads the latest bake-offs of the experiment, once all models are logged."""

    past: Sequence[PastBakeoff] = ()  # the oldest first

    def after(self, bakeoff: Bakeoff) -> None:
        """Read the latest bake-offs, this one with its decision, which is not logged yet."""
        tracker, step = bakeoff.tracker, "read the bake-offs before"
        with bakeoff.workspace.observer.progress(step), tracking_call(tracker.uri, step):
            self.past = past_of(tracker.client, tracker.experiment_id)
        if (decision := bakeoff.facts().get("decision")) is not None:
            self.past = with_decision(self.past, bakeoff.plan.id, decision)

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield the trend for the page."""
        yield trend_section(lambda: self.past)


def trend_section(past: Callable[[], Sequence[PastBakeoff]]) -> Section:
    """Return the trend for the page; ``past`` returns the bake-offs, and is called when there is a page."""

    def tab(comparison: Comparison, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {"data": {"trend": history_tab(comparison, past(), models)}}

    return Section(tab=tab)


def with_decision(
    past: Sequence[PastBakeoff], id: str, decision: Mapping[str, Any]
) -> tuple[PastBakeoff, ...]:
    """Return bake-offs, the one of an id with the decision of its gate."""
    decided = {key: decision[key] for key in ("outcome", "champion", "promoted")}
    decided["decided"] = DataSplit(decision["dataset"], decision["split"])
    return tuple(replace(bakeoff, **decided) if bakeoff.id == id else bakeoff for bakeoff in past)


def read_past(tracking_uri: str | None = None, *, experiment: str, last: int = LAST) -> list[PastBakeoff]:
    """Return the latest bake-offs of an experiment, at most ``last``, the oldest first; no artifact is read.

    ``tracking_uri``: the store; None: MLFLOW_TRACKING_URI, or else ``sqlite:///mlflow.db``.

    Raises:
        DataError: There is no such experiment, or no bake-off in it.
        TrackingError: The store cannot be reached.
    """
    with existing_store(tracking_uri, "read the bake-offs") as client:
        (home,) = experiments_called(client, experiment)
        bakeoffs = past_of(client, home, last)
    if not bakeoffs:
        make = "make one: python -m evalplugin run CONFIG"
        raise DataError(f"the experiment {experiment!r} of {client.tracking_uri} has no bake-offs; {make}")
    return bakeoffs


def past_of(client: mlflow.MlflowClient, experiment_id: str, last: int = LAST) -> list[PastBakeoff]:
    """Return the latest bake-offs of an experiment whose models' runs have ended, the oldest first.

    What is read depends on ``last``, not on how many there are.
    """
    models = _models(client, experiment_id, last)
    # The bake-off that runs now has no summary yet.
    summaries = {run.bakeoff: run for run in search_runs(client, [experiment_id], SUMMARY_RUNS, last)}
    bakeoffs = [_bakeoff(name, runs, summaries.get(name)) for name, runs in models.items()]
    return sorted(bakeoffs, key=lambda bakeoff: (bakeoff.at, bakeoff.id))


def past_around(run_ids: Sequence[str], tracking_uri: str | None = None) -> list[PastBakeoff]:
    """Return the latest bake-offs of the experiment that runs are in; none where they are in several.

    Raises:
        TrackingError: The store cannot be reached.
    """
    with existing_store(tracking_uri, "read the bake-offs before") as client:
        experiments = {client.get_run(run_id).info.experiment_id for run_id in run_ids}
        return past_of(client, experiments.pop()) if len(experiments) == 1 else []


def _models(client: mlflow.MlflowClient, experiment: str, last: int) -> dict[str, list[LoggedRun]]:
    """Return the ended runs of models of the latest bake-offs, by bake-off, in config order."""
    by_bakeoff: dict[str, list[LoggedRun]] = {}
    for page in run_pages(client, [experiment], MODEL_RUNS, _PAGE):
        for run in page:
            if run.status in DONE:
                by_bakeoff.setdefault(run.bakeoff, []).append(run)
        if len(by_bakeoff) > last:  # the runs of the last bake-off may go on over the next page
            break
    return {name: in_config_order(runs) for name, runs in list(by_bakeoff.items())[:last]}


def _bakeoff(name: str, runs: Sequence[LoggedRun], summary: LoggedRun | None) -> PastBakeoff:
    decision: dict[str, str | None] = {}
    if summary is not None:
        decision = {key: summary.tag(key) or None for key in ("outcome", "champion", "promoted")}
        if decision["outcome"] not in get_args(
            GateOutcome
        ):  # there is none, or this version does not know it
            decision = {}
    names = [] if summary is None else [summary.tag("decided_dataset"), summary.tag("decided_split")]
    return PastBakeoff(
        id=name,
        at=min(run.started for run in runs),
        primary=runs[0].param("eval.primary") or "",
        baseline=runs[0].param("eval.baseline"),
        models=tuple(map(_model, runs)),
        unregistered=summary is not None and summary.is_unregistered,
        decided=DataSplit(*names) if names and all(names) else None,
        given=runs[0].given,
        **decision,
    )


def _model(run: LoggedRun) -> PastModel:
    params = run.run.data.params
    # With another type or other parameters it is another model of the same name.
    recipe = sorted(key for key in params if key.startswith("model.") and key != "model.name")
    return PastModel(
        model=run.model,
        dataset=run.tag("dataset"),
        split=run.tag("split"),
        run_id=run.id,
        values={} if run.status == "FAILED" else _values(run),
        definitions=run.mapping("definitions"),
        settings=json.dumps({key: params.get(key) for key in (*_RULES, *recipe)}),
        data=run.digests.get("evaluation", ""),
    )


def _values(run: LoggedRun) -> dict[str, Value]:
    logged = run.run.data.metrics
    users = logged.get("users", 0.0) + logged.get("users_undefined", 0.0)
    values = {}
    for name in run.metrics:
        try:
            key = metric_name(name)
        except TrackingError:
            continue  # it was never logged under a name of its own
        if key in logged:
            values[name] = Value(
                mean=logged[key],
                low=logged.get(f"ci/{key}.low", math.nan),
                high=logged.get(f"ci/{key}.high", math.nan),
                users=_count(users - logged.get(f"undefined/{key}", 0.0)),
                differ=f"shared/{key}" in logged,
            )
    return values


def _count(users: float) -> int:
    return int(users) if math.isfinite(users) else 0


FEATURE = HistoryFeature
