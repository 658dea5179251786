"""Observer of a bake-off: lines about decisions and finished steps, and progress of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Observer"]


class Observer:
    """Callbacks on the progress of a bake-off; these ignore it, a subclass shows it."""

    def report(self, text: str) -> None:
        """Receive one line about a decision or a finished step."""

    def warn(self, text: str) -> None:
        """Receive one line about a likely mistake, which must stand out."""
        self.report(f"warning: {text}")

    @contextmanager
    def progress(self, label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show a piece of work while it runs; yields a function that receives how many more of ``total`` are done."""
        yield lambda done: None

    @contextmanager
    def overall(
        self, label: str, total: int | None, seconds_left: Callable[[], float | None]
    ) -> Iterator[Callable[[int], None]]:
        """Show how much of all the work is done, around the progress of its pieces; as ``progress``.

        ``seconds_left`` returns an estimate of the seconds until it is done; None: nothing is known yet.
        """
        with self.progress(label, total) as advance:
            yield advance
