"""Figures drawn by other processes, while this one works on: Matplotlib's import and the drawing take seconds."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from evalplugin.base.processes import end_process, start_python
from evalplugin.models import thread_count

if TYPE_CHECKING:
    from evalplugin.execution.results import DataSplit
    from evalplugin.execution.store.contents import Pictures

    # By dataset, split and name of the file.
    Requests: TypeAlias = Mapping[tuple[DataSplit, str], "PictureRequest"]

_MANY = 20  # figures; processes for fewer cost more than they save
_PROCESSES = 2  # at most; each takes 100 MB
_MOST_VALUES = 10_000_000  # of all curves, which are copied to the process


class PictureRequest(Protocol):
    """A picture of each model, with the data to draw them; can be pickled."""

    @property
    def size(self) -> int:
        """The number of values to copy to the process that draws."""

    def draw(self) -> dict[str, bytes]:
        """Return the PNG of each model."""


@dataclass(frozen=True)
class Drawing:
    """Figures that are being drawn, or were in an earlier bake-off."""

    requests: Requests
    # Of n processes, number i draws the requests i, i + n, i + 2n ...; without any, they are drawn here.
    processes: Sequence[subprocess.Popen[bytes]] = ()
    drawn: Pictures | None = None

    @cached_property
    def figures(self) -> Pictures:
        """The PNGs of each request, by model, as soon as they are drawn."""
        if self.drawn is not None:
            return self.drawn
        drawn: list[dict[str, bytes] | None] = [None] * len(self.requests)
        for number, process in enumerate(self.processes):
            assert process.stdout is not None
            content = process.stdout.read()
            if process.wait() == 0:
                drawn[number :: len(self.processes)] = pickle.loads(content)
        return {
            name: request.draw() if images is None else images
            for images, (name, request) in zip(drawn, self.requests.items(), strict=True)
        }


@contextmanager
def drawing_processes(n_figures: int) -> Iterator[Sequence[subprocess.Popen[bytes]]]:
    """Yield processes that import Matplotlib and then draw once; no process where that would save no time.

    They end with the context, even if nothing was drawn.
    """
    processes = []
    if n_figures >= _MANY and "matplotlib.figure" not in sys.modules:
        code = f"from {__name__} import answer; answer()"
        pipe = subprocess.PIPE
        started = (
            start_python(code, stdin=pipe, stdout=pipe) for _ in range(min(_PROCESSES, thread_count()))
        )
        processes = [process for process in started if process is not None]
    try:
        yield processes
    finally:
        for process in processes:
            end_process(process)


def draw(requests: Requests, processes: Sequence[subprocess.Popen[bytes]] = ()) -> Drawing:
    """Begin to draw figures in processes that have not drawn yet; without processes, draw them when they are needed."""
    if sum(request.size for request in requests.values()) > _MOST_VALUES:
        return Drawing(requests, ())
    for number, process in enumerate(processes):
        assert process.stdin is not None
        # A process that has failed reads nothing, and answers nothing.
        with suppress(BrokenPipeError), process.stdin as questions:
            pickle.dump([*requests.values()][number :: len(processes)], questions)
    return Drawing(requests, processes)


def content_of(requests: Requests) -> str:
    """Return a hash of everything that requests draw; equal requests may have different ones, different ones never."""
    content = hashlib.sha256()
    file: Any = SimpleNamespace(write=content.update)
    pickle.dump([*requests.items()], file, protocol=4)  # by which any layout of an array is the same bytes
    return content.hexdigest()


def answer() -> None:
    """Draw the figures that are requested on the standard input; write them to the standard output."""
    import matplotlib.backends.backend_agg
    import matplotlib.figure  # noqa: F401 - imported before there is anything to draw

    import evalplugin.report.figures  # noqa: F401 - likewise

    requests: Sequence[PictureRequest] = pickle.load(sys.stdin.buffer)
    pickle.dump([request.draw() for request in requests], sys.stdout.buffer)
