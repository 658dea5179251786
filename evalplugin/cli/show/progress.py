"""Progress on stderr: bars that redraw themselves on a terminal, plain lines in a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from evalplugin.base.secrets import redact_message
from evalplugin.cli.shared import print_diagnostic, show_warning
from evalplugin.execution.observer import Observer

__all__ = ["observer"]

_SECONDS_BETWEEN_LINES = 10.0


def observer() -> Observer:
    """Return bars that redraw themselves when stderr is a terminal, and plain lines otherwise."""
    console = Console(stderr=True)
    return _Bars(console) if console.is_terminal else _Lines()


class _Bars(Observer):
    def __init__(self, console: Console) -> None:
        self.console = console

    def report(self, text: str) -> None:
        self.console.print(escape(redact_message(text)), highlight=False)

    def warn(self, text: str) -> None:
        show_warning(text)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        count = [BarColumn(bar_width=30), MofNCompleteColumn()] if total is not None else []
        columns = [SpinnerColumn(), TextColumn("{task.description}"), *count, TimeElapsedColumn()]
        with Progress(*columns, console=self.console, transient=True) as progress:
            task = progress.add_task(escape(label), total=total)
            yield lambda done: progress.advance(task, done)


class _Lines(Observer):
    def report(self, text: str) -> None:
        print_diagnostic(text)

    def warn(self, text: str) -> None:
        show_warning(text)

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        # A log needs the step that runs now, but few lines of it.
        self.report(f"{label} ...")
        seen, reported = 0, time.monotonic()

        def advance(done: int) -> None:
            nonlocal seen, reported
            seen += done
            if total is not None and seen < total and time.monotonic() - reported > _SECONDS_BETWEEN_LINES:
                reported = time.monotonic()
                self.report(f"{label}: {seen:,} of {total:,}")

        yield advance
