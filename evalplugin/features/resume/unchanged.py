"""Skipping a bake-off whose data, config and code are those of the last one that finished."""

from __future__ import annotations

from collections.abc import Iterable

from evalplugin.base.errors import UnchangedError
from evalplugin.features.base import Feature, Planned
from evalplugin.files.inputs import CHANGED, changed_input
from evalplugin.report.words import outcome_words
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.read.runs import last_finished


def raise_if_unchanged(planned: Planned, features: Iterable[Feature]) -> None:
    """Raise if the results would be those of the last finished bake-off of this config.

    A bake-off with a failed model does not count: it may be run again. ``features`` may have other reasons to run
    again.

    Raises:
        UnchangedError: Config, data and code are the same; the message has the time of that bake-off.
        TrackingError: The store cannot be reached.
    """
    workspace, inputs, named = planned.workspace, planned.bakeoff.inputs, planned.inputs
    observer = workspace.observer
    with observer.progress("look for the last bake-off"):
        last = last_finished(workspace.uri, workspace.experiment, inputs["config"])
    if last is None or last.mapping("inputs") != dict(inputs):
        return
    with tracking_call(workspace.uri, "read the inputs of the last bake-off"):
        recorded = last.recorded_inputs
    if (name := changed_input(recorded, named)) is not None:
        if named.get(name) != CHANGED:  # else it has been reported that this cannot be known
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
