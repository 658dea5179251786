"""The dry run: tasks of a config, and the memory they need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalplugin.bakeoff.flow import FEATURES, read_data
from evalplugin.features.power import PowerReport, power_of_config
from evalplugin.models import BLOCK_BYTES, MODELS
from evalplugin.workspace import Workspace


@dataclass(frozen=True)
class PlannedTask:
    """One model on one dataset under one split, all its folds."""

    dataset: str
    split: str
    model: str
    type: str
    folds: int
    seeds: int  # how often it is fitted on each fold
    users: int  # with a list, in the first fold
    n: int
    lists_mb: float  # the lists, in 2**20 bytes
    block_mb: float  # a block of scores while lists are made, in 2**20 bytes
    fit_mb: float | None  # the peak of fitting, in 2**20 bytes; None where the model has no estimate
    trials: int | None = 0  # of its tuning, all folds, at most; None: as many as fit into its seconds


@dataclass(frozen=True)
class Plan:
    """All tasks of a config, in the order in which they would run."""

    config: str
    experiment: str
    tasks: tuple[PlannedTask, ...]
    power: PowerReport  # of the gate, or else of the comparison


def plan(workspace: Workspace) -> Plan:
    """Return the tasks of a bake-off; the data is read and split, nothing is fitted and nothing is logged.

    A champion from MLflow, earlier decisions and bake-offs are looked up in the workspace's tracking store.

    Raises:
        DataError: Data that is missing or breaks a rule.
        ConfigError: A model or a run that a model names is not in the tracking store.
        TrackingError: The store of a champion or of such a model cannot be reached.
    """
    workspace, data, jobs = read_data(workspace, [kind() for kind in FEATURES], cached=False)
    config, tasks = workspace.config, []
    n = config.spec.recommend.n
    for prepared in data:
        info, fold = prepared.info, prepared.folds[0]
        users = len(np.unique(fold.test.user))
        for job in (job for job in jobs if job.info is info):
            named = job.model
            needed = getattr(MODELS.create(named.type, named.params), "fit_bytes", lambda train: None)(
                fold.train
            )
            tasks.append(
                PlannedTask(
                    dataset=info.dataset,
                    split=info.split,
                    model=named.name,
                    type=named.type,
                    folds=info.n_folds,
                    seeds=job.seeds,
                    users=users,
                    n=n,
                    lists_mb=users * n * (4 + 8) / 2**20,
                    block_mb=min(BLOCK_BYTES, users * info.full.n_items * 8) / 2**20,
                    fit_mb=None if needed is None else needed / 2**20,
                    trials=config.planned_trials(named, info.n_folds),
                )
            )
    return Plan(config.name, workspace.experiment, tuple(tasks), power_of_config(workspace, data))
