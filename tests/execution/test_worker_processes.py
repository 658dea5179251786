"""Worker processes: they run call after call, and no call notices the ones before it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import worker_calls
from samples import small_config

from evalplugin.config import load
from evalplugin.execution.engines import Call, Needs, run_calls
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare
from evalplugin.execution.tasks import TaskResult
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


def test_as_many_processes_as_workers_run_all_calls(tmp_path: Path, started: list[int]) -> None:
    with session(tmp_path, workers=2, calls=21) as opened:
        assert opened.describe() == "in 2 processes"
        assert len(started) == 2  # before any call, so that they import while the first one is prepared
        ran = values(opened, *[worker_calls.process] * 21)
    assert set(ran) <= set(started)
    assert len(started) == 2


@pytest.mark.parametrize(("calls", "at_once"), [(0, 0), (1, 1)])
def test_processes_start_for_calls_that_come_alone(
    tmp_path: Path, started: list[int], calls: int, at_once: int
) -> None:
    with session(tmp_path, workers=2, calls=calls) as opened:
        assert len(started) == at_once
        assert values(opened, worker_calls.process) == started
    assert len(started) == 1


def test_what_tasks_need_is_imported_before_the_first_call(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        (modules,) = values(opened, worker_calls.modules)
    assert {"evalplugin.execution.executor", "scipy.linalg", "threadpoolctl", "joblib"} <= modules


def test_shared_arguments_are_written_once_and_read_once_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(tmp_path, workers=2) as opened:
        handles = [opened.put({name: [number]}) for number, name in enumerate("ab")]
        calls = [Call(n, worker_calls.process_of_shared, handles) for n in range(12)]
        ended: list[Any] = [value for _, value in run_calls(opened, calls)]
    seen = {(pid, tuple(places)) for pid, places in ended}
    assert len(seen) == len({pid for pid, _ in seen})


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (os.abort, "was ended by SIGABRT"),
        (worker_calls.hang, "took more than 1 s"),
        (dict.fromkeys, "TypeError"),
    ],
)
def test_call_that_fails_costs_its_process_at_most(
    tmp_path: Path, started: list[int], function: Callable[..., Any], said: str
) -> None:
    with session(tmp_path, limits=Limits(seconds=1.0)) as opened:
        found = values(opened, *[worker_calls.process] * 3, function, *[worker_calls.process] * 3)
    failure = found.pop(3)
    assert isinstance(failure, TaskFailure)
    assert said in failure.error
    assert found[:3] == [started[0]] * 3
    assert found[3:] == [started[-1]] * 3
    assert len(started) == (1 if said == "TypeError" else 2)


QUICK = ("variable", "orphan", "handler")


@pytest.mark.parametrize(
    "hows", [QUICK, pytest.param(sorted({*worker_calls.LEAVE} - {*QUICK}), marks=pytest.mark.slow)]
)
def test_what_cannot_be_undone_costs_the_process(
    tmp_path: Path, started: list[int], hows: Sequence[str]
) -> None:
    with session(tmp_path) as opened:
        (before,) = values(opened, worker_calls.look)
        for number, how in enumerate(hows):
            assert values(opened, worker_calls.leave, how=how) == [started[number]], how
            (after,) = values(opened, worker_calls.look)
            assert after == before, how
            assert len(started) == number + 2, how
            until = time.monotonic() + 10
            while group := processes_of(started[number]):
                assert time.monotonic() < until, (how, group)
                time.sleep(0.02)


def processes_of(group: int) -> list[str]:
    """Return the processes of a group that are running."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = file.read_text().rpartition(")")
        except OSError:
            continue
        state, _, of = rest.split()[:3]
        if int(of) == group and state != "Z":
            found.append(name)
    return found


def test_what_can_be_undone_costs_nothing(tmp_path: Path, started: list[int]) -> None:
    with session(tmp_path) as opened:
        (before,) = values(opened, worker_calls.look)
        for how in worker_calls.UNDONE:
            assert values(opened, worker_calls.leave, how=how) == started, how
            (after,) = values(opened, worker_calls.look)
            assert after | {"held": 0} == before, how
    assert len(started) == 1


def test_random_numbers_of_the_process_differ_between_calls_and_are_not_seeded_by_others(
    tmp_path: Path,
) -> None:
    with session(tmp_path) as opened:
        found = values(opened, worker_calls.draw, worker_calls.draw, worker_calls.seed, worker_calls.draw)
    drawn = [found[0], found[1], found[3]]
    assert len({number for pair in drawn for number in pair}) == 6


PLUGIN = """
import os, random
import numpy as np
random.seed(5)
np.random.seed(5)
os.environ["OF_PLUGIN"] = "1"
"""


def test_state_that_a_plugin_sets_when_it_is_loaded_is_there_for_each_call(tmp_path: Path) -> None:
    plugin = tmp_path / "seeding.py"
    plugin.write_text(PLUGIN)
    with session(tmp_path, plugins=[plugin]) as opened:
        first, second = values(opened, *[worker_calls.draw] * 2)
        (seen,) = values(opened, worker_calls.look)
    assert first == second
    assert seen["environment"]["OF_PLUGIN"] == "1"


@pytest.mark.slow
def test_call_that_lacks_memory_beside_what_others_left_is_run_again_in_a_new_process(
    tmp_path: Path, started: list[int]
) -> None:
    with session(tmp_path, limits=Limits(memory=2**30)) as opened:
        assert values(opened, worker_calls.hold, mb=400) == [started[0]]
        assert values(opened, worker_calls.take, mb=500) == [500 * 2**17]
        assert len(started) == 2
        (failure,) = values(opened, worker_calls.take, mb=2000)
        assert "out of memory: the process of the task may allocate 1.0 GB (limits.memory)" in failure.error
        assert len(started) == 3
        assert values(opened, worker_calls.held) == [0]


def test_process_that_dies_between_calls_is_replaced(tmp_path: Path, started: list[int]) -> None:
    with session(tmp_path) as opened:
        values(opened, worker_calls.process)
        os.kill(started[0], 9)
        while opened._workers[0].process.is_alive():
            time.sleep(0.01)
        assert values(opened, worker_calls.process) == [started[1]]


MODELS = [
    "random",
    {"type": "ease", "params": {"l2": 9.0}},
    {"type": "surprise.KNNBaseline", "params": {"k": 5}},
    {"type": "surprise.SVD", "params": {"n_epochs": 2, "random_state": 1}},
    {"type": "surprise.NormalPredictor"},
    {"type": "surprise.CoClustering", "params": {"n_epochs": 2}},
    {"type": "sklearn.NearestNeighbors"},
    {"type": "sklearn.TruncatedSVD", "params": {"n_components": 4}},
    {"type": "sklearn.NMF", "params": {"n_components": 4, "tol": 0.1}},
    {"type": "implicit.AlternatingLeastSquares", "params": {"factors": 4}},
    {"type": "implicit.BM25Recommender"},
]


def bits(result: Any) -> object:
    assert isinstance(result, TaskResult), result
    scores, lists = result.per_user, result.lists
    arrays = [scores.users, scores.values, lists.top_n.user, lists.top_n.item, lists.top_n.score]
    figures = scores.overall, scores.means, scores.at_k, scores.pr_curve
    return [array.tobytes() for array in arrays], repr(figures), lists.notes, result.inputs


@pytest.mark.slow
def test_tasks_in_one_process_in_any_order_change_no_bit(
    tmp_path: Path, started: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(small_config(models=MODELS, metrics=["ndcg@10", "coverage@10", "rmse"], compare={}))
    jobs = jobs_of(config, prepare(config, None, Observer()))
    tasks = [(number, job.model.name, job.tasks[0]) for number, job in enumerate(jobs)]
    expected = {number: bits(result) for number, result in sequential_executor(Observer())(tasks)}
    for name in [name for name in os.environ if name.startswith("KMP_")]:
        monkeypatch.delenv(name)  # joblib has set it in this process, and would set it in the other one
    with session(tmp_path) as opened:
        for order in (tasks, tasks[::-1]):
            found = dict(task_executor(opened, Observer())(iter(order)))
            assert {number: bits(result) for number, result in found.items()} == expected
    assert len(started) == 1  # no model of our own leaves anything
