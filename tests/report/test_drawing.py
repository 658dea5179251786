"""Figures drawn in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from evalplugin.report import drawing as module
from evalplugin.report.drawing import FigureRequest, drawing
from evalplugin.report.figures import Curve


def requests(n_models: int = 10) -> list[FigureRequest]:
    rng = np.random.default_rng(0)
    curves = [Curve(f"model {n}", rng.uniform(size=50), "#0072B2", n == 0) for n in range(n_models)]
    return [FigureRequest(metric, curves, (0.0, 1.0), {"model 1": "100 users"}) for metric in ("rr", "ap")]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that are started, by a process that has not imported Matplotlib."""
    processes = []

    def start(*args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        process = start_python(*args, **kwargs)
        processes.append(process)
        return process

    start_python = module.start_python
    monkeypatch.setattr(module, "start_python", start)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    return processes


def test_figures_are_the_same_from_a_process_of_its_own(started: list[subprocess.Popen[bytes]]) -> None:
    with drawing(requests()) as figures:
        drawn = figures.figures()
    (process,) = started
    assert process.returncode == 0
    assert drawn == [request.draw() for request in requests()]


def test_few_figures_are_drawn_here(started: list[subprocess.Popen[bytes]]) -> None:
    with drawing(requests(3)) as figures:
        assert [len(one) for one in figures.figures()] == [3, 3]
    assert started == []


def test_figures_are_drawn_here_if_the_process_fails(started: list[subprocess.Popen[bytes]]) -> None:
    with drawing(requests()) as figures:
        started[0].kill()
        assert [len(one) for one in figures.figures()] == [10, 10]


def test_an_interruption_ends_the_process(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(KeyboardInterrupt), drawing(requests()):
        raise KeyboardInterrupt
    assert started[0].returncode is not None
