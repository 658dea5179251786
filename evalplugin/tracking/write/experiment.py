"""The experiment of a bake-off: opened, and without open runs of processes that have ended."""

from __future__ import annotations

import shlex

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.tracking import mlflow
from evalplugin.tracking.connection import attempt
from evalplugin.tracking.location import artifact_location
from evalplugin.tracking.read.runs import search_runs
from evalplugin.tracking.write.provenance import is_gone, process_tags

_KIND = {"mlflow.experimentKind": "custom_model_development"}


def open_experiment(client: mlflow.MlflowClient, uri: str, name: str) -> str:
    """Return the id of the named experiment, created if it is missing, and marked as one of models."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = artifact_location(uri, name)
        made = attempt("RESOURCE_ALREADY_EXISTS", client.create_experiment, name, location, tags=_KIND)
        # None: another process was faster.
        return str(made) if made is not None else open_experiment(client, uri, name)
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow at {uri}: the experiment {name!r} (id {experiment.experiment_id}) is deleted; "
            f"choose another name, or restore it: MLFLOW_TRACKING_URI={shlex.quote(redact(uri))} mlflow experiments "
            f"restore --experiment-id {experiment.experiment_id}"
        )
    for key, value in _KIND.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def close_dead_runs(client: mlflow.MlflowClient, experiment_id: str) -> None:
    """End as KILLED the runs of an experiment that are RUNNING though the process that made them here is gone."""
    host = process_tags()["evalplugin.host"].replace("'", "")
    query = f"attributes.status = 'RUNNING' and tags.`evalplugin.host` = '{host}'"
    for run in search_runs(client, [experiment_id], query):
        if is_gone(run.run.data.tags):
            client.set_terminated(run.id, "KILLED")
