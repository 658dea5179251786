"""``evalplugin.run``: a bake-off from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalplugin.bakeoff import Outcome, run_bakeoff
from evalplugin.config import load

__all__ = ["run"]


def run(
    config: str | Path | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    tracking_uri: str | None = None,
    experiment: str | None = None,
    data_home: str | Path | None = None,
) -> Outcome:
    """Return the outcome of a bake-off: ``.result`` with every model's scores, and ``.links`` into MLflow.

    Args:
        config: A YAML file, or the same as a mapping; a dataset of type ``dataframe`` takes its ``frame`` here.
        overrides: Assignments such as ``models.0.params.k=20``.
        tracking_uri, experiment: Win over the config's.
        data_home: Folder of downloaded datasets; None: the one that EVALPLUGIN_DATA_HOME names, if any.

    Raises:
        ConfigError: Everything that is wrong with the config.
        DataError: Data that is missing or breaks a rule.
        TrackingError: The tracking store cannot be reached.
    """
    home = data_home if data_home is not None else os.environ.get("EVALPLUGIN_DATA_HOME")
    home = Path(home) if home is not None else None
    checked = load(
        config if isinstance(config, Mapping) else Path(config), overrides=overrides, data_home=home
    )
    return run_bakeoff(checked, data_home=home, tracking_uri=tracking_uri, experiment=experiment)
