"""Resuming the newest bake-off that was cut off, and skipping one whose data, config and code have not changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evalplugin.base.errors import TrackingError, UnchangedError
from evalplugin.execution.store.journal import Header, Journal, is_running, unfinished
from evalplugin.features.base import Feature, Planned, Running
from evalplugin.files.inputs import CHANGED, changed_input
from evalplugin.report.words import outcome_words
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.read.runs import last_finished
from evalplugin.workspace import Workspace

_CHANGED = {
    "config": "the config",
    "experiment": "the experiment",
    "tracking": "the tracking store",
    "data": "the data",
    "code": "the code (evalplugin, its libraries or a plugin)",
}


@dataclass
class ResumeFeature(Feature):
    """Continues a bake-off that was cut off, and does nothing, if so asked, where nothing has changed."""

    running: Running | None = None

    @contextmanager
    def around(self, workspace: Workspace) -> Iterator[None]:
        """Report how to resume a bake-off that an exception ends, Ctrl-C and SIGTERM included."""
        try:
            yield
        except BaseException as error:
            if self.running is None or not self.running.journal.resumable:
                raise
            workspace = self.running.workspace
            if isinstance(error, TrackingError):
                place = f"What was computed is in the store {workspace.cache.store.path}"
                raise TrackingError(f"{error}. {place}; {workspace.resume_hint}") from error
            workspace.observer.report(workspace.resume_hint)
            raise

    def earlier(self, planned: Planned, features: Sequence[Feature]) -> Journal | None:
        """Return the journal of the newest bake-off that was cut off with the same fingerprints, if it is asked for.

        It is not resumed where an input of a model has changed.
        """
        workspace = planned.workspace
        folder = workspace.cache.store.journals
        # A bake-off that was cut off, if only before its winner was registered, is not done.
        if workspace.if_changed and not any(
            not is_running(j) for j in _alike(planned.header, unfinished(folder))
        ):
            _raise_if_unchanged(planned, features)
        if workspace.mode != "resume":
            return None
        journal, message = _resumable(planned, unfinished(folder))
        if journal is not None:
            workspace.observer.report(message)
        elif unfinished(folder):  # else it is an ordinary run, such as the first one of a schedule
            workspace.observer.report(f"{message}; this is a new one")
        return journal

    def opened(self, running: Running) -> None:
        """Close the journals of the unfinished bake-offs that a new one replaces; they cannot be resumed any more."""
        self.running, new = running, running.journal
        option = "--resume" if new.header.command else "resume=True"
        hint = "" if running.workspace.mode == "resume" else f"; use {option} to continue one instead"
        for older in [] if new.is_resumed else _alike(new.header, unfinished(new.path.parent)):
            if older.path != new.path and (journal := Journal.reopen(older.path)) is not None:
                journal.close(finished=True)
                running.workspace.observer.report(
                    f"the bake-off {journal.header.id}, which was cut off, is given up for this one{hint}"
                )


def _raise_if_unchanged(planned: Planned, features: Sequence[Feature]) -> None:
    """Raise if the results would be those of the last finished bake-off of this config.

    A bake-off with a failed model does not count: it may be run again. ``features`` may have other reasons to run
    again.

    Raises:
        UnchangedError: Config, data and code are the same; the message has the time of that bake-off.
        TrackingError: The store cannot be reached.
    """
    workspace, inputs = planned.workspace, planned.bakeoff.inputs
    observer = workspace.observer
    with observer.progress("look for the last bake-off"):
        last = last_finished(workspace.uri, workspace.experiment, inputs["config"])
    if last is None or last.mapping("inputs") != dict(inputs):
        return
    with tracking_call(workspace.uri, "read the inputs of the last bake-off"):
        recorded = last.recorded_inputs
    if (name := changed_input(recorded, planned.inputs)) is not None:
        if planned.inputs.get(name) != CHANGED:  # else it has been reported that this cannot be known
            observer.report(f"{name} has changed since the bake-off {last.bakeoff}")
        return
    if reason := next(filter(None, (feature.difference(last) for feature in features)), None):
        observer.report(reason)
        return
    outcome = last.tag("outcome")
    decided = f", decision: {outcome_words(outcome)}" if outcome else ""
    raise UnchangedError(
        f"nothing to do: data, config and code are those of the bake-off {last.bakeoff} "
        f"({last.ended:%Y-%m-%d %H:%M} UTC{decided})",
        bakeoff=last.bakeoff,
    )


def _alike(header: Header, journals: Sequence[Journal]) -> list[Journal]:
    """Return the journals of bake-offs with the same fingerprints."""
    return [journal for journal in journals if journal.header.asked == header.asked]


def _resumable(planned: Planned, journals: Sequence[Journal]) -> tuple[Journal | None, str]:
    """Return the journal to resume, None if there is none, and a message about it."""
    different = ""
    for journal in journals:
        asked = journal.header.asked
        parts = [part for part in _CHANGED if asked.get(part) != planned.header.asked[part]]
        bakeoff = f"the bake-off {journal.header.id}, started {journal.header.started_at},"
        if not parts and (name := changed_input(journal.header.inputs, planned.inputs)) is not None:
            different = different or f"{bakeoff} depends on {name}, which has changed since"
        elif not parts:
            if (reopened := Journal.reopen(journal.path)) is not None:
                return reopened, f"continuing {bakeoff} which was cut off"
            different = different or f"{bakeoff} is being run by another process"
        elif "config" not in parts:
            names = " and ".join(_CHANGED[part] for part in parts)
            different = different or f"{bakeoff} differs in {names}"
    return None, f"nothing to continue: {different or 'no bake-off of this config was cut off'}"
