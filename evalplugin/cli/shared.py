"""What several commands do before they start."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from evalplugin.config import CheckedConfig

__all__ = ["end_politely", "load_all", "show_error"]


def load_all(
    configs: Sequence[Path], overrides: Sequence[str], data_home: Path | None
) -> list[CheckedConfig]:
    """Return the checked configs.

    Raises:
        ConfigError: The mistakes of all of them.
    """
    from evalplugin.base.errors import ConfigError
    from evalplugin.config import load

    checked: list[CheckedConfig] = []
    lines: list[str] = []
    for path in configs:
        try:
            checked.append(load(path, overrides=overrides, data_home=data_home))
        except ConfigError as error:
            lines += error.lines
    if lines:
        raise ConfigError(lines)
    return checked


def end_politely() -> None:
    """Make SIGTERM, and a terminal that is closed, end like Ctrl-C, so that open runs are closed on the way out."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    hang_up = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:  # as nohup has it
        signal.signal(hang_up, interrupt)


def show_error(text: str) -> None:
    """Print what went wrong; of several lines, each is a mistake that names its place."""
    before = "" if "\n" in text else f"{click.style('error:', fg='red', bold=True)} "
    click.echo(f"{before}{text}", err=True)
