"""Running a bake-off: data, tasks, results logged one by one, comparison, decision, registration."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.bakeoff.budget import check_budget
from evalplugin.bakeoff.data_command import cards_of
from evalplugin.bakeoff.description import describe_bakeoff
from evalplugin.bakeoff.promotion import GatedConfig, decide_bakeoff, register_winner, with_champion
from evalplugin.bakeoff.resuming import (
    Mode,
    abandon_older,
    explain_resume,
    fingerprints_of,
    is_pending,
    open_journal,
    resume_hint,
)
from evalplugin.bakeoff.tasks import open_session, report_seeds, run_tasks, users_per_task
from evalplugin.bakeoff.unchanged import (
    check_declared,
    check_stored,
    inputs_of,
    named_inputs,
    raise_if_unchanged,
)
from evalplugin.base.errors import EngineError, ModelError, StoreError, TrackingError
from evalplugin.base.inputs import Inputs
from evalplugin.base.units import count_text
from evalplugin.checks import with_data_findings, with_result_findings
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import contests_of, findings_of
from evalplugin.comparison.gate import Decision
from evalplugin.comparison.trends import PastBakeoff
from evalplugin.config import CheckedConfig
from evalplugin.config.inputs import stored_uris
from evalplugin.data.drift import DescribedData, Drift
from evalplugin.execution.engines import Session
from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.pace import Pace
from evalplugin.execution.results import Bakeoff, BakeoffResult, Finding
from evalplugin.execution.runner import (
    Job,
    PreparedData,
    Result,
    jobs_of,
    load_cached,
    prepare,
)
from evalplugin.execution.store.journal import Journal
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import Task
from evalplugin.execution.worker import refuse_in_worker
from evalplugin.report.data_card import drift_sentence
from evalplugin.report.drawing import drawing_processes
from evalplugin.report.notebook import Comparisons
from evalplugin.report.page.library import make_in_background
from evalplugin.tracking import Links, MlflowTracker
from evalplugin.tracking.location import resolve_uri
from evalplugin.tracking.new_store import prepare_store
from evalplugin.tracking.read.uris import uri_version
from evalplugin.tracking.write.artifacts import Pictures, drawn_pictures
from evalplugin.tracking.write.large import LargeTables
from evalplugin.tuning import Study, run_studies, studies_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


__all__ = ["Mode", "Outcome", "run_bakeoff"]


@dataclass(frozen=True)
class Outcome:
    """A bake-off's results and the links to them. A notebook shows the models by the primary metric."""

    result: BakeoffResult
    comparisons: tuple[Comparison, ...]  # one for each dataset and split, in config order
    links: Links
    decision: Decision | None = None  # of the gate, where there is one
    past: tuple[PastBakeoff, ...] = ()  # the latest bake-offs of the experiment, this one included
    unregistered: str | None = None  # why the winner could not be registered, where the config has a register
    data: DescribedData | None = None  # cards of the datasets, and what has changed in them

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks have found in the data and in the results."""
        return findings_of(one.contest for one in self.comparisons)

    @property
    def errors(self) -> list[Finding]:
        """The findings that the config declares to be errors."""
        return [finding for finding in self.findings if finding.severity == "error"]

    def to_frame(self, metric: str | None = None, *, segment: str | None = None) -> pd.DataFrame:
        """Return the numbers, one row for each model and metric; see ``Comparisons.to_frame``."""
        return self._shown.to_frame(metric, segment=segment)

    def plot(self, metric: str | None = None) -> Figure:
        """Return a matplotlib figure of the differences from the baseline; see ``Comparisons.plot``."""
        return self._shown.plot(metric)

    def to_html(self, path: str | Path) -> str | Path:
        """Write the page with everything about the bake-off, one file; return its path or URI."""
        return self._shown.to_html(path)

    @property
    def _shown(self) -> Comparisons:
        return Comparisons(self.comparisons, past=lambda: self.past, decision=self.decision, data=self.data)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


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
    on_start: Callable[[str], None] = lambda id: None,
) -> Outcome:
    """Run a bake-off: every model on every dataset under every split, each logged to MLflow as soon as it is done.

    Args:
        config: From ``evalplugin.config.load``.
        data_home: Folder where datasets are looked up before they are downloaded.
        tracking_uri, experiment: Win over the config's.
        observer: Receives progress.
        mode: ``resume``: continue the newest bake-off of this config that was cut off, in the same runs, if there is
            one. ``sync``: the same, but compute nothing. ``fresh``: take nothing from the cache.
        workers: How many tasks run at a time; None: as in the config.
        command: Arguments of ``evalplugin run`` on the command line, for messages.
        if_changed: Do nothing if data, config and code are those of the last finished bake-off of this config.
        on_start: Receives the bake-off's id as soon as its first run is in MLflow.

    Raises:
        UnchangedError: There is nothing to do, with ``if_changed``.
        ConfigError: A model or a run that a model names is not in the tracking store.
        DataError: Data that is missing or breaks a rule; nothing has been fitted.
        StoreError: The store cannot be used; or it lacks results to log, with ``sync``.
        TrackingError: MLflow cannot be reached, and nothing was fitted; or it was lost later: all results are stored.
    """
    refuse_in_worker()
    observer = observer or Observer()
    uri = resolve_uri(tracking_uri or config.spec.tracking.uri)
    make_in_background()
    prepare_store(uri)
    large = LargeTables(
        config.spec.tracking.large_artifacts, experiment or config.spec.experiment, observer.warn
    )
    large.check()
    gated = with_champion(config, uri, observer.report)
    config = config if gated is None else gated.config
    check_stored(config, uri)
    check_budget(config, uri, experiment or config.spec.experiment, observer)
    own = {one for model in config.models for one in stored_uris(model).values()}
    resolve = partial(uri_version, tracking_uri=uri, own=own)
    cache = StepCache.open(config.spec.store, observer.report, fresh=mode == "fresh", resolve=resolve)
    prepared = with_data_findings(config, prepare(config, data_home, observer, cache), observer)
    jobs = jobs_of(config, prepared, tracking_uri=uri)
    report_seeds(config, jobs, observer)
    studies = studies_of(config, prepared, jobs)
    with observer.progress("look up the inputs of models"):
        check_declared(config, cache, observer)
        named = cache.named(named_inputs(jobs))
    bakeoff = describe_bakeoff(config, experiment)
    fingerprints = fingerprints_of(config, prepared, experiment=bakeoff.experiment, tracking=uri)
    bakeoff = replace(bakeoff, inputs=inputs_of(config, fingerprints))
    # A bake-off that was cut off, if only before its winner was registered, is not done.
    if if_changed and not is_pending(cache.store.journals, fingerprints):
        with observer.progress("look for the last bake-off"):
            champion = None if gated is None else gated.champion
            raise_if_unchanged(uri, bakeoff.experiment, bakeoff.inputs, named, champion, observer)
    with open_journal(bakeoff.id, fingerprints, cache, mode, observer, command, jobs) as journal:
        bakeoff = replace(bakeoff, id=journal.header.id)
        untuned = [job for job in jobs if not job.model.space]
        load_cached(untuned, cache)
        _check_missing(untuned, cache, journal, mode, observer)
        open_engine = partial(open_session, config, observer, inputs=named)
        idle = mode == "sync" or (not studies and all(job.ended for job in jobs))
        with (
            # First: where the engine cannot run tasks, nothing is logged.
            open_engine(workers=workers, here=idle) as session,
            _open_tracker(bakeoff, uri, large, journal, cache, observer) as tracker,
        ):
            on_start(bakeoff.id)
            abandon_older(journal, mode, observer)
            jobs = _tune(studies, jobs, cache, journal, mode, observer, session)
            pace = Pace(jobs, session.slots)
            pictures_of_model = len(bakeoff.headline) + (2 if studies else 0)  # two of tuning
            with drawing_processes(len(jobs) * pictures_of_model) as artists:
                execute = task_executor(session, observer, users_per_task=users_per_task(config))
                result, run_ids = run_tasks(
                    bakeoff, jobs, execute, cache, tracker, observer, pace, session.describe
                )
                ran = session.describe()
                session.close()
                pictures = drawn_pictures(result, artists)
                outcome = _compare_and_log(
                    config, gated, prepared, result, run_ids, pictures, cache.inputs, tracker, observer
                )
            if config.engine is not None and not idle:
                tracker.tag(outcome.links.summary_run_id, "engine", f"{config.engine.type} {ran}".rstrip())
            return _register(gated, prepared, outcome, run_ids, tracker, journal, observer, open_engine)


def _check_missing(
    jobs: Sequence[Job],
    cache: StepCache,
    journal: Journal,
    mode: Mode,
    observer: Observer,
    *,
    of: str = "",
) -> None:
    """Report which tasks are cached; ``of`` says which ones these are.

    Raises:
        StoreError: Some are not, with ``sync``.
    """
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
    missing = tasks - cached
    if missing and mode == "sync":
        raise StoreError(_missing_text(missing, "task", journal))


def _tune(
    studies: Sequence[Study],
    jobs: Sequence[Job],
    cache: StepCache,
    journal: Journal,
    mode: Mode,
    observer: Observer,
    session: Session,
) -> list[Job]:
    """Return the jobs, those of tuned models with the parameters that were found and what is cached of them.

    Raises:
        StoreError: Some trials or tasks of tuned models are not cached, with ``sync``.
    """

    def refuse(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        yield from ()
        raise StoreError(_missing_text(len(list(tasks)), "trial", journal))

    if not studies:
        return list(jobs)
    # The progress of all trials is shown, and not that of each.
    run = refuse if mode == "sync" else task_executor(session, Observer())
    found = run_studies(studies, jobs, run, cache, observer)
    tuned = [job for job in found if job.model.space]
    load_cached(tuned, cache)
    _check_missing(tuned, cache, journal, mode, observer, of=" of tuned models")
    return found


def _missing_text(n: int, noun: str, journal: Journal) -> str:
    missing = f"{count_text(n, noun)} of the bake-off {journal.header.id} not computed yet"
    return f"{missing}; {resume_hint(journal)}"


@contextmanager
def _open_tracker(
    bakeoff: Bakeoff, uri: str, large: LargeTables, journal: Journal, cache: StepCache, observer: Observer
) -> Generator[MlflowTracker]:
    """Yield the tracker; from then on, an exception ends the open runs and leaves a bake-off to be resumed."""
    with observer.progress("open the tracking store"):
        tracker = MlflowTracker.open(
            bakeoff, uri, resume=journal.is_resumed, progress=observer.progress, large=large
        )
    journal.resumable = True
    with explain_resume(journal, cache.store.path, observer), tracker:
        yield tracker


def _compare_and_log(
    config: CheckedConfig,
    gated: GatedConfig | None,
    prepared: Sequence[PreparedData],
    result: BakeoffResult,
    run_ids: Sequence[str],
    pictures: Pictures,
    inputs: Inputs,
    tracker: MlflowTracker,
    observer: Observer,
) -> Outcome:
    """Compare the models, decide where there is a gate, and log both."""
    with observer.progress("compare"):
        contests = contests_of(result)
        comparisons = [compare(contest) for contest in contests]
        decision = None if gated is None else decide_bakeoff(gated, contests, result.bakeoff, tracker.uri)
    with observer.progress("check the results"):
        checked = tuple(with_result_findings(config, prepared, result, comparisons, observer))
    with observer.progress("describe the data"):
        data = tracker.described(cards_of(prepared))
    for name, drift in data.drifts.items():
        if isinstance(drift, Drift):
            observer.report(f"{name}: {drift_sentence(drift)}")
    with observer.progress("log the bake-off"):
        past = tracker.past_bakeoffs(decision)
        links = tracker.finish_bakeoff(
            result,
            checked,
            run_ids,
            board=config.spec.tracking.board,
            decision=decision,
            past=past,
            inputs=inputs,
            pictures=pictures,
            data=data,
        )
    return Outcome(result, checked, links, decision, past, data=data)


def _register(
    gated: GatedConfig | None,
    prepared: Sequence[PreparedData],
    outcome: Outcome,
    run_ids: Sequence[str],
    tracker: MlflowTracker,
    journal: Journal,
    observer: Observer,
    open_engine: Callable[..., AbstractContextManager[Session]],
) -> Outcome:
    """Register the winner, if there is one; a failure is part of the outcome, as the results are logged."""
    if gated is None or outcome.decision is None:
        journal.resumable = False
        return outcome
    run_id = outcome.links.summary_run_id
    try:
        if gated.config.spec.registered is not None and outcome.errors:
            raise ModelError(f"nothing is registered: {outcome.errors[0].line} (checks.error)")
        registered = register_winner(
            gated, outcome.decision, prepared, outcome.result, observer,
            tracking_uri=tracker.uri, run_id=run_id, model_run_ids=run_ids,
            open_session=partial(open_engine, workers=1),
        )  # fmt: skip
        if registered is not None:
            tracker.tag(run_id, "registered", f"{registered.name}, version {registered.version}")
    except (EngineError, ModelError, StoreError, TrackingError) as error:
        with suppress(TrackingError):
            tracker.tag(run_id, "registered", f"failed: {error}")
        journal.resumable = not isinstance(error, ModelError)  # a model would fail again
        hint = f"; {resume_hint(journal)}" if journal.resumable else ""
        return replace(outcome, unregistered=f"{error}{hint}")
    journal.resumable = False
    return outcome
