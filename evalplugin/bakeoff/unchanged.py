"""Whether there is anything to do: data, config and code against those of the last finished bake-off."""

from __future__ import annotations

from collections.abc import Mapping

from evalplugin.base.errors import UnchangedError
from evalplugin.base.fingerprint import fingerprint
from evalplugin.config import CheckedConfig
from evalplugin.tracking.read.past import last_finished

__all__ = ["check_changed", "inputs_of"]


def inputs_of(config: CheckedConfig, asked: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of the config, the data and the code of a bake-off; each is logged with its runs.

    ``asked`` is what ``evalplugin.resuming.asked_of`` returned: digests of the whole content of the data, versions of
    evalplugin and its libraries, and hashes of plugin files.
    """
    deciding = config.deciding("scores", "comparison", "groups", "decision")
    return {"config": fingerprint(deciding), "data": asked["data"], "code": asked["code"]}


def check_changed(uri: str, experiment: str, inputs: Mapping[str, str]) -> None:
    """Do nothing if a bake-off would come out differently from the last one of this config that finished.

    One in which a model failed does not count: it may be run again.

    Raises:
        UnchangedError: Config, data and code are the same; the message says since when.
        TrackingError: The store cannot be reached.
    """
    last = last_finished(uri, experiment, inputs["config"])
    if last is None or dict(last.inputs) != dict(inputs):
        return
    decided = f", decision: {last.outcome}" if last.outcome else ""
    raise UnchangedError(
        f"nothing to do: data, config and code are those of the bake-off {last.id} "
        f"({last.at:%Y-%m-%d %H:%M} UTC{decided})",
        bakeoff=last.id,
    )
