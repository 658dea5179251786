"""Progress on stderr: bars that redraw themselves on a terminal, plain lines in a log."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from evalplugin.base.secrets import redact_message
from evalplugin.base.text import escape_controls
from evalplugin.base.units import spoken_time
from evalplugin.cli.shared import print_diagnostic, show_warning
from evalplugin.cli.show.console import Terminal
from evalplugin.execution.observer import Label, Observer, label_text

SECONDS_BETWEEN_LINES = 10.0


def observer() -> Observer:
    """Return bars that redraw themselves when stderr is a terminal, and plain lines otherwise."""
    console = Terminal(stderr=True)
    return _Bars(console) if console.is_terminal else _Lines()


class _Bars(Observer):
    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Progress(console=console)  # replaced as soon as there is a step to show

    def report(self, text: str) -> None:
        self.console.print(escape(redact_message(text)), highlight=False)

    def warn(self, text: str) -> None:
        show_warning(text)

    @contextmanager
    def progress(self, label: Label, total: int | None = None) -> Iterator[Callable[[int], None]]:
        if not self.bars.tasks:
            count = map(_IfCounted, (BarColumn(bar_width=30), MofNCompleteColumn()))
            left = map(_IfCounted, (TimeRemainingColumn(), TextColumn("left")))
            columns = [SpinnerColumn(), _Text(), *count, TimeElapsedColumn(), *left]
            # A task may take hours: the speed is that of all the time.
            self.bars = Progress(
                *columns, console=self.console, transient=True, speed_estimate_period=math.inf
            )
            self.bars.start()
        bar = self.bars.add_task(escape(label_text(label)), total=total, label=label)
        try:
            yield lambda done: self.bars.advance(bar, done)
        finally:
            self.bars.remove_task(bar)
            if not self.bars.tasks:
                self.bars.stop()


class _IfCounted(ProgressColumn):
    """A column that is empty where it is not known how much is to be done."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self.column = column

    def render(self, task: Task) -> RenderableType:
        return "" if task.total is None else self.column(task)


class _Text(ProgressColumn):
    """The label of a step as it is now."""

    def render(self, task: Task) -> RenderableType:
        return Text(escape_controls(redact_message(label_text(task.fields["label"]))))


@dataclass
class _Step:
    label: Label
    total: int | None
    started: float
    seen: int = 0

    def status(self, now: float) -> str:
        count = "" if self.total is None else f"{self.seen:,} of {self.total:,}, "
        return f"{label_text(self.label)}: {count}for {spoken_time(round(now - self.started))}"


class _Lines(Observer):
    """A log: it has each step as it begins, unless it is part of another, and how far those are that take long."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []
        self.reported = 0.0  # when the last line was, on the monotonic clock
        self.idle = threading.Event()

    def report(self, text: str) -> None:
        self.reported = time.monotonic()
        print_diagnostic(text)

    def warn(self, text: str) -> None:
        self.reported = time.monotonic()
        show_warning(text)

    @contextmanager
    def progress(self, label: Label, total: int | None = None) -> Iterator[Callable[[int], None]]:
        if not self.steps:
            self.report(f"{label_text(label)} ...")
        step = _Step(label, total, time.monotonic())
        self.steps.append(step)
        if len(self.steps) == 1:
            self.idle = threading.Event()
            threading.Thread(target=self._report_long_steps, args=(self.idle,), daemon=True).start()

        def advance(done: int) -> None:
            step.seen += done

        try:
            yield advance
        finally:
            self.steps.remove(step)
            if not self.steps:
                self.idle.set()

    def _report_long_steps(self, idle: threading.Event) -> None:
        while not idle.wait(max(0.01, self.reported + SECONDS_BETWEEN_LINES - time.monotonic())):
            now = time.monotonic()
            steps = self.steps[::-1]  # the innermost first; the last one may just have ended
            if steps and now - self.reported >= SECONDS_BETWEEN_LINES:
                self.report("; ".join(step.status(now) for step in steps))
