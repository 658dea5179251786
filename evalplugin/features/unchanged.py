"""Skipping a bake-off whose data, config and code are those of the last one that finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evalplugin.base.errors import UnchangedError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.config import CheckedConfig
from evalplugin.features.base import Feature
from evalplugin.files.inputs import CHANGED, Inputs, changed_input
from evalplugin.report.words import outcome_words
from evalplugin.tracking.connection import tracking_call
from evalplugin.tracking.read.past import last_finished
from evalplugin.workspace import Workspace

__all__ = ["inputs_of", "raise_if_unchanged"]


def inputs_of(config: CheckedConfig, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of the config, the data and the code of a bake-off; each is logged with its runs.

    ``fingerprints`` are those of ``resume.fingerprints_of``: of the whole content of the data, and of the versions of
    evalplugin, its libraries and plugin files.
    """
    deciding = config.deciding("scores", "comparison", "groups", "decision")
    return {"config": fingerprint(deciding), "data": fingerprints["data"], "code": fingerprints["code"]}


def raise_if_unchanged(
    workspace: Workspace,
    inputs: Mapping[str, str],
    named: Inputs,
    features: Iterable[Feature],
) -> None:
    """Raise if the results would be those of the last finished bake-off of this config.

    A bake-off with a failed model does not count: it may be run again.

    Args:
        workspace: Of the bake-off; its observer receives the name of an input that has changed.
        inputs: Hashes of config, data and code.
        named: Fingerprints of the inputs that the config names.
        features: May have other reasons to run again.

    Raises:
        UnchangedError: Config, data and code are the same; the message has the time of that bake-off.
        TrackingError: The store cannot be reached.
    """
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
