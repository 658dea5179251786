"""The experiment that runs stand in: found or made, cleared of dead runs, given a board."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalplugin.base.errors import TrackingError
from evalplugin.base.secrets import redact
from evalplugin.tracking.connection import talking
from evalplugin.tracking.location import artifact_location
from evalplugin.tracking.write.board import (
    BOARD_PREFIX,
    MAX_EXPERIMENT_TAG,
    SHARED_VIEW_TAG,
    Board,
    why_no_board,
)
from evalplugin.tracking.write.provenance import is_gone, process_tags

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["close_dead_runs", "open_experiment", "runs_of_bakeoff", "save_board"]

_KIND = {"mlflow.experimentKind": "custom_model_development"}
_BOARDS_KEPT = 20  # MLflow's page offers 40 saved views, people's own among them


def open_experiment(client: MlflowClient, uri: str, name: str) -> str:
    """Return the id of the experiment of that name, made if there is none, and marked as one of models.

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
            f"MLflow at {redact(uri)}: the experiment {name!r} (id {experiment.experiment_id}) is deleted; "
            f"choose another name, or restore it: MLFLOW_TRACKING_URI={redact(uri)} mlflow experiments restore "
            f"--experiment-id {experiment.experiment_id}"
        )
    for key, value in _KIND.items():
        if key not in experiment.tags:
            client.set_experiment_tag(experiment.experiment_id, key, value)
    return str(experiment.experiment_id)


def close_dead_runs(client: MlflowClient, experiment_id: str) -> None:
    """End as KILLED the runs of an experiment that are RUNNING though the process that made them here is gone."""
    host = process_tags()["evalplugin.host"].replace("'", "")
    running = _search(
        client, experiment_id, f"attributes.status = 'RUNNING' and tags.`evalplugin.host` = '{host}'"
    )
    for run in running:
        if is_gone(run.data.tags):
            client.set_terminated(run.info.run_id, "KILLED")


def runs_of_bakeoff(client: MlflowClient, experiment_id: str, bakeoff: str) -> list[Run]:
    """Return the runs of a bake-off in an experiment, in any state but deleted."""
    return _search(client, experiment_id, f"tags.`evalplugin.bakeoff` = '{bakeoff}'")


def _search(client: MlflowClient, experiment_id: str, query: str) -> list[Run]:
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment_id], query, page_token=token)
        found += page
        if not (token := page.token):
            return found


def save_board(
    client: MlflowClient, uri: str, experiment_id: str, board: Board | None
) -> tuple[Board | None, str | None]:
    """Save a board with an experiment, and forget the oldest of ours; return it, or None and why it was not saved."""
    if board is None:
        return None, "no board was saved: no model has a value to show"
    if (reason := why_no_board(_mlflow_version())) is not None:
        return None, reason
    tag = board.tag_value(int(time.time() * 1000))
    if len(tag) > MAX_EXPERIMENT_TAG:
        return None, f"no board was saved: it takes {len(tag)} characters, MLflow keeps {MAX_EXPERIMENT_TAG}"
    try:
        # MLflow does not document saved views: without one the link opens the plain page.
        with talking(uri, "save the board"):
            client.set_experiment_tag(experiment_id, f"{SHARED_VIEW_TAG}{board.key}", tag)
            for key in _old_boards(client.get_experiment(experiment_id).tags):
                client.delete_experiment_tag(experiment_id, key)
    except TrackingError as error:
        return None, str(error)
    return board, None


def _mlflow_version() -> str:
    from mlflow.version import VERSION

    return str(VERSION)


def _old_boards(tags: Mapping[str, str]) -> list[str]:
    def created(key: str) -> tuple[float, str]:
        try:
            return float(json.loads(tags[key])["createdAt"]), key
        except (ValueError, KeyError, TypeError):
            return 0.0, key  # a view without a date: the bake-off's id, in its key, begins with one

    ours = [key for key in tags if key.startswith(f"{SHARED_VIEW_TAG}{BOARD_PREFIX}")]
    return sorted(ours, key=created, reverse=True)[_BOARDS_KEPT:]
