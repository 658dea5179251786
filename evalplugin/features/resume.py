"""Resuming the newest unfinished bake-off whose config, data, code and destination are still the same."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from evalplugin.base.errors import StoreError, TrackingError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.base.secrets import redact
from evalplugin.base.units import count_text
from evalplugin.config import CheckedConfig
from evalplugin.data import FILTERS, SPLITS
from evalplugin.execution.runner import Job, PreparedData, load_cached
from evalplugin.execution.store.folder import DEFAULT_PATH, STORE, store_path
from evalplugin.execution.store.journal import Header, Journal, is_running, unfinished
from evalplugin.execution.store.versions import code_of, own_code
from evalplugin.metrics import METRICS
from evalplugin.models import MODELS
from evalplugin.workspace import Workspace

__all__ = [
    "abandon_older",
    "explain_resume",
    "fingerprints_of",
    "is_pending",
    "load_results",
    "missing_error",
    "open_journal",
    "resume_hint",
    "started_at",
]

_CHANGED = {
    "config": "the config",
    "experiment": "the experiment",
    "tracking": "the tracking store",
    "data": "the data",
    "code": "the code (evalplugin, its libraries, a plugin or an environment variable that it reads)",
}


def fingerprints_of(
    config: CheckedConfig, prepared: Sequence[PreparedData], experiment: str, tracking: str
) -> dict[str, str]:
    """Return, by part, the fingerprints that must be equal for a bake-off to be resumed; no credentials."""
    codes = {
        own_code(),
        *(code_of(MODELS.entry(model.type)) for model in config.models),
        *(code_of(METRICS.entry(metric.family)) for metric in config.metrics),
        *(code_of(SPLITS.entry(split.type)) for split in config.splits),
        *(code_of(FILTERS.entry(type)) for dataset in config.datasets for type, _ in dataset.filters),
    }
    if config.tune is not None:
        codes.add(f"optuna {version('optuna')}")
        if config.tune.split is not None:
            codes.add(code_of(SPLITS.entry(config.tune.split.type)))
    return {
        "config": fingerprint([config.hash, *config.deciding("comparison", "groups", "failures").values()]),
        "experiment": experiment,
        "tracking": redact(tracking),
        "data": fingerprint(
            [[one.info.full.digest, *(s.digest for s in one.info.segments)] for one in prepared]
        ),
        "code": fingerprint(sorted(map(str, codes))),
    }


def open_journal(
    workspace: Workspace,
    id: str,
    fingerprints: Mapping[str, str],
    jobs: Sequence[Job] = (),
    command: Sequence[str] = (),
) -> Journal:
    """Return the journal of the bake-off to resume, or else a new one, and attach it to the cache.

    Args:
        workspace: Of the bake-off; with ``resume`` and ``sync`` an unfinished one is looked for.
        id: Of a new bake-off.
        fingerprints: Those of ``fingerprints_of``.
        jobs: A bake-off is not resumed where an input of a task that has ended has changed, nor, unless with ``sync``,
            where a task has failed of which it is not known what it has read.
        command: Arguments of ``evalplugin run`` on the command line.

    Raises:
        StoreError: With ``sync``, there is no bake-off to resume; or a new journal cannot be written.
    """
    cache, mode = workspace.cache, workspace.mode
    folder = cache.store.journals
    journal = None
    if mode in ("resume", "sync"):

        def differs(one: Journal) -> str | None:
            tasks = [(job, job.name(fold), task) for job in jobs for fold, task in enumerate(job.tasks)]
            for job, name, task in tasks:
                if (changed := cache.changed(name, task, one)) is not None:
                    return f"has used {changed}, which has changed since"
                failure = one.failures.get(name)
                if mode == "resume" and failure is not None and failure.inputs is None:
                    return f"has a failed model, {job.model.name}, of which it is not known what it has read"
            return None

        journal, message = _resumable(folder, fingerprints, differs)
        if journal is None and mode == "sync":
            raise StoreError(message)
        workspace.observer.report(message if journal is not None else f"{message}; this is a new one")
    if journal is None:
        header = Header(id, fingerprints, time.time(), mode == "fresh", str(Path.cwd()), tuple(command))
        journal = Journal.create(folder, header)
    journal.report = cache.store.report
    cache.attach(journal)
    return journal


def is_pending(folder: Path, fingerprints: Mapping[str, str]) -> bool:
    """Return whether a folder of journals has a bake-off to resume: one that was cut off with these fingerprints."""
    found = [one for one in unfinished(folder) if one.header.asked == fingerprints]
    return any(not is_running(one) for one in found)


def abandon_older(workspace: Workspace, new: Journal) -> None:
    """Close the journals of the unfinished bake-offs that a new one replaces; they cannot be resumed any more."""
    option = "--resume" if new.header.command else "resume=True"
    hint = "" if workspace.mode == "resume" else f"; use {option} to continue one instead"
    for one in [] if new.is_resumed else unfinished(new.path.parent):
        if one.path != new.path and one.header.asked == new.header.asked:
            journal = Journal.reopen(one.path)
            if journal is not None:
                journal.close(finished=True)
                workspace.observer.report(
                    f"the bake-off {journal.header.id}, which was cut off, is given up for this one{hint}"
                )


@contextmanager
def explain_resume(workspace: Workspace, journal: Journal) -> Iterator[None]:
    """Report how to resume a bake-off that an exception ends, Ctrl-C and SIGTERM included."""
    try:
        yield
    except TrackingError as error:
        store = workspace.cache.store.path
        text = f"{error}. What was computed is in the store {store}; {resume_hint(journal)}"
        raise TrackingError(text) from error
    except BaseException:
        workspace.observer.report(resume_hint(journal))
        raise


def load_results(workspace: Workspace, jobs: Sequence[Job], journal: Journal, *, of: str = "") -> None:
    """Fill jobs with what is cached, and report how much that is; ``of`` says which jobs these are.

    Raises:
        StoreError: Some tasks are not cached, with ``sync``.
    """
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
    if (missing := tasks - cached) and workspace.mode == "sync":
        raise missing_error(missing, "task", journal)


def missing_error(n: int, noun: str, journal: Journal) -> StoreError:
    """Return the error that some tasks or trials of a bake-off are not cached, though nothing is to be computed."""
    missing = f"{count_text(n, noun)} of the bake-off {journal.header.id} not computed yet"
    return StoreError(f"{missing}; {resume_hint(journal)}")


def resume_hint(journal: Journal) -> str:
    """Return the command or the call that resumes a bake-off."""
    if not journal.header.command:
        return "to go on: evalplugin.run(..., resume=True)"
    return f"to go on: {_variable(journal)}python -m evalplugin run --resume {shlex.join(journal.header.command)}"


def started_at(journal: Journal) -> str:
    """Return the local time at which a bake-off was started."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(journal.header.started))


def _variable(journal: Journal) -> str:
    """Return an assignment to prepend to the command, if the environment has to name the store."""
    named = os.environ.get(STORE, "")
    from_environment = journal.path.parents[1] == store_path(named) != store_path(DEFAULT_PATH)
    return f"{STORE}={shlex.quote(named)} " if from_environment else ""


def _resumable(
    folder: Path, fingerprints: Mapping[str, str], differs: Callable[[Journal], str | None]
) -> tuple[Journal | None, str]:
    """Return the journal to resume, None if there is none, and a message about it."""
    different = ""
    for one in unfinished(folder):
        parts = [part for part in _CHANGED if one.header.asked.get(part) != fingerprints[part]]
        bakeoff = f"the bake-off {one.header.id}, started {started_at(one)},"
        if not parts and (reason := differs(one)) is not None:
            different = different or f"{bakeoff} {reason}"
        elif not parts:
            if (journal := Journal.reopen(one.path)) is not None:
                return journal, f"continuing {bakeoff} which was cut off"
            different = different or f"{bakeoff} is being run by another process"
        elif "config" not in parts:
            names = " and ".join(_CHANGED[part] for part in parts)
            different = different or f"{bakeoff} differs in {names}"
    return None, f"nothing to continue: {different or 'no bake-off of this config was cut off'}"
