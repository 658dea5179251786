"""The tasks of a bake-off: cached results are loaded, the others computed, and each model is logged when it is done."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from evalplugin.base.errors import TrackingError
from evalplugin.base.units import count_text
from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import ModelResult
from evalplugin.execution.runner import Job, load_cached, results_of
from evalplugin.features.base import Bakeoff
from evalplugin.tracking.write.tracker import MlflowTracker, key_of
from evalplugin.workspace import Workspace


def load_results(workspace: Workspace, jobs: Sequence[Job], *, of: str = "") -> None:
    """Fill jobs with cached results, and report their number; ``of`` names the jobs in the report."""
    cache, observer = workspace.cache, workspace.observer
    if not jobs:
        return
    with observer.progress("look for stored results"):
        load_cached(jobs, cache)
    to_run = [job for job in jobs if not job.failed]
    tasks, cached = sum(len(job.tasks) for job in to_run), sum(len(job.done) for job in to_run)
    if cached:
        observer.report(
            f"{cached} of {tasks} tasks{of} are in the store {cache.store.path} and are not computed again; their "
            f"costs are those measured when they were (--fresh computes anew)"
        )
    if listed := sum(task.lists is not None for job in to_run for task in job.tasks):
        observer.report(
            f"the lists of {listed} of {tasks} tasks{of} are in the store and are only scored; what fitting and "
            f"recommending cost is what was measured then"
        )


def report_seeds(workspace: Workspace, jobs: Sequence[Job]) -> None:
    """Report which models are fitted once though there are several seeds, as no random numbers decide their lists."""
    seeds, models = workspace.config.spec.seeds, workspace.config.models
    once = list(dict.fromkeys(job.model.name for job in jobs if job.seeds == 1))
    if seeds > 1 and once:
        workspace.observer.report(
            f"seeds: {', '.join(once)} {'draws' if len(once) == 1 else 'draw'} no random numbers, or always the "
            f"same ones, and {'is' if len(once) == 1 else 'are'} fitted once; the others {seeds} times"
            if len(once) < len(models)
            else f"seeds: no model draws random numbers, so that each is fitted once, not {seeds} times"
        )


def run_tasks(bakeoff: Bakeoff, runs: ModelRuns) -> tuple[ModelResult, ...]:
    """Run the tasks that are not cached, log each model when it is done, and return the results of all."""
    workspace, jobs, session = bakeoff.workspace, bakeoff.jobs, bakeoff.session
    observer = workspace.observer
    execute = task_executor(session, observer, users_per_task=workspace.users_per_task)
    results: dict[int, ModelResult] = {}
    total, shown = sum(len(job.tasks) for job in jobs), 0
    label = f"compute {count_text(total, 'task')} {session.describe()}".rstrip()
    with observer.progress(label, total) as advance:

        def show() -> None:
            nonlocal shown
            before, shown = shown, sum(len(job.tasks) if job.failed else len(job.done) for job in jobs)
            advance(shown - before)

        show()
        finished = results_of(
            jobs,
            execute,
            workspace.cache,
            starting=lambda number: runs.start(jobs[number]),
            task_ended=show,
            observer=observer,
        )
        for number, result in finished:
            runs.finish(number, result)
            results[number] = result
            observer.report(f"[{len(results)} of {len(jobs)}] {_line(result)}")
            for note in result.shown_notes:
                observer.warn(note)
    return tuple(results[number] for number in range(len(jobs)))


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
            missing = ", ".join(self.tracker.plan.run_name(result.data, result.model) for result in left)
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
