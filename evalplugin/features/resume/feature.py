"""Resuming the newest bake-off that was interrupted, and skipping one whose inputs have not changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evalplugin.base.errors import TrackingError, UnchangedError
from evalplugin.execution.store.journal import Header, Journal, is_running, unfinished
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.words import outcome_words
from evalplugin.files.inputs import CHANGED, changed_input
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.read.runs import last_finished

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

    bakeoff: Bakeoff | None = None  # once it can be continued

    @contextmanager
    def around(self, bakeoff: Bakeoff) -> Iterator[None]:
        """Report how to resume a bake-off that an exception ends, Ctrl-C and SIGTERM included."""
        try:
            yield
        except BaseException as error:
            if self.bakeoff is None or not bakeoff.journal.resumable:
                raise
            workspace = bakeoff.workspace
            if isinstance(error, TrackingError):
                place = f"What was computed is in the store {workspace.cache.store.path}"
                raise TrackingError(f"{error}. {place}; {workspace.resume_hint}") from error
            workspace.observer.report(workspace.resume_hint)
            raise

    def earlier(self, bakeoff: Bakeoff) -> Journal | None:
        """Return the journal of the newest bake-off that was cut off with the same fingerprints, if it is asked for.

        It is not resumed where an input of a model has changed.
        """
        workspace = bakeoff.workspace
        folder = workspace.cache.store.journals
        # A bake-off that was cut off, if only before its winner was registered, is not done.
        if workspace.if_changed and not any(
            not is_running(j) for j in _alike(bakeoff.header, unfinished(folder))
        ):
            _raise_if_unchanged(bakeoff)
        if workspace.mode != "resume":
            return None
        journal, message = _resumable(bakeoff, unfinished(folder))
        if journal is not None:
            workspace.observer.report(message)
        elif unfinished(folder):  # else it is an ordinary run, such as the first one of a schedule
            workspace.observer.report(f"{message}; this is a new one")
        return journal

    def opened(self, bakeoff: Bakeoff) -> None:
        """Close the journals of the unfinished bake-offs that a new one replaces; they cannot be resumed any more."""
        self.bakeoff, new = bakeoff, bakeoff.journal
        option = "--resume" if new.header.command else "resume=True"
        hint = "" if bakeoff.workspace.mode == "resume" else f"; use {option} to continue one instead"
        for older in [] if new.is_resumed else _alike(new.header, unfinished(new.path.parent)):
            if older.path != new.path and (journal := Journal.reopen(older.path)) is not None:
                journal.close(finished=True)
                bakeoff.workspace.observer.report(
                    f"the bake-off {journal.header.id}, which was cut off, is given up for this one{hint}"
                )


def _raise_if_unchanged(bakeoff: Bakeoff) -> None:
    """Raise if the results would be those of the last finished bake-off of this config.

    A bake-off with a failed model does not count: it may be run again. Features may have other reasons to run again.

    Raises:
        UnchangedError: Config, data and code are the same; the message has the time of that bake-off.
        TrackingError: The store cannot be reached.
    """
    workspace, inputs = bakeoff.workspace, bakeoff.plan.inputs
    observer = workspace.observer
    with observer.progress("look for the last bake-off"):
        last = last_finished(workspace.uri, workspace.experiment, inputs["config"])
    if last is None or last.mapping("inputs") != dict(inputs):
        return
    with tracking_call(workspace.uri, "read the inputs of the last bake-off"):
        recorded = last.recorded_inputs
    if (name := changed_input(recorded, bakeoff.inputs)) is not None:
        if bakeoff.inputs.get(name) != CHANGED:  # else it has been reported that this cannot be known
            observer.report(f"{name} has changed since the bake-off {last.bakeoff}")
        return
    if reason := next(filter(None, (feature.difference(last) for feature in bakeoff.features)), None):
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


def _resumable(bakeoff: Bakeoff, journals: Sequence[Journal]) -> tuple[Journal | None, str]:
    """Return the journal to resume, None if there is none, and a message about it."""
    different = ""
    for journal in journals:
        asked = journal.header.asked
        parts = [part for part in _CHANGED if asked.get(part) != bakeoff.header.asked[part]]
        earlier = f"the bake-off {journal.header.id}, started {journal.header.started_at},"
        if not parts and (name := changed_input(journal.header.inputs, bakeoff.inputs)) is not None:
            different = different or f"{earlier} depends on {name}, which has changed since"
        elif not parts:
            if (reopened := Journal.reopen(journal.path)) is not None:
                return reopened, f"continuing {earlier} which was cut off"
            different = different or f"{earlier} is being run by another process"
        elif "config" not in parts:
            names = " and ".join(_CHANGED[part] for part in parts)
            different = different or f"{earlier} differs in {names}"
    return None, f"nothing to continue: {different or 'no bake-off of this config was cut off'}"


FEATURE = ResumeFeature
