"""The whole bake-off as one function: data, tasks, results logged one by one, comparison, features."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain

from evalplugin.bakeoff.description import fingerprints_of, inputs_of, plan_of
from evalplugin.bakeoff.tasks import ModelRuns, load_results, report_seeds, run_tasks
from evalplugin.comparison.comparison import compare
from evalplugin.execution.store.journal import Header, Journal
from evalplugin.execution.worker import refuse_in_worker
from evalplugin.features.base import Bakeoff, all_features
from evalplugin.report.competition import competitions_of
from evalplugin.tracking.write.contents import inputs_files, page_artifact
from evalplugin.tracking.write.items import Datum
from evalplugin.tracking.write.tracker import MlflowTracker
from evalplugin.workspace import Workspace


def run_bakeoff(workspace: Workspace, *, workers: int | None = None, command: Sequence[str] = ()) -> Bakeoff:
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
    bakeoff = Bakeoff(workspace, all_features(), command)
    with ExitStack() as opened:
        for feature in reversed(bakeoff.features):  # so that they end in their order
            opened.enter_context(feature.around(bakeoff))
        refuse_in_worker()
        read_data(bakeoff)
        _plan(bakeoff)
        opened.enter_context(_journal(bakeoff))
        load_results(bakeoff.workspace, [job for job in bakeoff.jobs if not job.model.space])
        opened.enter_context(_running(bakeoff, workers))
        for feature in bakeoff.features:
            feature.opened(bakeoff)
        for feature in bakeoff.features:
            feature.before_tasks(bakeoff)
        load_results(
            bakeoff.workspace, [job for job in bakeoff.jobs if job.model.space], of=" of tuned models"
        )
        ran_on = _score_and_compare(bakeoff)
        for feature in bakeoff.features:
            feature.after(bakeoff)
        _log(bakeoff, ran_on)
        for feature in bakeoff.features:
            feature.end(bakeoff)
        bakeoff.prepared, bakeoff.jobs = [], []
        return bakeoff


def read_data(bakeoff: Bakeoff) -> None:
    """Read and split the data, and make the jobs; nothing is fitted."""
    for feature in bakeoff.features:
        feature.start(bakeoff)
    workspace = bakeoff.workspace
    workspace.check_stored()
    bakeoff.prepared = workspace.prepare()
    for feature in bakeoff.features:
        feature.with_data(bakeoff)
    with workspace.observer.progress("plan the tasks"):
        bakeoff.jobs = workspace.jobs(bakeoff.prepared)
    report_seeds(workspace, bakeoff.jobs)
    for feature in bakeoff.features:
        feature.with_jobs(bakeoff)
    for prepared in bakeoff.prepared:
        prepared.info.full.forget_rows()  # checks alone looked at them


def _plan(bakeoff: Bakeoff) -> None:
    """Describe the bake-off that is about to run, with the fingerprints of all that decides it."""
    workspace = bakeoff.workspace
    config, experiment = workspace.config, workspace.experiment
    bakeoff.inputs = workspace.look_up_inputs(bakeoff.jobs)
    with workspace.observer.progress("hash the data"):
        asked = fingerprints_of(config, bakeoff.prepared, experiment, workspace.uri)
    bakeoff.plan = plan_of(config, experiment, inputs_of(config, asked))
    bakeoff.header = Header(
        bakeoff.plan.id, asked, bakeoff.inputs, time.time(), workspace.fresh, tuple(bakeoff.command)
    )


def _journal(bakeoff: Bakeoff) -> Journal:
    """Attach the journal of the bake-off, or of an earlier one to continue, to the cache; return it."""
    cache = bakeoff.workspace.cache
    earlier = [feature.earlier(bakeoff) for feature in bakeoff.features]
    journal = next(filter(None, earlier), None) or Journal.create(cache.store.journals, bakeoff.header)
    journal.report = cache.store.report
    cache.attach(journal)
    bakeoff.journal, bakeoff.plan = journal, replace(bakeoff.plan, id=journal.header.id)
    return journal


@contextmanager
def _running(bakeoff: Bakeoff, workers: int | None) -> Generator[None]:
    """Open the engine and the tracker; from then on, an exception ends the open runs, and the bake-off can be resumed.

    The engine is first: where it cannot run tasks, nothing is logged.
    """
    workspace = bakeoff.workspace
    bakeoff.is_idle = all(job.ended for job in bakeoff.jobs)
    progress = workspace.observer.progress
    with workspace.open_session(bakeoff.inputs, workers=workers, here=bakeoff.is_idle) as bakeoff.session:
        with progress("open the tracking store"):
            bakeoff.tracker = MlflowTracker.open(
                bakeoff.plan,
                workspace.uri,
                resume=bakeoff.journal.is_resumed,
                progress=progress,
                board=workspace.config.spec.tracking.board,
            )
        bakeoff.journal.resumable = True
        with bakeoff.tracker:
            yield


def _score_and_compare(bakeoff: Bakeoff) -> str:
    """Run the tasks, logging each model when it is done, and compare the models; return where the tasks ran."""
    observer = bakeoff.workspace.observer
    runs = ModelRuns(bakeoff.tracker, observer)
    bakeoff.models = run_tasks(bakeoff, runs)
    ran_on = bakeoff.session.describe()
    bakeoff.session.close()
    with observer.progress("compare"):
        bakeoff.comparisons = tuple(
            compare(contest) for contest in competitions_of(bakeoff.plan, bakeoff.models)
        )
    runs.check_logged()
    return ran_on


def _log(bakeoff: Bakeoff, ran_on: str) -> None:
    """Log the comparisons and the features' items."""
    workspace, features = bakeoff.workspace, bakeoff.features
    with workspace.observer.progress("log the bake-off"):
        sections = bakeoff.sections()
        bakeoff.links = bakeoff.tracker.finish_bakeoff(
            bakeoff.models,
            bakeoff.comparisons,
            sections=sections,
            items=[
                page_artifact(bakeoff.comparisons, sections),
                *chain.from_iterable(feature.items(bakeoff) for feature in features),
                *inputs_files(workspace.cache.inputs),
            ],
            pictures=chain.from_iterable(feature.pictures(bakeoff) for feature in features),
        )
    engine = workspace.config.engine
    if engine is not None and not bakeoff.is_idle:
        ran = Datum("engine", f"{engine.type} {ran_on}".rstrip())
        bakeoff.tracker.tag(bakeoff.links.summary_run_id, ran)
    bakeoff.journal.resumable = False
