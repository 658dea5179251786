"""Whole bake-offs of checked configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalplugin.bakeoff import flow
from evalplugin.bakeoff.flow import Outcome
from evalplugin.config import CheckedConfig
from evalplugin.workspace import Workspace


def run_bakeoff(
    config: CheckedConfig,
    *,
    workers: int | None = None,
    command: Sequence[str] = (),
    if_changed: bool = False,
    **where: Any,
) -> Outcome:
    """Run a bake-off in a workspace of its own; ``where`` are arguments of ``Workspace.open``."""
    workspace = replace(Workspace.open(config, **where), if_changed=if_changed)
    return flow.run_bakeoff(workspace, workers=workers, command=command)
