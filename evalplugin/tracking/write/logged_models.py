"""Logged models: MLflow's entity beside a run, by which its tab Models compares models on the same data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from evalplugin.execution.results import ModelResult, Plan
from evalplugin.tracking import mlflow
from evalplugin.tracking.names import MAX_KEY_LENGTH, metric_names, shorten_value
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.items import Item, Metric, OfModel, Param
from evalplugin.tracking.write.labels import dataset_name
from evalplugin.tracking.write.writer import safe_param

if TYPE_CHECKING:
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion

NO_LOGGED_MODELS = "the store keeps no logged models, so that MLflow's tab Models does not show this bake-off"
_REFUSED = re.compile(r"""[/:.%"']""")  # in the name of a logged model
_TAGS = (
    "evalplugin.bakeoff", "evalplugin.model", "evalplugin.dataset", "evalplugin.split", "mlflow.source.", "mlflow.user",
)  # fmt: skip
_COSTS = ("cost/fit_seconds", "cost/recommend_seconds", "cost/peak_memory_mb")
_VERSIONS = "mlflow.modelVersions"  # the tab shows these versions beside the model


def open_logged_model(
    client: mlflow.MlflowClient, run_id: str, items: Iterable[Item], *, new: Run | None = None
) -> LoggedModel | None:
    """Return a run's logged model, created if it is missing; None where the store keeps no logged models.

    Args:
        client: Of the store.
        run_id: The run.
        items: Of the run; parameters of the model among them belong to the logged model too.
        new: The run, if it is new and has no logged model for certain.
    """
    run = new or client.get_run(run_id)
    try:
        if (model := None if new else _of_run(client, run)) is None:
            params = (item for item in items if isinstance(item, Param) and item.key.startswith("model."))
            model = client.create_logged_model(
                run.info.experiment_id,
                name=shorten_value(_REFUSED.sub("_", run.info.run_name), MAX_KEY_LENGTH),
                source_run_id=run_id,
                tags={key: value for key, value in run.data.tags.items() if key.startswith(_TAGS)},
                params={param.key: safe_param(param).text for param in params},
                model_type=LoggedRun(client, run).tag("model_type"),
            )
    except Exception as error:
        if not _is_unsupported(error):
            raise
        return None
    if not (run.outputs and run.outputs.model_outputs):
        client.log_outputs(run_id, [mlflow.entities.LoggedModelOutput(model.model_id, step=0)])
    return model


def logged_model(client: mlflow.MlflowClient, run_id: str) -> LoggedModel | None:
    """Return the logged model of a run; None without one, or where the store keeps no logged models."""
    try:
        return _of_run(client, client.get_run(run_id))
    except Exception as error:
        if not _is_unsupported(error):
            raise
        return None


def _of_run(client: mlflow.MlflowClient, run: Run) -> LoggedModel | None:
    models = client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
    # The answer to its creation may have been lost, and another one created.
    return min(models, key=lambda model: str(model.model_id), default=None)


def _is_unsupported(error: Exception) -> bool:
    """Return whether a server is too old for logged models, or a store that is a plugin of MLflow keeps none."""
    code = getattr(error, "error_code", None)
    return isinstance(error, NotImplementedError) or code == "ENDPOINT_NOT_FOUND"


def of_logged_model(
    items: Iterable[Item], model: LoggedModel | None, plan: Plan, result: ModelResult
) -> Iterator[Item]:
    """Yield the items of a run; its means and costs belong to its logged model too, if there is one.

    Args:
        items: Of the run.
        model: Its logged model.
        plan: Of the bake-off.
        result: The model's result.
    """
    shown = {*metric_names(plan.metrics).values(), "users", *_COSTS}
    of = None
    if model is not None:
        of = OfModel(model.model_id, dataset_name(result.data, "test"), result.data.test_digest)
    for item in items:
        yield item._replace(of=of) if isinstance(item, Metric) and item.key in shown else item


def link_version(client: mlflow.MlflowClient, model: LoggedModel, version: ModelVersion) -> None:
    """Show a version of a registered model beside the logged model that it comes from."""
    versions = json.loads(model.tags.get(_VERSIONS, "[]"))
    versions.append({"name": version.name, "version": str(version.version)})
    client.set_logged_model_tags(model.model_id, {_VERSIONS: json.dumps(versions)})
