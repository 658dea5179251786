"""Whole bake-offs of checked configs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
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


def fits() -> int:
    """Return how often models that note their fits in a file have been fitted in this folder."""
    file = Path("fits.txt")
    return len(file.read_text().splitlines()) if file.exists() else 0


def forget_plugins() -> None:
    """Forget the plugins of this folder, as a process that starts knows none; others' modules still need theirs."""
    for name in [name for name in sys.modules if name.startswith("evalplugin_plugin_")]:
        if Path(str(sys.modules[name].__file__)).is_relative_to(Path.cwd().resolve()):
            del sys.modules[name]


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
