"""The tasks of a bake-off: cached results are loaded, the others computed, and each model is logged when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean

from evalplugin.base.errors import TrackingError
from evalplugin.base.units import count_text
from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import BakeoffResult, ModelResult
from evalplugin.execution.runner import Job, load_cached, results_of
from evalplugin.execution.tasks import TaskResult
from evalplugin.features.base import Running
from evalplugin.tracking.write.tracker import MlflowTracker, key_of
from evalplugin.workspace import Workspace


def load_results(workspace: Workspace, jobs: Sequence[Job], *, of: str = "") -> None:
    """Fill jobs with what is cached, and report how much that is; ``of`` says which jobs these are."""
    cache, observer = workspace.cache, workspace.observer
    load_cached(jobs, cache)
    to_run = [job for job in jobs if not job.failed]
    tasks, cached = sum(len(job.tasks) for job in to_run), sum(len(job.done) for job in to_run)
    if cached:
        observer.report(
            f"{cached} of {tasks} tasks{of} are in the store {cache.store.path} and are not computed again; their "
            f"costs are those measured when they were (--fresh computes anew)"
        )
    if listed := sum(len(job.unscored) for job in to_run):
        observer.report(
            f"the lists of {listed} of {tasks} tasks{of} are in the store and are only scored; what fitting and "
            f"recommending cost is what was measured then"
        )


def run_tasks(running: Running, runs: ModelRuns) -> BakeoffResult:
    """Run the tasks that are not cached, log each model when it is done, and return all results."""
    workspace, jobs, session = running.workspace, running.jobs, running.session
    observer = workspace.observer
    pace = Pace(jobs, session.slots)
    execute = task_executor(session, observer, users_per_task=workspace.users_per_task)
    results: dict[int, ModelResult] = {}

    def label() -> str:
        return f"compute {count_text(pace.total, 'task')} {session.describe()}".rstrip()

    with observer.overall(label, pace.total, pace.seconds_left) as advance:
        advance(pace.done)
        finished = results_of(
            jobs,
            execute,
            workspace.cache,
            starting=lambda number: runs.start(jobs[number]),
            task_ended=lambda: advance(pace.advance()),
        )
        for number, result in finished:
            runs.finish(number, result)
            results[number] = result
            observer.report(f"[{len(results)} of {len(jobs)}] {_line(result)}")
            for note in result.shown_notes:
                observer.warn(note)
    return BakeoffResult(running.bakeoff, tuple(results[number] for number in range(len(jobs))))


@dataclass
class Pace:
    """The pace of the tasks of all jobs, from the costs of those that are done, in this bake-off or a cached one.

    A task is taken to last as long as the others of its model did on average, and one of a model without any as long
    as the average model's.
    """

    jobs: Sequence[Job]
    workers: int  # tasks at a time
    clock: Callable[[], float] = time.monotonic
    _done: int = field(init=False, default=0)
    _changed: float = field(init=False, default=0.0)  # when the last task ended

    def __post_init__(self) -> None:
        self._done, self._changed = self.done, self.clock()

    @property
    def total(self) -> int:
        """The number of tasks."""
        return sum(len(job.tasks) for job in self.jobs)

    @property
    def done(self) -> int:
        """The number of tasks that have ended or need not run."""
        return sum(len(job.tasks) if job.failed else len(job.done) for job in self.jobs)

    def advance(self) -> int:
        """Return how many tasks are done since the last call."""
        before, self._done, self._changed = self._done, self.done, self.clock()
        return self._done - before

    def seconds_left(self) -> float | None:
        """Return the estimated seconds until all tasks are done.

        None as long as no task with known costs is done, and while a task takes much longer than it was estimated to.
        """
        means = {id(job): fmean(seconds) for job in self.jobs if (seconds := _seconds(job))}
        if not means:
            return None
        average = fmean(means.values())
        waiting = running = 0.0
        for job in self.jobs:
            if not job.failed:
                each = means.get(id(job), average)
                running += job.running * each
                waiting += (len(job.tasks) - len(job.done) - job.running) * each
        starts = [job.started for job in self.jobs if job.running]
        since, running = self.clock() - max([self._changed, *starts]), running / self.workers
        if starts and since > 2 * running + 1.0:
            return None
        return waiting / self.workers + max(0.0, running - since)


def _seconds(job: Job) -> list[float]:
    """Return what each task that is done took, without its start, which is long for the first one alone."""
    return [result.costs.seconds for result in job.done.values() if isinstance(result, TaskResult)]


@dataclass
class ModelRuns:
    """The models' runs in MLflow. When MLflow is lost, nothing more is logged, and the work goes on."""

    tracker: MlflowTracker
    observer: Observer
    finished: dict[int, ModelResult] = field(default_factory=dict)  # by the number of the job
    lost: TrackingError | None = None

    def start(self, job: Job) -> None:
        """Start the run of a model to fit."""
        with self._unless_lost() as connected:
            if connected:
                self.tracker.start_model(job.info, job.model.name, job.model.type)

    def finish(self, number: int, result: ModelResult) -> None:
        """Log the result of a job."""
        self.finished[number] = result
        with self._unless_lost() as connected:
            if connected:
                with self.observer.progress(f"log {result.model}"):
                    self.tracker.finish_model(result)

    def check_logged(self) -> None:
        """Check that all results are logged.

        Raises:
            TrackingError: MLflow was lost; the message has the names of the runs that are not logged.
        """
        if self.lost is not None:
            logged = self.tracker.complete
            left = [result for _, result in sorted(self.finished.items()) if key_of(result) not in logged]
            missing = ", ".join(self.tracker.bakeoff.run_name(result.data, result.model) for result in left)
            raise TrackingError(f"{self.lost}; not logged: {missing}, and the summary run") from self.lost

    @contextmanager
    def _unless_lost(self) -> Generator[bool]:
        try:
            yield self.lost is None
        except TrackingError as error:
            self.lost = error
            self.observer.report(f"{error}; the models that are left are computed and kept in the store")


def _line(result: ModelResult) -> str:
    if result.error is not None:
        return f"{result.model}: FAILED: {result.failure}"
    assert result.costs is not None
    costs = result.costs
    return (
        f"{result.model}: fit {costs.fit_seconds:.2f} s, recommend {costs.recommend_seconds:.2f} s, "
        f"score {costs.score_seconds:.2f} s"
    )
