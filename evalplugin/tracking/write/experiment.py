"""The experiment of a bake-off's runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalplugin.base.errors import TrackingError
from evalplugin.tracking.location import artifact_location
from evalplugin.tracking.read.query import search_runs
from evalplugin.tracking.write.provenance import is_gone, process_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["close_dead_runs", "open_experiment"]

_KIND = {"mlflow.experimentKind": "custom_model_development"}


def open_experiment(client: MlflowClient, uri: str, name: str) -> str:
    """Return the id of the experiment of that name, created if there is none, and marked as one of models.

    Raises:
        TrackingError: The experiment is deleted.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name, artifact_location(uri, name), tags=_KIND))
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            return open_experiment(client, uri, name)  # another process was faster
    if experiment.lifecycle_stage != "active":
        raise TrackingError(
            f"MLflow at {uri}: the experiment {name!r} (id {experiment.experiment_id}) is deleted; "
            f"choose another name, or restore it: MLFLOW_TRACKING_URI={uri} mlflow experiments restore "
            f"--experiment-id {experiment.experiment_id}"
        )
    for key, value in _KIND.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def close_dead_runs(client: MlflowClient, experiment_id: str) -> None:
    """End as KILLED the runs of an experiment that are RUNNING though the process that made them here is gone."""
    host = process_tags()["evalplugin.host"].replace("'", "")
    query = f"attributes.status = 'RUNNING' and tags.`evalplugin.host` = '{host}'"
    for run in search_runs(client, [experiment_id], query):
        if is_gone(run.run.data.tags):
            client.set_terminated(run.id, "KILLED")
