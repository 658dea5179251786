"""Earlier decisions of a gate, read from the runs that have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalplugin.comparison.gate import Budget
from evalplugin.tracking.connection import FAIL_FAST, connect_to_existing, store_exists, tracking_call
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.read.query import search_runs

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["budget_beside", "budget_in", "decided_bakeoff"]

_SPENDING = "tags.`evalplugin.error_spent` != ''"


def budget_in(
    uri: str, experiment: str, decisions: int, *, dataset: str, split: str, but: str | None = None
) -> Budget:
    """Return what the decisions in an experiment have left of ``decisions``; all, where there is no experiment.

    Those count that were taken with ``gate.decisions`` on the same dataset and split, whatever else the gate said;
    one for each bake-off; none that the gate refused.

    Args:
        uri: The tracking store, absolute.
        experiment: Its name.
        decisions: ``gate.decisions``.
        dataset, split: Their names.
        but: The id of the bake-off that is decided, whose earlier decisions do not count.

    Raises:
        TrackingError: The store cannot be reached.
    """
    if not store_exists(uri):
        return Budget(decisions)
    client = connect_to_existing(uri)
    with tracking_call(uri, "read earlier decisions", settings=FAIL_FAST):
        home = client.get_experiment_by_name(experiment)
        return (
            Budget(decisions)
            if home is None
            else _left(client, home.experiment_id, decisions, dataset, split, but)
        )


def budget_beside(
    tracking_uri: str | None, run_ids: Sequence[str], decisions: int, *, dataset: str, split: str
) -> Budget:
    """Return what the decisions in the experiment of runs that are decided on have left; else as ``budget_in``."""
    uri = resolve_uri(tracking_uri)
    client = connect_to_existing(uri)
    with tracking_call(uri, "read earlier decisions", settings=FAIL_FAST):
        runs = [LoggedRun(client, client.get_run(run_id)) for run_id in run_ids]
        return _left(client, runs[0].experiment_id, decisions, dataset, split, decided_bakeoff(runs))


def decided_bakeoff(runs: Sequence[LoggedRun]) -> str:
    """Return the id of the bake-off that runs are of; several, if they are."""
    return ", ".join(sorted({run.bakeoff for run in runs}))


def _left(
    client: MlflowClient, experiment_id: str, decisions: int, dataset: str, split: str, but: str | None
) -> Budget:
    spent: dict[
        str, float
    ] = {}  # by bake-off: a further decision on it, by other conditions, may have spent more
    for run in search_runs(client, [experiment_id], _SPENDING):
        error, bakeoff = float(run.tag("error_spent")), run.tag("decided_bakeoff") or run.bakeoff
        where = run.tag("decided_dataset"), run.tag("decided_split")
        if error > 0 and bakeoff != but and where == (dataset, split):
            spent[bakeoff] = max(error, spent.get(bakeoff, 0.0))
    return Budget(decisions, len(spent), sum(spent.values()))
