"""Skipping a bake-off whose data, config and code are those of the last one that finished."""

from __future__ import annotations

from collections.abc import Mapping

from evalplugin.base.errors import UnchangedError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.config import CheckedConfig
from evalplugin.tracking.read.past import last_finished

__all__ = ["inputs_of", "raise_if_unchanged"]


def inputs_of(config: CheckedConfig, fingerprints: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of the config, the data and the code of a bake-off; each is logged with its runs.

    ``fingerprints`` are those of ``resuming.fingerprints_of``: of the whole content of the data, and of the versions of
    evalplugin, its libraries and plugin files.
    """
    deciding = config.deciding("scores", "comparison", "groups", "decision")
    return {"config": fingerprint(deciding), "data": fingerprints["data"], "code": fingerprints["code"]}


def raise_if_unchanged(uri: str, experiment: str, inputs: Mapping[str, str]) -> None:
    """Raise if the results would be those of the last finished bake-off of this config.

    A bake-off with a failed model does not count: it may be run again.

    Raises:
        UnchangedError: Config, data and code are the same; the message has the time of that bake-off.
        TrackingError: The store cannot be reached.
    """
    last = last_finished(uri, experiment, inputs["config"])
    if last is None or last.mapping("inputs") != dict(inputs):
        return
    outcome = last.tag("outcome")
    decided = f", decision: {outcome}" if outcome else ""
    raise UnchangedError(
        f"nothing to do: data, config and code are those of the bake-off {last.bakeoff} "
        f"({last.ended:%Y-%m-%d %H:%M} UTC{decided})",
        bakeoff=last.bakeoff,
    )
