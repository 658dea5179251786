"""The MLflow run of lists made elsewhere, with the same contents as a model's run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.data import Interactions
from evalplugin.execution.results import DataInfo, FoldLists, ModelResult, Plan, new_id
from evalplugin.metrics import MetricSpec, definitions_hash
from evalplugin.metrics.relevance import Relevance
from evalplugin.metrics.scores import PerUserScores
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import FAIL_FAST, tracking_call
from evalplugin.tracking.location import ui_base_url, ui_command, ui_query
from evalplugin.tracking.names import metric_names
from evalplugin.tracking.write.artifacts import picture_artifacts
from evalplugin.tracking.write.contents import model_items
from evalplugin.tracking.write.items import Artifact, Metric
from evalplugin.tracking.write.labels import common_tags, model_tags, without_tags
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.tracking.write.writer import RunWriter


def plan_from_elsewhere(
    asked: Mapping[str, object],
    origin: str,
    *,
    experiment: str,
    metrics: Sequence[MetricSpec],
    models: Sequence[str],
    dataset: str,
    **known: Any,
) -> Plan:
    """Return the plan of a bake-off of lists or scores made elsewhere.

    Args:
        asked: The options of the command or function, plain values, in place of a config.
        origin: The command or function.
        experiment: Name of the MLflow experiment.
        metrics: The first one is the primary metric, if none is known.
        models: Names of the models.
        dataset: Name of the data.
        known: Further fields of the plan.
    """
    text = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in asked.items())
    unknown: dict[str, Any] = {
        "seed": 0, "n": 0, "candidates": None, "relevance": Relevance(), "primary": metrics[0].name,
        "baseline": None,
    }  # fmt: skip
    return Plan(
        id=new_id(),
        experiment=experiment,
        ties=None,
        cold_users=None,
        metrics=tuple(spec.name for spec in metrics),
        models=tuple(models),
        config_name=origin,
        config_text=text,
        config_resolved=text,
        config_dir=str(Path.cwd()),
        config_hash=hashlib.sha256(text.encode()).hexdigest(),
        metrics_hash=definitions_hash(metrics),
        datasets=(dataset,),
        **(unknown | known),
    )


@dataclass(frozen=True, eq=False)
class ScoredLists:
    """Lists made elsewhere: their scores and their origin, as they are logged."""

    name: str  # of the model that made them
    scores: PerUserScores  # with curves in ``at_k``
    metrics: Sequence[MetricSpec]  # the first one is the primary metric
    relevance: Relevance
    folds: Sequence[tuple[Interactions | None, Interactions]]  # train data and truth of each
    asked: Mapping[str, object]  # the options of the command or function, plain values
    origin: str  # the command or function
    dataset: str  # name of the data
    data: Mapping[str, object]  # origin of the data
    type: str = "lists"  # of the model
    params: Mapping[str, object] = field(default_factory=dict)  # of the model
    data_type: str = "files"
    candidates: str | None = None  # None: not known
    lists: FoldLists | None = None
    fold_means: tuple[Mapping[str, float], ...] = ()

    def plan(self, experiment: str) -> Plan:
        """Return the plan of a bake-off of one model."""
        return plan_from_elsewhere(
            self.asked,
            self.origin,
            experiment=experiment,
            metrics=self.metrics,
            models=[self.name],
            dataset=self.dataset,
            # Length of the longest list, or the largest cutoff if that is more.
            n=max((max(curve) for curve in self.scores.at_k.values()), default=0),
            candidates=self.candidates,
            relevance=self.relevance,
        )

    def result(self) -> ModelResult:
        """Return the scores as a model's result."""
        (train, truth), *later = self.folds
        data = DataInfo(
            dataset=self.dataset,
            type=self.data_type,
            params=self.data,
            split="",
            split_type="given",
            split_params={},
            full=truth,
            train=train,
            test=truth,
            n_folds=len(self.folds),
            later=tuple(later),
            counts={"test_users": truth.n_users, "test_interactions": len(truth)},
            units=self.scores.units,
        )
        result = ModelResult(data, self.name, self.type, self.params, per_user=self.scores, lists=self.lists)
        return replace(result, fold_means=self.fold_means)


def log_lists(lists: ScoredLists, *, experiment: str, tracking_uri: str | None = None) -> dict[str, str]:
    """Return links to the new run: ``store``, ``run`` and, where a server must be started first, its command ``look``.

    Raises:
        TrackingError: The store cannot be reached or used.
    """
    plan, result = lists.plan(experiment), lists.result()
    with MlflowTracker.open(plan, tracking_uri) as tracker:
        tracker.start_model(result.data, result.model, result.type)
        tracker.finish_model(result, _pictures(plan, result))
        run_id = tracker.run_id(result)
    page = f"{ui_base_url(tracker.uri)}/#/experiments/{tracker.experiment_id}/runs/{run_id}{ui_query(tracker.uri)}"
    command = ui_command(tracker.uri)
    return {"store": redact(tracker.uri), "run": page} | ({} if command is None else {"look": command})


def open_run(run_id: str, metrics: Sequence[MetricSpec]) -> mlflow.entities.Run:
    """Return a run of the current store that another program has started, if results can be logged into it.

    Raises:
        TrackingError: The store cannot be reached, the run holds a model's results already, or two metrics have
            one name in MLflow.
    """
    metric_names(spec.name for spec in metrics)
    uri = mlflow.get_tracking_uri()
    with tracking_call(uri, f"read the run {run_id}", settings=FAIL_FAST):
        run = mlflow.MlflowClient(uri).get_run(run_id)
    if "evalplugin.role" in run.data.tags:
        holds = run.data.tags.get("evalplugin.model", "a bake-off's summary")
        raise TrackingError(
            f"MLflow's run {run.info.run_name!r} ({run_id}) holds the results of {holds!r} already: "
            f"a run is one model on one dataset; evaluate inside another mlflow.start_run()"
        )
    return run


def log_into_run(lists: ScoredLists, run: mlflow.entities.Run, folder: Path) -> dict[str, float]:
    """Log lists into a run that another program has started and will end, and return its metrics without curves.

    The files of the run are written to ``folder`` and stay there.

    Raises:
        TrackingError: The store refuses what is logged.
    """
    uri = mlflow.get_tracking_uri()
    client = mlflow.MlflowClient(uri)
    with tracking_call(uri, "read the experiment", settings=FAIL_FAST):
        experiment = client.get_experiment(run.info.experiment_id)
    plan, result = lists.plan(experiment.name), lists.result()
    present = run.data.tags
    items = [*model_items(plan, result), *_pictures(plan, result)]
    tags = [*common_tags(plan), *model_tags(result.data, result.model, result.type)]
    writer = RunWriter(client, experiment.experiment_id)
    run_id = writer.attach(run)
    with tracking_call(uri, f"log {result.model}"):
        writer.log(run_id, without_tags(items, present), folder)
    with tracking_call(uri, f"tag {result.model}"):
        writer.log(run_id, without_tags(tags, present))  # last: a run with these tags holds everything
    metrics = [item for item in items if isinstance(item, Metric)]
    curves = {metric.key for metric in metrics if metric.step}
    return {metric.key: metric.value for metric in metrics if metric.key not in curves}


def _pictures(plan: Plan, result: ModelResult) -> list[Artifact]:
    pictures = picture_artifacts(plan, [result])
    return pictures.get((result.data.dataset, result.data.split, result.model), [])
