"""Running a bake-off: data, tasks, results logged one by one, comparison, and what its features add."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.bakeoff.description import describe_bakeoff
from evalplugin.bakeoff.tasks import run_tasks
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import contests_of, findings_of
from evalplugin.execution.results import Bakeoff, BakeoffResult, Finding
from evalplugin.execution.runner import Job, PreparedData
from evalplugin.execution.store.journal import Journal
from evalplugin.execution.worker import refuse_in_worker
from evalplugin.features.base import Feature, Results, Running
from evalplugin.features.checks.feature import ChecksFeature
from evalplugin.features.data_card.feature import DataCardsFeature
from evalplugin.features.gate.feature import GateFeature
from evalplugin.features.history.feature import HistoryFeature
from evalplugin.features.ranks.feature import RanksFeature
from evalplugin.features.resume import (
    abandon_older,
    explain_resume,
    fingerprints_of,
    is_pending,
    load_results,
    open_journal,
)
from evalplugin.features.seeds import SeedsFeature
from evalplugin.features.tuning.feature import TuningFeature
from evalplugin.features.unchanged import inputs_of, raise_if_unchanged
from evalplugin.files.inputs import Inputs
from evalplugin.report.drawing import drawing_processes
from evalplugin.report.notebook import Comparisons
from evalplugin.report.page.library import make_in_background
from evalplugin.report.sections import Section
from evalplugin.tracking import Links, MlflowTracker
from evalplugin.tracking.large import LargeTables
from evalplugin.tracking.new_store import prepare_store
from evalplugin.tracking.write.artifacts import drawn_pictures
from evalplugin.tracking.write.contents import inputs_files, page_artifact
from evalplugin.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from evalplugin.data.drift import DescribedData
    from evalplugin.features.gate.decision import Decision
    from evalplugin.features.history.trends import PastBakeoff

__all__ = ["FEATURES", "Outcome", "run_bakeoff"]

# Called in this order at each moment.
FEATURES: tuple[type[Feature], ...] = (
    GateFeature,
    SeedsFeature,
    TuningFeature,
    ChecksFeature,
    DataCardsFeature,
    HistoryFeature,
    RanksFeature,
)


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

    def sections(self, comparisons: Sequence[Comparison] | None = None) -> list[Section]:
        """Return what the features add to the reports on the comparisons, or on others of the same results."""
        return _sections([kind() for kind in FEATURES], comparisons or self.comparisons, vars(self))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks have found in the data and in the results."""
        return findings_of(one.contest for one in self.comparisons)

    @property
    def errors(self) -> list[Finding]:
        """The findings that the config declares to be errors."""
        return [finding for finding in self.findings if finding.is_error]

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
        return Comparisons(self.comparisons, self.sections)

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


def run_bakeoff(
    workspace: Workspace,
    *,
    workers: int | None = None,
    command: Sequence[str] = (),
    if_changed: bool = False,
    on_start: Callable[[str], None] = lambda id: None,
) -> Outcome:
    """Run a bake-off: every model on every dataset under every split, each logged to MLflow as soon as it is done.

    Args:
        workspace: The config, where its data, results and cache are, and how to go about it.
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
    features = [kind() for kind in FEATURES]
    large = _begin(workspace)
    workspace = reduce(lambda it, feature: feature.start(it), features, workspace)
    workspace.check_stored()
    prepared = reduce(lambda it, feature: feature.with_data(workspace, it), features, workspace.prepare())
    jobs = reduce(lambda it, f: f.with_jobs(workspace, prepared, it), features, workspace.jobs(prepared))
    inputs = workspace.look_up_inputs(jobs)
    asked = fingerprints_of(workspace.config, prepared, workspace.experiment, workspace.uri)
    bakeoff = describe_bakeoff(workspace.config, workspace.experiment, inputs_of(workspace.config, asked))
    # A bake-off that was cut off, if only before its winner was registered, is not done.
    if if_changed and not is_pending(workspace.cache.store.journals, asked):
        raise_if_unchanged(workspace, bakeoff.inputs, inputs, features)
    with open_journal(workspace, bakeoff.id, asked, jobs, command) as journal:
        load_results(workspace, [job for job in jobs if not job.model.space], journal)
        bakeoff = replace(bakeoff, id=journal.header.id)
        with _open(workspace, bakeoff, jobs, inputs, journal, large, workers) as running:
            on_start(bakeoff.id)
            abandon_older(workspace, journal)
            jobs = reduce(lambda it, feature: feature.before_tasks(running, it), features, jobs)
            results = _compute_and_log(running, features, prepared, jobs)
            results = reduce(lambda it, feature: feature.end(running, it), features, results)
    assert results.links is not None
    return Outcome(results.result, results.comparisons, results.links, **results.values)


def _begin(workspace: Workspace) -> LargeTables:
    """Start in the background what takes long to make, and check where large tables go."""
    refuse_in_worker()
    make_in_background()
    prepare_store(workspace.uri)
    uri = workspace.config.spec.tracking.large_artifacts
    large = LargeTables(uri, workspace.experiment, workspace.observer.warn)
    large.check()
    return large


@contextmanager
def _open(
    workspace: Workspace,
    bakeoff: Bakeoff,
    jobs: Sequence[Job],
    inputs: Inputs,
    journal: Journal,
    large: LargeTables,
    workers: int | None,
) -> Generator[Running]:
    """Open the engine and the tracker; from then on, an exception ends the open runs, and the bake-off can be resumed.

    The engine is first: where it cannot run tasks, nothing is logged.
    """
    idle = workspace.mode == "sync" or all(job.ended for job in jobs)
    observer = workspace.observer
    with workspace.open_session(inputs, workers=workers, here=idle) as session:
        with observer.progress("open the tracking store"):
            tracker = MlflowTracker.open(
                bakeoff, workspace.uri, resume=journal.is_resumed, progress=observer.progress, large=large
            )
        journal.resumable = True
        with explain_resume(workspace, journal), tracker:
            yield Running(workspace, inputs, journal, session, tracker, is_idle=idle)


def _compute_and_log(
    running: Running, features: Sequence[Feature], prepared: Sequence[PreparedData], jobs: Sequence[Job]
) -> Results:
    """Run the tasks, compare the models, and log both with what the features add."""
    workspace, session, tracker = running.workspace, running.session, running.tracker
    config, observer, bakeoff = workspace.config, workspace.observer, tracker.bakeoff
    tuned = sum(job.tuning is not None for job in jobs)
    with drawing_processes(len(jobs) * len(bakeoff.headline) + 2 * tuned) as artists:
        result, run_ids = run_tasks(running, jobs)
        ran = session.describe()
        session.close()
        pictures = drawn_pictures(result, artists)
        with observer.progress("compare"):
            comparisons = tuple(compare(contest) for contest in contests_of(result))
        results = Results(prepared, result, run_ids, comparisons)
        results = reduce(lambda it, feature: feature.after(running, it), features, results)
        with observer.progress("log the bake-off"):
            sections = _sections(features, comparisons, results.values)
            links = tracker.finish_bakeoff(
                result,
                comparisons,
                run_ids,
                board=config.spec.tracking.board,
                sections=sections,
                items=[
                    page_artifact(comparisons, sections),
                    *chain.from_iterable(feature.items(results) for feature in features),
                    *inputs_files(workspace.cache.inputs),
                ],
                pictures=pictures,
            )
    if config.engine is not None and not running.is_idle:
        tracker.tag(links.summary_run_id, "engine", f"{config.engine.type} {ran}".rstrip())
    running.journal.resumable = False
    return replace(results, links=links)


def _sections(
    features: Iterable[Feature], comparisons: Sequence[Comparison], values: Mapping[str, Any]
) -> list[Section]:
    return list(chain.from_iterable(feature.sections(comparisons, values) for feature in features))
