"""Figures drawn in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from evalplugin.execution.results import DataSplit
from evalplugin.models import limit_threads
from evalplugin.report import drawing as module
from evalplugin.report.drawing import draw, drawing_processes
from evalplugin.report.figures import Curve, FigureRequest


def requests(n_models: int = 10) -> dict[tuple[DataSplit, str], FigureRequest]:
    rng = np.random.default_rng(0)
    curves = [Curve(f"model {n}", rng.uniform(size=50), "#0072B2", n == 0) for n in range(n_models)]
    return {
        (DataSplit("shop", ""), f"{metric}.png"): FigureRequest(
            metric, curves, (0.0, 1.0), {"model 1": "100 users"}
        )
        for metric in ("rr", "ap")
    }


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


def test_figures_are_the_same_from_processes_of_their_own(started: list[subprocess.Popen[bytes]]) -> None:
    with limit_threads(2), drawing_processes(20) as processes:
        drawn = draw(requests(), processes).figures
    assert started == processes
    assert [process.returncode for process in started] == [0, 0]
    assert drawn == {name: request.draw() for name, request in requests().items()}


def test_the_processes_start_before_there_is_anything_to_draw(started: list[subprocess.Popen[bytes]]) -> None:
    with limit_threads(1), drawing_processes(20):
        assert [process.poll() for process in started] == [None]
    assert started[0].returncode is not None


@pytest.mark.usefixtures("started")
def test_few_figures_are_drawn_here() -> None:
    with drawing_processes(19) as processes:
        assert processes == []
        assert [len(pictures) for pictures in draw(requests(3), processes).figures.values()] == [3, 3]


def test_very_many_values_are_not_copied_to_processes(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_VALUES", 999)
    with drawing_processes(20) as processes:
        assert draw(requests(), processes).processes == ()
        assert started == processes


@pytest.mark.parametrize("when", ["before", "after"])
def test_figures_are_drawn_here_if_a_process_fails(started: list[subprocess.Popen[bytes]], when: str) -> None:
    with limit_threads(2), drawing_processes(20) as processes:
        if when == "before":
            started[1].kill()
            started[1].wait()
        figures = draw(requests(), processes)
        started[1].kill()
        assert [len(pictures) for pictures in figures.figures.values()] == [10, 10]


def test_an_interruption_ends_the_processes(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(KeyboardInterrupt), drawing_processes(20):
        raise KeyboardInterrupt
    assert None not in [process.returncode for process in started]
