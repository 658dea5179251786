"""Running a bake-off: data, tasks, results logged one by one, comparison, and what its features add."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.bakeoff.description import describe_bakeoff, fingerprints_of, inputs_of
from evalplugin.bakeoff.tasks import ModelRuns, load_results, run_tasks
from evalplugin.base.libraries import pd
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import contests_of, findings_of
from evalplugin.execution.results import BakeoffResult, Finding
from evalplugin.execution.runner import Job, PreparedData
from evalplugin.execution.store.journal import Header, Journal
from evalplugin.execution.worker import refuse_in_worker
from evalplugin.features.base import Feature, Planned, Results, Running
from evalplugin.features.checks.feature import ChecksFeature
from evalplugin.features.data_card.feature import DataCardsFeature
from evalplugin.features.gate.feature import GateFeature
from evalplugin.features.history.feature import HistoryFeature
from evalplugin.features.notifications.feature import NotificationsFeature
from evalplugin.features.ranks.feature import RanksFeature
from evalplugin.features.resume import ResumeFeature
from evalplugin.features.seeds import SeedsFeature
from evalplugin.features.tuning.feature import TuningFeature
from evalplugin.report.documents import comparisons_text
from evalplugin.report.notebook import Comparisons
from evalplugin.report.sections import Section
from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.contents import inputs_files, page_artifact
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.workspace import Workspace

if TYPE_CHECKING:
    import altair as alt

    from evalplugin.features.data_card.card import DescribedData
    from evalplugin.features.gate.decision import Decision
    from evalplugin.features.history.past import PastBakeoff

# Called in this order at each moment.
FEATURES: tuple[type[Feature], ...] = (
    GateFeature,
    SeedsFeature,
    TuningFeature,
    ChecksFeature,
    DataCardsFeature,
    HistoryFeature,
    RanksFeature,
    ResumeFeature,
    NotificationsFeature,
)


@dataclass(frozen=True)
class Outcome:
    """A bake-off's results and the links to them. A notebook and ``print`` show the models by the primary metric."""

    result: BakeoffResult
    comparisons: tuple[Comparison, ...]  # one for each dataset and split, in config order
    links: Links
    decision: Decision | None = None  # of the gate, where there is one
    past: tuple[PastBakeoff, ...] = ()  # the latest bake-offs of the experiment, this one included
    unregistered: str | None = None  # why the winner could not be registered, where the config has a register
    data: DescribedData | None = None  # cards of the datasets

    def sections(self, comparisons: Sequence[Comparison] | None = None) -> list[Section]:
        """Return what the features add to the reports on the comparisons, or on others of the same results."""
        return _sections([kind() for kind in FEATURES], comparisons or self.comparisons, vars(self))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the checks have found in the data and in the results."""
        return findings_of(comparison.contest for comparison in self.comparisons)

    @property
    def errors(self) -> list[Finding]:
        """The findings that the config declares to be errors."""
        return [finding for finding in self.findings if finding.is_error]

    def to_frame(self, metric: str | None = None, *, segment: str | None = None) -> pd.DataFrame:
        """Return the numbers, one row for each model and metric; see ``Comparisons.to_frame``."""
        return self._shown.to_frame(metric, segment=segment)

    def plot(self, metric: str | None = None) -> alt.VConcatChart:
        """Return an Altair chart of the differences from the baseline; see ``Comparisons.plot``."""
        return self._shown.plot(metric)

    def to_html(self, path: str | Path) -> str | Path:
        """Write the page with everything about the bake-off, one file; return its path or URI."""
        return self._shown.to_html(path)

    @property
    def _shown(self) -> Comparisons:
        return Comparisons(self.comparisons, self.sections)

    def __repr__(self) -> str:
        return comparisons_text(self.comparisons, [self.decision.reason] if self.decision else ())

    def _repr_html_(self) -> str:
        return self._shown._repr_html_()


def run_bakeoff(workspace: Workspace, *, workers: int | None = None, command: Sequence[str] = ()) -> Outcome:
    """Run a bake-off: every model on every dataset under every split, each logged to MLflow as soon as it is done.

    Args:
        workspace: The config, where its data, results and cache are, and how to go about it.
        workers: How many tasks run at a time; None: as in the config.
        command: Arguments of ``evalplugin run`` on the command line, for messages.

    Raises:
        UnchangedError: There is nothing to do, with ``workspace.if_changed``.
        ConfigError: A model or a run that a model names is not in the tracking store.
        DataError: Data that is missing or breaks a rule; nothing has been fitted.
        StoreError: The store cannot be used.
        TrackingError: MLflow cannot be reached, and nothing was fitted; or it was lost later: all results are stored.
    """
    features = [kind() for kind in FEATURES]
    with ExitStack() as opened:
        for feature in reversed(features):  # so that they end in their order
            opened.enter_context(feature.around(workspace))
        refuse_in_worker()
        workspace, prepared, jobs = read_data(workspace, features)
        planned = _planned(workspace, prepared, jobs, command)
        journal = opened.enter_context(_journal(planned, features))
        load_results(workspace, [job for job in jobs if not job.model.space])
        running = opened.enter_context(_running(planned, journal, workers))
        for feature in features:
            feature.opened(running)
        for feature in features:
            running = feature.before_tasks(running)
        load_results(workspace, [job for job in running.jobs if job.model.space], of=" of tuned models")
        results = _compute_and_log(running, features)
        for feature in features:
            results = feature.end(running, results)
        assert results.links is not None
        return Outcome(results.result, results.comparisons, results.links, **results.values)


def read_data(
    workspace: Workspace, features: Sequence[Feature], *, cached: bool = True
) -> tuple[Workspace, list[PreparedData], list[Job]]:
    """Return the workspace with the features' changes, its data, and the jobs; nothing is fitted.

    ``cached``: with the folds of earlier bake-offs.
    """
    for feature in features:
        workspace = feature.start(workspace)
    workspace.check_stored()
    prepared = workspace.prepare(cached=cached)
    for feature in features:
        prepared = feature.with_data(workspace, prepared)
    jobs = workspace.jobs(prepared)
    for feature in features:
        jobs = feature.with_jobs(workspace, prepared, jobs)
    return workspace, prepared, jobs


def _planned(
    workspace: Workspace, prepared: Sequence[PreparedData], jobs: Sequence[Job], command: Sequence[str]
) -> Planned:
    """Describe the bake-off that is about to run."""
    config, experiment = workspace.config, workspace.experiment
    inputs = workspace.look_up_inputs(jobs)
    asked = fingerprints_of(config, prepared, experiment, workspace.uri)
    bakeoff = describe_bakeoff(config, experiment, inputs_of(config, asked))
    header = Header(bakeoff.id, asked, inputs, time.time(), workspace.fresh, tuple(command))
    return Planned(workspace, prepared, jobs, inputs, bakeoff, header)


def _journal(planned: Planned, features: Sequence[Feature]) -> Journal:
    """Return the journal of the bake-off, or of an earlier one to continue, attached to the cache."""
    cache = planned.workspace.cache
    earlier = [feature.earlier(planned, features) for feature in features]
    journal = next(filter(None, earlier), None) or Journal.create(cache.store.journals, planned.header)
    journal.report = cache.store.report
    cache.attach(journal)
    return journal


@contextmanager
def _running(planned: Planned, journal: Journal, workers: int | None) -> Generator[Running]:
    """Open the engine and the tracker; from then on, an exception ends the open runs, and the bake-off can be resumed.

    The engine is first: where it cannot run tasks, nothing is logged.
    """
    workspace, bakeoff = planned.workspace, replace(planned.bakeoff, id=journal.header.id)
    idle = all(job.ended for job in planned.jobs)
    progress = workspace.observer.progress
    with workspace.open_session(planned.inputs, workers=workers, here=idle) as session:
        with progress("open the tracking store"):
            tracker = MlflowTracker.open(
                bakeoff,
                workspace.uri,
                resume=journal.is_resumed,
                progress=progress,
                board=workspace.config.spec.tracking.board,
            )
        journal.resumable = True
        with tracker:
            facts = vars(planned) | {"bakeoff": bakeoff}
            yield Running(**facts, journal=journal, session=session, tracker=tracker, is_idle=idle)


def _compute_and_log(running: Running, features: Sequence[Feature]) -> Results:
    """Run the tasks, compare the models, and log both with what the features add."""
    workspace, session, tracker = running.workspace, running.session, running.tracker
    config, observer = workspace.config, workspace.observer
    runs = ModelRuns(tracker, observer)
    result = run_tasks(running, runs)
    ran = session.describe()
    session.close()
    with observer.progress("compare"):
        comparisons = tuple(compare(contest) for contest in contests_of(result))
        for comparison in comparisons:
            comparison.compute()
    runs.check_logged()
    results = Results(result, comparisons)
    for feature in features:
        results = feature.after(running, results)
    with observer.progress("log the bake-off"):
        sections = _sections(features, results.comparisons, results.values)
        links = tracker.finish_bakeoff(
            result,
            results.comparisons,
            sections=sections,
            items=[
                page_artifact(results.comparisons, sections),
                *chain.from_iterable(feature.items(results) for feature in features),
                *inputs_files(workspace.cache.inputs),
            ],
            pictures=chain.from_iterable(feature.pictures(result) for feature in features),
        )
    if config.engine is not None and not running.is_idle:
        tracker.tag(links.summary_run_id, "engine", f"{config.engine.type} {ran}".rstrip())
    running.journal.resumable = False
    return replace(results, links=links)


def _sections(
    features: Iterable[Feature], comparisons: Sequence[Comparison], values: Mapping[str, Any]
) -> list[Section]:
    return list(chain.from_iterable(feature.sections(comparisons, values) for feature in features))
