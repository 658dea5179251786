"""The tasks of a bake-off: run, and each model logged as soon as its own are done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field

from evalplugin.base.errors import TrackingError
from evalplugin.base.units import count_text
from evalplugin.config import CheckedConfig
from evalplugin.execution.engines import Needs, Session
from evalplugin.execution.engines.local import Local
from evalplugin.execution.observer import Observer
from evalplugin.execution.pace import Pace
from evalplugin.execution.results import Bakeoff, BakeoffResult, ModelResult
from evalplugin.execution.runner import Job, TaskExecutor, results_of
from evalplugin.execution.store import private_folder
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.worker import Limits
from evalplugin.tracking import MlflowTracker

__all__ = ["open_session", "report_seeds", "run_tasks", "users_per_task"]


@contextmanager
def open_session(
    config: CheckedConfig,
    observer: Observer,
    *,
    workers: int | None,
    inputs: Mapping[str, str],
    here: bool = False,
) -> Generator[Session]:
    """Yield a session of the config's engine, with a folder for its files that no other user can write to.

    Args:
        config: Of the bake-off.
        observer: Receives what the engine finds.
        workers: Tasks at a time; None: as in the config.
        inputs: Files that tasks read, with fingerprints, which must be the same on every node.
        here: Whether nothing is to be computed, so that no other machine is asked.

    Raises:
        EngineError: The engine cannot run the tasks.
    """
    engine = Local() if here or config.engine is None else config.engine.component
    if workers is None and "workers" in config.spec.model_fields_set:
        workers = config.spec.workers
    components = [("model", model.type) for model in config.models]
    components += [("metric", metric.family) for metric in config.metrics]
    with private_folder() as folder:
        needs = Needs(
            folder=folder,
            plugins=config.plugins,
            limits=Limits.of(config.spec.limits),
            workers=workers,
            components=components,
            inputs=inputs,
            base=config.folder,
            report=observer.report,
        )
        with observer.progress("open the engine") if config.engine else nullcontext(), ExitStack() as opened:
            session = opened.enter_context(engine.open(needs))
            opened = opened.pop_all()
        with opened:
            yield session


def users_per_task(config: CheckedConfig) -> int | None:
    """Return the number of test users above which a model's users are split into ranges; None: never."""
    engine = Local() if config.engine is None else config.engine.component
    return getattr(engine, "users_per_task", None)


def report_seeds(config: CheckedConfig, jobs: Sequence[Job], observer: Observer) -> None:
    """Report which models are fitted once though there are several seeds, as no random numbers decide their lists."""
    once = list(dict.fromkeys(job.model.name for job in jobs if job.seeds == 1))
    if config.spec.seeds > 1 and once:
        observer.report(
            f"seeds: {', '.join(once)} {'draws' if len(once) == 1 else 'draw'} no random numbers, or always the same "
            f"ones, and {'is' if len(once) == 1 else 'are'} fitted once; the others {config.spec.seeds} times"
            if len(once) < len(config.models)
            else f"seeds: no model draws random numbers, so that each is fitted once, not {config.spec.seeds} times"
        )


def run_tasks(
    bakeoff: Bakeoff,
    jobs: Sequence[Job],
    execute: TaskExecutor,
    cache: StepCache,
    tracker: MlflowTracker,
    observer: Observer,
    pace: Pace,
    where: Callable[[], str],
) -> tuple[BakeoffResult, list[str]]:
    """Run the tasks that are not cached, log each model when it is done; return all results and the ids of their runs.

    ``where`` returns where tasks run now, for progress.

    Raises:
        TrackingError: MLflow was lost; all models were computed nevertheless and are in the store.
    """
    runs = _ModelRuns(tracker, observer)
    results: dict[int, ModelResult] = {}

    def label() -> str:
        return f"compute {count_text(pace.total, 'task')} {where()}".rstrip()

    with observer.overall(label, pace.total, pace.seconds_left) as advance:
        advance(pace.done)
        found = results_of(
            jobs,
            execute,
            cache,
            starting=lambda number: runs.start(number, jobs[number]),
            task_ended=lambda: advance(pace.advance()),
        )
        for number, result in found:
            runs.finish(number, result)
            results[number] = result
            observer.report(f"[{len(results)} of {len(jobs)}] {_line(result)}")
            for note in result.shown_notes:
                observer.warn(note)
    runs.raise_if_lost()
    numbers = range(len(jobs))
    return BakeoffResult(bakeoff, tuple(results[n] for n in numbers)), [runs.ids[n] for n in numbers]


@dataclass
class _ModelRuns:
    """The models' runs in MLflow. When MLflow is lost, nothing more is logged, and the work goes on."""

    tracker: MlflowTracker
    observer: Observer
    ids: dict[int, str] = field(default_factory=dict)  # by number of the job
    unlogged: dict[int, str] = field(default_factory=dict)  # names of the runs of finished jobs
    lost: TrackingError | None = None

    def start(self, number: int, job: Job) -> None:
        with self._unless_lost() as connected:
            if connected:
                self.ids[number] = self.tracker.start_model(job.info, job.model.name, job.model.type)

    def finish(self, number: int, result: ModelResult) -> None:
        bakeoff, data = self.tracker.bakeoff, result.data
        self.unlogged[number] = bakeoff.run_name(data, result.model)
        with self._unless_lost() as connected:
            if connected:
                with self.observer.progress(f"log {result.model}"):
                    self.tracker.finish_model(self.ids[number], result)
                del self.unlogged[number]

    def raise_if_lost(self) -> None:
        """Raise the error by which MLflow was lost, with the names of the runs that are not logged."""
        if self.lost is not None:
            missing = ", ".join(name for _, name in sorted(self.unlogged.items()))
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
