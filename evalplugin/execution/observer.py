"""Observer of a bake-off: lines about decisions and finished steps, and progress of the work."""

from __future__ import annotations

import inspect
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

from evalplugin.base.secrets import redact_message
from evalplugin.base.text import escape_html

# Packages whose frames lie between a user's code and a warning.
_PACKAGES = (__name__.partition(".")[0], "mlflow")

_SECONDS_BETWEEN_CHANGES = 0.1  # of the line in a notebook

Label: TypeAlias = str | Callable[[], str]  # of a piece of work; a function where its text changes meanwhile


def label_text(label: Label) -> str:
    """Return the label of a step as it is now."""
    return label if isinstance(label, str) else label()


class Observer:
    """Callbacks on the progress of a bake-off; these ignore it, a subclass shows it."""

    def report(self, text: str) -> None:
        """Receive one line about a decision or a finished step."""

    def warn(self, text: str) -> None:
        """Receive one line about a likely mistake, which must stand out."""
        self.report(f"warning: {text}")

    @contextmanager
    def progress(self, label: Label, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show a piece of work while it runs; yields a function that receives how many more of ``total`` are done."""
        yield lambda done: None


class PythonWarnings(Observer):
    """The observer of a bake-off that is run from Python: likely mistakes are Python warnings."""

    def warn(self, text: str) -> None:
        """Issue a UserWarning."""
        warn_caller(text)


def warn_caller(text: str) -> None:
    """Issue a UserWarning at the line of the user's code that caused it."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PACKAGES:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)


class Notebook(Observer):
    """The observer of a bake-off in a notebook: one line that changes while it runs, and each warning once."""

    def __init__(self) -> None:
        self._page: Any = import_module("IPython.display")
        self._steps: list[Label] = []
        self._warned: set[str] = set()
        self._line: Any = None
        self._shown = 0.0  # when the line was last changed, on the monotonic clock

    def report(self, text: str) -> None:
        """Show the line, until the next one."""
        self._show(text)

    def warn(self, text: str) -> None:
        """Show a warning below the line, without the line of source that Python would add."""
        if text not in self._warned:
            self._warned.add(text)
            page = self._page
            page.display(page.HTML(f"<div><b>Warning</b> {escape_html(redact_message(text))}</div>"))

    @contextmanager
    def progress(self, label: Label, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show the innermost step, and how much of it is done."""
        done = 0

        def advance(more: int) -> None:
            nonlocal done
            done += more
            self._show(label_text(label) if total is None else f"{label_text(label)}: {done:,} of {total:,}")

        self._steps.append(label)
        self._show(label_text(label))
        try:
            yield advance
        finally:
            self._steps.remove(label)
            self._show(label_text(self._steps[-1]) if self._steps else "")

    def _show(self, text: str) -> None:
        now = time.monotonic()
        if text and now - self._shown < _SECONDS_BETWEEN_CHANGES:
            return
        self._shown = now
        shown = self._page.HTML(f"<small>{escape_html(redact_message(text))}</small>" if text else "")
        if self._line is None:
            self._line = self._page.display(shown, display_id=True)
        else:
            self._line.update(shown)


def python_observer() -> Observer:
    """Return the observer of a bake-off that is run from Python: in a notebook one that shows progress."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return Notebook() if hasattr(shell, "kernel") else PythonWarnings()
