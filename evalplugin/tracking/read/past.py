"""The last finished bake-off of an experiment."""

from __future__ import annotations

from evalplugin.tracking.connection import FAIL_FAST, connect, tracking_call
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.runs import search_runs

__all__ = ["ROLE", "is_unregistered", "last_finished"]

ROLE = "tags.`evalplugin.role` = '{}'"


def last_finished(uri: str, experiment: str, config: str) -> LoggedRun | None:
    """Return the summary run of the last finished bake-off of a config; None: there is none, or a step of it failed.

    A model that failed, or a winner that could not be registered, is to be tried again.

    Args:
        uri: The tracking store, absolute.
        experiment: Its name.
        config: The hash of the config among the bake-off's inputs.

    Raises:
        TrackingError: The store cannot be reached.
    """
    client = connect(uri)
    with tracking_call(uri, "look for the last bake-off", settings=FAIL_FAST):
        home = client.get_experiment_by_name(experiment)
        if home is None:
            return None
        query = f"attributes.status = 'FINISHED' and tags.`evalplugin.inputs` LIKE '%{config}%'"
        found = search_runs(client, [home.experiment_id], f"{ROLE.format('summary')} and {query}", limit=1)
    if not found or found[0].run.data.metrics.get("models_failed", 0.0) > 0 or is_unregistered(found[0]):
        return None
    return found[0]


def is_unregistered(summary: LoggedRun) -> bool:
    """Return whether the winner of a bake-off could not be registered."""
    return summary.tag("registered").startswith("failed")
