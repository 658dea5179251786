"""The dry run: tasks of a config, and the memory they need."""

from __future__ import annotations

from dataclasses import dataclass

from evalplugin.bakeoff.flow import read_data
from evalplugin.config import CheckedConfig
from evalplugin.execution.runner import Job
from evalplugin.features.base import Bakeoff, all_features
from evalplugin.features.power.power import PowerReport, power_of_config
from evalplugin.features.tuning.feature import planned_trials
from evalplugin.models import BLOCK_BYTES, MODELS
from evalplugin.workspace import Workspace


@dataclass(frozen=True)
class PlannedJob:
    """One model on one dataset under one split, all its folds, and the memory that it needs, in 2**20 bytes."""

    job: Job
    users: int  # with a list, in the first fold
    lists_mb: float  # the lists
    block_mb: float  # a block of scores while lists are made
    fit_mb: float | None  # the peak of fitting; None where the model has no estimate
    trials: int | None  # of its tuning, all folds, at most; None: as many as fit into its seconds


@dataclass(frozen=True)
class DryRun:
    """All jobs of a config, in the order in which they would run."""

    config: str
    experiment: str
    jobs: tuple[PlannedJob, ...]
    power: PowerReport  # of the gate, or else of the comparison


def dry_run(workspace: Workspace) -> DryRun:
    """Return the jobs of a bake-off; the data is read and split, nothing is fitted and nothing is logged.

    The tracking store is opened only for what the config names in it: a champion, models of runs, a count of decisions.

    Raises:
        DataError: Data that is missing or breaks a rule.
        ConfigError: A model or a run that a model names is not in the tracking store.
        TrackingError: The store of a champion or of such a model cannot be reached.
    """
    bakeoff = Bakeoff(workspace, all_features())
    read_data(bakeoff)
    config = bakeoff.workspace.config
    planned = tuple(_planned(config, job) for job in bakeoff.jobs)
    return DryRun(
        config.name, workspace.experiment, planned, power_of_config(bakeoff.workspace, bakeoff.prepared)
    )


def _planned(config: CheckedConfig, job: Job) -> PlannedJob:
    task, model = job.tasks[0], job.model
    users = task.split.counts["test_users"]
    needed = MODELS.create(model.type, model.params).fit_bytes(task.split.train)
    return PlannedJob(
        job,
        users=users,
        lists_mb=users * task.n * (4 + 8) / 2**20,
        block_mb=min(BLOCK_BYTES, users * job.info.full.n_items * 8) / 2**20,
        fit_mb=None if needed is None else needed / 2**20,
        trials=planned_trials(config, model, job.folds),
    )
