"""Figures drawn by a process of its own, while this one works on: Matplotlib's import and the drawing take seconds."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NamedTuple

from evalplugin.base.processes import end_process, start_python
from evalplugin.report.figures import Curve, per_user_figures

__all__ = ["Drawing", "FigureRequest", "answer", "drawing"]

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
    output: IO[bytes]

    def figures(self) -> list[dict[str, bytes]]:
        """Return the PNGs of each request, by model, as soon as they are drawn."""
        if self.process is not None and self.process.wait() == 0:
            self.output.seek(0)
            drawn: list[dict[str, bytes]] = pickle.load(self.output)
            return drawn
        return [request.draw() for request in self.requests]


@contextmanager
def drawing(requests: Sequence[FigureRequest]) -> Iterator[Drawing]:
    """Draw figures in a process of its own while the context lasts, if that is faster, or else when they are needed."""
    curves = [curve for request in requests for curve in request.curves]
    values = sum(len(curve.values) for curve in curves)
    with tempfile.TemporaryFile() as questions, tempfile.TemporaryFile() as answers:
        process = None
        if len(curves) >= _MANY and values <= _MOST_VALUES and "matplotlib.figure" not in sys.modules:
            pickle.dump([tuple(request) for request in requests], questions)
            questions.seek(0)
            process = start_python(
                f"from {__name__} import answer; answer()", stdin=questions, stdout=answers
            )
        try:
            yield Drawing(requests, process, answers)
        finally:
            if process is not None:
                end_process(process)


def answer() -> None:
    """Draw the figures that are requested on the standard input; write them to the standard output."""
    requests = [FigureRequest(*request) for request in pickle.load(sys.stdin.buffer)]
    pickle.dump([request.draw() for request in requests], sys.stdout.buffer)
