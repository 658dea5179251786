"""Whole bake-offs of checked configs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from samples import RecordingObserver

from evalplugin.bakeoff import flow
from evalplugin.config import CheckedConfig
from evalplugin.features.base import Bakeoff
from evalplugin.workspace import Workspace


def run_bakeoff(
    config: CheckedConfig,
    *,
    workers: int | None = None,
    command: Sequence[str] = (),
    if_changed: bool = False,
    **where: Any,
) -> Bakeoff:
    """Run a bake-off in a workspace of its own; ``where`` are arguments of ``Workspace.open``."""
    workspace = replace(Workspace.open(config, **where), if_changed=if_changed)
    return flow.run_bakeoff(workspace, workers=workers, command=command)


class Interrupting(RecordingObserver):
    """Interrupts a bake-off when all models are computed, as Ctrl-C does."""

    def progress(self, label: Any, total: int | None = None) -> Any:
        if label == "compare":
            raise KeyboardInterrupt
        return super().progress(label, total)


def interrupt_bakeoff(config: CheckedConfig, **options: Any) -> RecordingObserver:
    """Run a bake-off that is interrupted when it compares; return what it has reported."""
    observer = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        run_bakeoff(config, observer=observer, **options)
    return observer
