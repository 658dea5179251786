"""The command ``sync``: log results that were computed while MLflow could not be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, EvalpluginError
from evalplugin.cli import options
from evalplugin.cli.run import run_with
from evalplugin.cli.shared import echo, open_store, print_diagnostic, show_error


@options.command()
@options.store
@options.debug
@click.pass_context
def sync(context: click.Context, folder: Path) -> int:
    """Log what was computed while MLflow could not be reached; nothing is computed."""
    from evalplugin.execution.store.journal import is_running, unfinished

    code, store = EXIT_DONE, open_store(folder)
    journals = [] if store is None else unfinished(store.journals)
    if not journals:
        echo(f"nothing to log: no bake-off was cut off ({folder})")
    for journal in journals:
        header = journal.header
        about = f"bake-off {header.id}, started {header.started_at}"
        if is_running(journal):
            print_diagnostic(f"{about}, is still running")
            continue
        print_diagnostic(about)
        try:
            if not header.command:
                raise EvalpluginError(
                    "it was started from Python: evalplugin.run(..., resume=True) goes on with it"
                )
            if header.folder != str(Path.cwd()):
                raise EvalpluginError(f"it was started in {header.folder}: go there")
            if any("***" in part for part in header.command):
                raise EvalpluginError(
                    "its credentials are not kept: set MLFLOW_TRACKING_URI, and use run --resume without --tracking-uri"
                )
            with _default_store(folder):
                code = max(code, run_with(context, ["--sync", *header.command]))
        except EvalpluginError as error:
            show_error(str(error))
            code = EXIT_FAILED
    return code


@contextmanager
def _default_store(store: Path) -> Iterator[None]:
    """Name a store in the environment, for configs without a store."""
    from evalplugin.execution.store import STORE

    before = os.environ.get(STORE)
    os.environ[STORE] = str(store)
    try:
        yield
    finally:
        os.environ.pop(STORE)
        if before is not None:
            os.environ[STORE] = before
