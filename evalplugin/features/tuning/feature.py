"""Tuning in a bake-off: studies are run before the tasks, which then have the best parameters."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import BakeoffResult, DataSplit
from evalplugin.execution.runner import Job, PreparedData, Result
from evalplugin.execution.tasks import Task
from evalplugin.features.base import Feature, Running
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.pictures import study_pictures
from evalplugin.features.tuning.plan import studies_of
from evalplugin.features.tuning.study import Study
from evalplugin.report.drawing import PictureRequest
from evalplugin.workspace import Workspace


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

    def pictures(self, result: BakeoffResult) -> Iterator[tuple[DataSplit, str, PictureRequest]]:
        """Yield the history and the importance of each model's trials."""
        return study_pictures(result)

    def before_tasks(self, running: Running) -> Running:
        """Run the studies, and give the jobs of tuned models their best parameters.

        Raises:
            StoreError: Some trials are not cached, with ``sync``.
        """
        workspace = running.workspace

        def refuse(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
            yield from ()
            raise workspace.missing_error(len(list(tasks)), "trial")

        # The progress of all trials together is shown.
        run = refuse if workspace.mode == "sync" else task_executor(running.session, Observer())
        jobs = run_studies(self.studies, running.jobs, run, workspace.cache, workspace.observer)
        return replace(running, jobs=jobs)
