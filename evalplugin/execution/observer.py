"""Progress of a bake-off: lines about decisions and finished steps, and work under way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Observer"]


class Observer:
    """Receives progress and ignores it; a subclass shows it."""

    def report(self, text: str) -> None:
        """Receive one line about a decision or a finished step."""

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Follow a piece of work; the function that is yielded takes how many more of ``total`` are done."""
        yield lambda done: None
