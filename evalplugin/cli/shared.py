"""Steps that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import ConfigError
from evalplugin.base.secrets import redact_message
from evalplugin.base.text import escape_controls

if TYPE_CHECKING:
    from evalplugin.config import CheckedConfig
    from evalplugin.execution.observer import Observer
    from evalplugin.execution.store import StoreView
    from evalplugin.workspace import Workspace


def load_all(configs: Sequence[Path], **given: Any) -> list[CheckedConfig]:
    """Return the checked configs; ``given`` are arguments of ``config.load``.

    Raises:
        ConfigError: The mistakes of all configs.
    """
    from evalplugin.config import load

    checked: list[CheckedConfig] = []
    lines: list[str] = []
    for path in configs:
        try:
            checked.append(load(path, **given))
        except ConfigError as error:
            lines += error.lines
    if lines:
        raise ConfigError(lines)
    return checked


def open_all(
    configs: Sequence[Path],
    overrides: Sequence[str],
    observer: Observer,
    *,
    engine: str | None = None,
    data_home: Path | None = None,
    **opened: Any,
) -> list[Workspace]:
    """Return the workspaces of configs, all of which are checked first.

    Args:
        configs: Files.
        overrides, engine, data_home: As in ``config.load``.
        observer, opened: As in ``Workspace.open``.

    Raises:
        ConfigError: The mistakes of all configs.
        TrackingError: A tracking URI that cannot be used.
    """
    checked = load_all(configs, overrides=overrides, data_home=data_home, engine=engine)
    return open_checked(checked, observer, data_home=data_home, **opened)


def open_checked(checked: Sequence[CheckedConfig], observer: Observer, **opened: Any) -> list[Workspace]:
    """Return the workspaces of checked configs; ``opened`` are arguments of ``Workspace.open``.

    Raises:
        TrackingError: A tracking URI that cannot be used.
    """
    from evalplugin.workspace import Workspace

    return [Workspace.open(config, observer=observer, **opened) for config in checked]


def open_store(folder: Path) -> StoreView | None:
    """Return the store in a folder, read-only; None if the folder is not a store."""
    from evalplugin.execution.store import StoreView, store_path

    view = StoreView(store_path(folder))
    return view if view.exists else None


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text on stdout, or on stderr; a terminal shows its control characters and does not obey them."""
    click.echo(escape_controls(text), err=err, nl=nl)


def echo_data(text: str, *, nl: bool = True) -> None:
    """Print CSV, JSON or markup on stdout: unchanged and in UTF-8 to a file or a pipe."""
    if sys.stdout is None or sys.stdout.isatty():
        click.echo(escape_controls(text), nl=nl)
    elif not hasattr(sys.stdout, "buffer"):  # text in memory, as of contextlib.redirect_stdout
        click.echo(text, nl=nl)
    else:
        click.echo(text.encode(errors="surrogateescape"), nl=nl)


def print_diagnostic(text: str, *, prefix: str = "") -> None:
    """Print a line on stderr, without credentials, behind a prefix that may be styled."""
    click.echo(f"{prefix}{escape_controls(redact_message(text))}", err=True)


def show_warning(text: str) -> None:
    """Print a warning on stderr."""
    print_diagnostic(text, prefix=f"{click.style('warning:', fg='yellow', bold=True)} ")


def show_error(text: str) -> None:
    """Print an error on stderr; each of several lines is a mistake with its location."""
    several = "\n" in text
    print_diagnostic(text, prefix="" if several else f"{click.style('error:', fg='red', bold=True)} ")
