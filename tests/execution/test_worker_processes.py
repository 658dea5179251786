"""Processes of calls: each call has its own, and no call notices another."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worker_calls
from processes import wait_for

from evalplugin.execution.engines import Call, Needs, run_calls
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.worker import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by means of Linux")


@contextmanager
def session(folder: Path, **needs: Any) -> Iterator[Processes]:
    with closing(Processes(Needs(folder, **{"workers": 1, **needs}))) as opened:
        yield opened


def values(opened: Processes, *functions: Callable[..., Any], **rest: Any) -> list[Any]:
    """Return the values of calls, one after the other or as many at a time as there are workers."""
    calls = [Call(number, function, rest=rest) for number, function in enumerate(functions)]
    return [value for _, value in sorted(run_calls(opened, calls))]


def test_each_call_has_a_process_of_one_server_with_the_libraries(tmp_path: Path) -> None:
    with session(tmp_path, workers=2, components=[("model", "surprise.KNNBasic")]) as opened:
        assert opened.describe() == "in 2 processes"
        processes, parents = zip(*values(opened, *[worker_calls.process] * 8), strict=True)
        (modules,) = values(opened, worker_calls.modules)
        handles = [opened.put({name: np.full(3, n)}) for n, name in enumerate("abc")]
        calls = [Call(n, worker_calls.shared_sum, handles[:n]) for n in range(4)]
        assert sorted(run_calls(opened, calls)) == [(0, 0.0), (1, 0.0), (2, 3.0), (3, 9.0)]
    assert len(set(processes)) == 8
    assert len({*parents} - {os.getpid()}) == 1
    assert {"evalplugin.execution.executor", "scipy.linalg", "pandas", "surprise", "numba"} <= modules


@pytest.mark.parametrize(
    ("function", "reason"),
    [(os.abort, "was ended by SIGABRT"), (signal.pause, "took more than 4 s"), (dict.fromkeys, "TypeError")],
)
def test_call_that_fails_affects_no_other(tmp_path: Path, function: Callable[..., Any], reason: str) -> None:
    with session(tmp_path, limits=Limits(seconds=4.0)) as opened:
        before, failure, after = values(opened, worker_calls.process, function, worker_calls.process)
    assert isinstance(failure, TaskFailure)
    assert reason in failure.error
    assert before[1] == after[1]


def test_nothing_of_a_call_reaches_the_next(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        (before,) = values(opened, worker_calls.look)
        for how in worker_calls.LEAVE:
            (process,) = values(opened, worker_calls.leave, how=how)
            (after,) = values(opened, worker_calls.look)
            assert after == before, how
            wait_for(lambda: not running_in(process))  # noqa: B023


def running_in(group: int) -> list[str]:
    """Return the names of the processes of a group that are running."""
    names = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = file.read_text().rpartition(")")
        except OSError:
            continue
        state, _, of = rest.split()[:3]
        if int(of) == group and state != "Z":
            names.append(name)
    return names


def test_random_numbers_of_processes_differ_unless_a_plugin_seeds_them(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        drawn = values(opened, *[worker_calls.draw] * 3)
    assert len({number for pair in drawn for number in pair}) == 6
    plugin = tmp_path / "seeding.py"
    plugin.write_text("import random\nimport numpy as np\nrandom.seed(5)\nnp.random.seed(5)\n")
    with session(tmp_path, plugins=[plugin]) as opened:
        first, second = values(opened, *[worker_calls.draw] * 2)
    assert first == second


def test_server_that_is_killed_fails_its_calls_and_is_replaced(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        ((_, server),) = values(opened, worker_calls.process)
        note = tmp_path / "note"
        opened.submit(Call(1, worker_calls.hang, rest={"note": str(note)}))
        wait_for(note.exists)
        os.kill(server, signal.SIGKILL)
        ((number, failure),) = opened.wait()
        assert number == 1
        assert "was ended by SIGKILL" in failure.error
        wait_for(lambda: not running_in(int(note.read_text())))
        ((_, other),) = values(opened, worker_calls.process)
        assert other != server


def test_closing_ends_what_runs(tmp_path: Path) -> None:
    note = tmp_path / "note"
    with session(tmp_path) as opened:
        opened.submit(Call(0, worker_calls.hang, rest={"note": str(note)}))
        wait_for(note.exists)
    wait_for(lambda: not running_in(int(note.read_text())))
