"""Tuning in a bake-off: studies are run before the tasks, which then have the best parameters."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Job, PreparedData, Result
from evalplugin.execution.tasks import Task
from evalplugin.features.base import Feature, Running
from evalplugin.features.resume import load_results, missing_error
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.plan import studies_of
from evalplugin.features.tuning.study import Study
from evalplugin.workspace import Workspace

__all__ = ["TuningFeature"]


@dataclass
class TuningFeature(Feature):
    """Chooses the parameters of tuned models on validation data inside the train data of each fold."""

    studies: list[Study] = field(default_factory=list)

    def with_jobs(self, workspace: Workspace, prepared: list[PreparedData], jobs: list[Job]) -> list[Job]:
        """Split the validation data.

        Raises:
            DataError: The train data of a fold cannot be split into train and validation data.
        """
        self.studies = studies_of(workspace.config, prepared, jobs)
        return jobs

    def before_tasks(self, running: Running, jobs: list[Job]) -> list[Job]:
        """Return the jobs, those of tuned models with the parameters that were found and what is cached of them.

        Raises:
            StoreError: Some trials or tasks of tuned models are not cached, with ``sync``.
        """
        workspace = running.workspace

        def refuse(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
            yield from ()
            raise missing_error(len(list(tasks)), "trial", running.journal)

        if not self.studies:
            return jobs
        # The progress of all trials is shown, and not that of each.
        run = refuse if workspace.mode == "sync" else task_executor(running.session, Observer())
        jobs = run_studies(self.studies, jobs, run, workspace.cache, workspace.observer)
        tuned = [job for job in jobs if job.model.space]
        load_results(workspace, tuned, running.journal, of=" of tuned models")
        return jobs
