"""Whether there is anything to do: data, config and code against those of the last finished bake-off."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from evalplugin.base.errors import UnchangedError
from evalplugin.config import CheckedConfig
from evalplugin.tracking.read.past import last_finished

__all__ = ["check_changed", "inputs_of"]

# What changes neither a score nor a decision: where results go, when, and who hears of them.
_OUTSIDE = ("experiment", "tracking", "store", "workers", "limits", "schedule", "notify")


def inputs_of(config: CheckedConfig, asked: Mapping[str, str]) -> dict[str, str]:
    """Return hashes of the config, the data and the code of a bake-off; each is logged with its runs.

    ``asked`` is what ``evalplugin.resuming.asked_of`` returned: digests of the whole content of the data, versions of
    evalplugin and its libraries, and hashes of plugin files.
    """
    plain = {key: value for key, value in config.resolved.items() if key not in _OUTSIDE}
    config_hash = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
    return {"config": config_hash, "data": asked["data"], "code": asked["code"]}


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
