"""Figures drawn in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from evalplugin.report import drawing as module
from evalplugin.report.drawing import FigureRequest, draw, drawing_process
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
    with drawing_process(20) as process:
        drawn = draw(requests(), process).figures()
    assert started == [process]
    assert started[0].returncode == 0
    assert drawn == [request.draw() for request in requests()]


def test_the_process_starts_before_there_is_anything_to_draw(started: list[subprocess.Popen[bytes]]) -> None:
    with drawing_process(20):
        assert started[0].poll() is None
    assert started[0].returncode is not None


@pytest.mark.usefixtures("started")
def test_few_figures_are_drawn_here() -> None:
    with drawing_process(19) as process:
        assert process is None
        assert [len(one) for one in draw(requests(3), process).figures()] == [3, 3]


def test_very_many_values_are_not_copied_to_the_process(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", 999)
    with drawing_process(20) as process:
        assert draw(requests(), process).process is None
        assert started == [process]


@pytest.mark.parametrize("when", ["before", "after"])
def test_figures_are_drawn_here_if_the_process_fails(
    started: list[subprocess.Popen[bytes]], when: str
) -> None:
    with drawing_process(20) as process:
        if when == "before":
            started[0].kill()
            started[0].wait()
        figures = draw(requests(), process)
        started[0].kill()
        assert [len(one) for one in figures.figures()] == [10, 10]


def test_an_interruption_ends_the_process(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(KeyboardInterrupt), drawing_process(20):
        raise KeyboardInterrupt
    assert started[0].returncode is not None
