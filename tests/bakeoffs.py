"""Whole bake-offs of checked configs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalplugin.bakeoff import flow
from evalplugin.bakeoff.flow import Outcome
from evalplugin.config import CheckedConfig
from evalplugin.execution.observer import Observer
from evalplugin.workspace import Mode, Workspace


def run_bakeoff(
    config: CheckedConfig,
    *,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    observer: Observer | None = None,
    mode: Mode = "run",
    data_home: Path | None = None,
    **options: Any,
) -> Outcome:
    """Run a bake-off in a workspace of its own."""
    workspace = Workspace.open(
        config,
        tracking_uri=tracking_uri,
        experiment=experiment,
        observer=observer,
        mode=mode,
        data_home=data_home,
    )
    return flow.run_bakeoff(workspace, **options)
