"""Observer of a bake-off: lines about decisions and finished steps, and progress of the work."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

# Packages whose frames lie between a user's code and a warning.
_PACKAGES = (__name__.partition(".")[0], "mlflow")

Label: TypeAlias = str | Callable[[], str]  # of a piece of work; a function where its text changes meanwhile


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
