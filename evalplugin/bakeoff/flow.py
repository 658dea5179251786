"""The whole flow: a checked config is run, and every result is logged as soon as it is there."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.bakeoff.promotion import Entered, decide_bakeoff, enter_champion, register_winner
from evalplugin.bakeoff.resuming import Mode, asked_of, begin, given_up, go_on, is_waiting
from evalplugin.base.errors import ModelError, StoreError, TrackingError
from evalplugin.base.units import bytes_of, count_text
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import contests_of
from evalplugin.comparison.gate import Decision
from evalplugin.comparison.trends import PastBakeoff
from evalplugin.config import CheckedConfig
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Bakeoff, BakeoffResult, ModelResult, new_id
from evalplugin.execution.runner import (
    Execution,
    Job,
    Prepared,
    jobs_of,
    one_by_one,
    prepare,
    results_of,
    take,
)
from evalplugin.execution.store import Store, store_path
from evalplugin.execution.store.journal import Header
from evalplugin.execution.store.steps import Kept
from evalplugin.execution.workers import Limits, check_not_a_worker, in_processes
from evalplugin.metrics import definitions_hash
from evalplugin.report.notebook import Comparisons

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from evalplugin.tracking import Links, MlflowTracker

__all__ = ["Mode", "Outcome", "describe_bakeoff", "run_bakeoff"]


@dataclass(frozen=True)
class Outcome:
    """A bake-off's results, and where they can be looked at. A notebook shows the models by the primary metric."""

    result: BakeoffResult
    comparisons: tuple[Comparison, ...]  # one for each dataset and split, in config order
    links: Links
    decision: Decision | None = None  # of the gate, where there is one
    past: tuple[PastBakeoff, ...] = ()  # the latest bake-offs of the experiment, this one included
    unregistered: str | None = None  # why the winner could not be registered, where that was asked for

    def to_frame(self, metric: str | None = None, *, segment: str | None = None) -> pd.DataFrame:
        """Return the numbers, one row for each model and metric; see ``Comparisons.to_frame``."""
        return self._shown.to_frame(metric, segment=segment)

    def plot(self, metric: str | None = None) -> Figure:
        """Return a matplotlib figure of the differences from the baseline; see ``Comparisons.plot``."""
        return self._shown.plot(metric)

    def to_html(self, path: str | Path) -> Path:
        """Write the page with everything about the bake-off, one file; return its path."""
        return self._shown.to_html(path)

    @property
    def _shown(self) -> Comparisons:
        return Comparisons(self.comparisons, past=lambda: self.past, decision=self.decision)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


def describe_bakeoff(config: CheckedConfig, *, experiment: str | None = None) -> Bakeoff:
    """Return all that is known of a bake-off before it runs, under a new id."""
    spec = config.spec
    asked = spec.recommend
    return Bakeoff(
        id=new_id(),
        experiment=experiment or spec.experiment,
        seed=spec.seed,
        n=asked.n,
        candidates=(
            asked.candidates
            if asked.negatives is None
            else f"{asked.candidates}, {asked.negatives} negatives, seed {spec.seed}"
        ),
        threshold=spec.relevance.threshold,
        metrics=tuple(metric.name for metric in config.metrics),
        primary=config.primary.name,
        baseline=spec.compare.baseline,
        models=tuple(model.name for model in config.models),
        config_name=config.name,
        config_text=config.text,
        config_resolved=config.resolved_yaml,
        config_dir=str(config.folder),
        config_hash=config.hash,
        metrics_hash=definitions_hash(config.metrics),
        datasets=tuple(dataset.name for dataset in config.datasets),
        splits=tuple(split.name for split in config.splits),
    )


def run_bakeoff(
    config: CheckedConfig,
    *,
    data_home: Path | None = None,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
    mode: Mode = "run",
    workers: int | None = None,
    command: Sequence[str] = (),
    if_changed: bool = False,
    begun: Callable[[str], None] = lambda id: None,
) -> Outcome:
    """Return what came of a bake-off: every model on every dataset under every split, logged to MLflow.

    What was computed before is taken from the store, with the costs of that time.

    Args:
        config: What ``evalplugin.config.load`` returned.
        data_home: Where datasets are looked for before they are downloaded.
        tracking_uri, experiment: Win over the config's.
        observer: Hears of progress; None: nobody does.
        mode: ``resume``: go on with the newest bake-off of this config that was cut off, in the same runs, if there
            is one. ``sync``: the same, but compute nothing. ``fresh``: take nothing from the store.
        workers: How many tasks run at a time; None: what the config says.
        command: What follows ``evalplugin run`` on the command line, for messages.
        if_changed: Do nothing if data, config and code are those of the last finished bake-off of this config.
        begun: Hears the bake-off's id as soon as there is something of it in MLflow.

    Raises:
        UnchangedError: There is nothing to do, with ``if_changed``.
        DataError: Data that is missing or breaks a rule; nothing has been fitted.
        StoreError: The store cannot be used; or nothing is there to be logged, with ``sync``.
        TrackingError: The tracking store cannot be reached, and nothing has been fitted; or it went away, and what
            was computed is in the store.
    """
    check_not_a_worker()
    observer = observer or Observer()
    from evalplugin.bakeoff.unchanged import check_changed, inputs_of
    from evalplugin.tracking import MlflowTracker
    from evalplugin.tracking.location import resolve_uri

    uri = resolve_uri(tracking_uri or config.spec.tracking.uri)
    entered = enter_champion(config, uri)
    if entered is not None:
        config = entered.config
        for note in entered.notes:
            observer.report(note)
    place = config.spec.store
    kept = Kept(
        Store(store_path(place.path), max_size=place.max_size, report=observer.report), mode == "fresh"
    )
    prepared = prepare(config, data_home, observer, kept)
    bakeoff = describe_bakeoff(config, experiment=experiment)
    asked = asked_of(config, prepared, experiment=bakeoff.experiment, tracking=uri)
    inputs = inputs_of(config, asked)
    # One that was cut off, if only before its winner was registered, is not done.
    if if_changed and not is_waiting(kept, asked):
        with observer.progress("look for the last bake-off"):
            check_changed(uri, bakeoff.experiment, inputs)
    header = Header(bakeoff.id, asked, time.time(), mode == "fresh", str(Path.cwd()), tuple(command))
    journal = begin(header, kept, mode, observer)
    resumed = journal.header.id != bakeoff.id
    bakeoff = replace(bakeoff, id=journal.header.id, inputs=inputs)
    jobs = jobs_of(config, prepared)
    try:
        take(jobs, kept)
        missing = _missing(jobs, kept, observer)
        if missing and mode == "sync":
            raise StoreError(
                f"{count_text(missing, 'task')} of the bake-off {bakeoff.id} not computed yet; {go_on(journal)}"
            )
        with observer.progress("open the tracking store"):
            tracker = MlflowTracker.open(bakeoff, uri, resume=resumed)
    except BaseException:
        journal.close(finished=not resumed)  # nothing was computed
        raise
    can_go_on = False
    try:
        begun(bakeoff.id)
        if not resumed:
            for old in given_up(journal):
                observer.report(
                    f"the bake-off {old.header.id}, which was cut off, is given up; --resume continues one"
                )
        with kept.store.scratch() as folder:
            execute = _execution(config, observer, folder, missing, workers)
            outcome = _run(config, bakeoff, jobs, tracker, kept, execute, observer, entered)
        if entered is not None and outcome.decision is not None:
            why = _register(entered, prepared, outcome, tracker, observer, kept.store)
            can_go_on = why is not None and not isinstance(why, ModelError)
            if why is not None:
                outcome = replace(outcome, unregistered=f"{why}; {go_on(journal)}" if can_go_on else str(why))
    except BaseException as error:
        # Ctrl-C and SIGTERM included: no run may stay RUNNING for ever.
        with _undisturbed(), observer.progress("end the open runs"):
            tracker.abort()
            journal.close(finished=False)
        if isinstance(error, TrackingError):
            what = f"{error}. What was computed is in the store {kept.store.path}"
            raise TrackingError(f"{what}; {go_on(journal)}") from error
        observer.report(go_on(journal))
        raise
    journal.close(finished=not can_go_on)
    return outcome


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Take no notice of signals that end a program, if this is its main thread, which hears them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _missing(jobs: Sequence[Job], kept: Kept, observer: Observer) -> int:
    """Return how many tasks are to be computed; those that need not be are told of."""
    known = [job for job in jobs if not job.failed]
    tasks, there = sum(len(job.tasks) for job in known), sum(len(job.done) for job in known)
    if there:
        observer.report(
            f"{there} of {tasks} tasks are in the store {kept.store.path} and are not computed again; their "
            f"costs are those measured when they were (--fresh computes anew)"
        )
    if made := sum(len(job.lists) for job in known):
        observer.report(
            f"the lists of {made} of {tasks} tasks are in the store and are only scored; what fitting and recommending "
            f"cost is what was measured then"
        )
    return tasks - there


def _execution(
    config: CheckedConfig, observer: Observer, folder: Path, missing: int, workers: int | None
) -> Execution:
    limits = _limits(config)
    workers = workers or config.spec.workers
    if workers == 1 and limits == Limits():
        return one_by_one(observer)
    return in_processes(
        observer, workers=workers, limits=limits, plugins=config.plugins, folder=folder, total=missing
    )


def _limits(config: CheckedConfig) -> Limits:
    asked = config.spec.limits
    return Limits(asked.seconds, None if asked.memory is None else bytes_of(asked.memory))


def _register(
    entered: Entered,
    prepared: Sequence[Prepared],
    outcome: Outcome,
    tracker: MlflowTracker,
    observer: Observer,
    store: Store,
) -> ModelError | StoreError | TrackingError | None:
    """Register the winner, if there is one; return why that failed, which must not cost what is known of the models."""
    run_id = outcome.links.summary_run_id
    assert outcome.decision is not None
    try:
        with store.scratch() as folder:
            registered = register_winner(
                entered, outcome.decision, prepared, outcome.result, observer,
                tracking_uri=tracker.uri, run_id=run_id, limits=_limits(entered.config), folder=folder,
            )  # fmt: skip
        if registered is not None:
            tracker.tag(run_id, "registered", f"{registered.name}, version {registered.version}")
    except (ModelError, StoreError, TrackingError) as error:
        with suppress(TrackingError):
            tracker.tag(run_id, "registered", f"failed: {error}")
        return error
    return None


def _run(
    config: CheckedConfig,
    bakeoff: Bakeoff,
    jobs: Sequence[Job],
    tracker: MlflowTracker,
    kept: Kept,
    execute: Execution,
    observer: Observer,
    entered: Entered | None,
) -> Outcome:
    runs = _Runs(tracker, observer)
    results: dict[int, ModelResult] = {}
    for number, result in results_of(jobs, execute, kept, lambda number: runs.start(number, jobs[number])):
        runs.finish(number, result)
        results[number] = result
        observer.report(f"[{len(results)} of {len(jobs)}] {_line(result)}")
    if runs.lost is not None:
        raise runs.lost
    with observer.progress("compare"):
        whole = BakeoffResult(bakeoff, tuple(results[number] for number in range(len(jobs))))
        contests = contests_of(whole)
        comparisons = tuple(compare(contest) for contest in contests)
        decision = None if entered is None else decide_bakeoff(entered, contests)
    with observer.progress("log the bake-off"):
        run_ids = [runs.ids[number] for number in range(len(jobs))]
        board = config.spec.tracking.board
        past = tracker.past_bakeoffs(decision)
        links = tracker.finish_bakeoff(whole, comparisons, run_ids, board=board, decision=decision, past=past)
    return Outcome(whole, comparisons, links, decision, past)


@dataclass
class _Runs:
    """The runs of the models in MLflow. When MLflow goes away, the work goes on: results stay in our own store."""

    tracker: MlflowTracker
    observer: Observer
    ids: dict[int, str] = field(default_factory=dict)  # by number of the job
    lost: TrackingError | None = None

    def start(self, number: int, job: Job) -> None:
        with self._unless_lost() as there:
            if there:
                self.ids[number] = self.tracker.start_model(job.info, job.model.name, job.model.type)

    def finish(self, number: int, result: ModelResult) -> None:
        with self._unless_lost() as there:
            if there:
                with self.observer.progress(f"log {result.model}"):
                    self.tracker.finish_model(self.ids[number], result)

    @contextmanager
    def _unless_lost(self) -> Iterator[bool]:
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
