"""Figures drawn by a process of its own, while this one works on: Matplotlib's import and the drawing take seconds."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from evalplugin.base.processes import end_process, start_python
from evalplugin.report.figures import Curve, per_user_figures

__all__ = ["Drawing", "FigureRequest", "answer", "draw", "drawing_process"]

_MANY = 20  # figures; a process for fewer costs more than it saves
_MOST_VALUES = 10_000_000  # of all curves, which are copied to the process


class FigureRequest(NamedTuple):
    """Arguments of ``per_user_figures``."""

    metric: str
    curves: Sequence[Curve]
    limits: tuple[float, float]
    subtitles: Mapping[str, str]

    def draw(self) -> dict[str, bytes]:
        """Return the PNG of each model."""
        return per_user_figures(self.metric, self.curves, self.limits, subtitles=self.subtitles)


class Drawing(NamedTuple):
    """Figures that are being drawn."""

    requests: Sequence[FigureRequest]
    process: subprocess.Popen[bytes] | None  # None: they are drawn here

    def figures(self) -> list[dict[str, bytes]]:
        """Return the PNGs of each request, by model, as soon as they are drawn."""
        if self.process is not None:
            assert self.process.stdout is not None
            content = self.process.stdout.read()
            if self.process.wait() == 0:
                drawn: list[dict[str, bytes]] = pickle.loads(content)
                return drawn
        return [request.draw() for request in self.requests]


@contextmanager
def drawing_process(n_figures: int) -> Iterator[subprocess.Popen[bytes] | None]:
    """Yield a process that imports Matplotlib and then draws once; None where it would save no time.

    It ends with the context, even if nothing was drawn.
    """
    process = None
    if n_figures >= _MANY and "matplotlib.figure" not in sys.modules:
        process = start_python(
            f"from {__name__} import answer; answer()", stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
    try:
        yield process
    finally:
        if process is not None:
            end_process(process)


def draw(requests: Sequence[FigureRequest], process: subprocess.Popen[bytes] | None = None) -> Drawing:
    """Begin to draw figures in a process that has drawn none yet; without one they are drawn when they are needed."""
    values = sum(len(curve.values) for request in requests for curve in request.curves)
    if process is None or values > _MOST_VALUES:
        return Drawing(requests, None)
    assert process.stdin is not None
    try:
        with process.stdin as questions:
            pickle.dump([tuple(request) for request in requests], questions)
    except BrokenPipeError:  # it has failed
        return Drawing(requests, None)
    return Drawing(requests, process)


def answer() -> None:
    """Draw the figures that are requested on the standard input; write them to the standard output."""
    import matplotlib.backends.backend_agg
    import matplotlib.figure  # noqa: F401 - imported before there is anything to draw

    requests = [FigureRequest(*request) for request in pickle.load(sys.stdin.buffer)]
    pickle.dump([request.draw() for request in requests], sys.stdout.buffer)
