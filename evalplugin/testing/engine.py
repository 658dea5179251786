"""The contract of engines: same bits as in this process, failures alone, nothing left running, nodes checked."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from evalplugin.base.errors import EngineError
from evalplugin.config.engines import ENGINES
from evalplugin.execution.engines import Call, Engine, Needs, run_calls
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare
from evalplugin.execution.tasks import TaskResult
from evalplugin.execution.worker import Limits
from evalplugin.features.config import load
from evalplugin.testing.cases import created, require

_SECONDS, _BYTES = 15.0, 3 * 2**30  # limits of the calls that break them
_PATIENCE = 60.0  # seconds until a process must have ended
_CONFIG = {
    "experiment": "contract",
    "datasets": [{"type": "synthetic", "n_users": 60, "n_items": 50, "n_interactions": 1200}],
    "split": {"type": "kfold", "k": 2},
    "recommend": {"n": 10},
    "metrics": ["ndcg@10", "recall@5", "coverage@10"],
    "models": ["popularity", "random", {"type": "ease", "params": {"l2": 50.0}}],
    "segments": [],
}
_PLUGIN = """
import os
if os.getpid() != {pid}:
    raise ImportError("no such library on this node")
"""


def check_engine(engine: str | Callable[..., Engine], *, workers: int | None = 2, **params: Any) -> None:
    """Check the contract of an engine on this machine, or with its files and processes.

    Results are those of this process, to the last bit. A call that crashes, hangs, takes too much memory or cannot be
    pickled fails alone. Closing a session ends all.

    Args:
        workers: Calls at a time, at least 2; None: as many as it has room for.
    """
    made = created(ENGINES, engine, params)
    for check in (_check_results, _check_failures, _check_closing, _check_plugin, _check_inputs):
        with TemporaryDirectory() as folder:
            check(made, Path(folder), workers)


def _check_results(engine: Engine, folder: Path, workers: int | None) -> None:
    config = load(_CONFIG)
    jobs = jobs_of(config, prepare(config, None, Observer()))
    tasks = [task for job in jobs for task in job.tasks]
    numbered = [(number, str(number), task) for number, task in enumerate(tasks)]
    expected = dict(sequential_executor(Observer())(iter(numbered)))
    used = [("model", "ease"), ("metric", "ndcg")]
    with engine.open(Needs(folder, workers=workers, components=used)) as session:
        require(not session.in_process, "with several workers, calls run in processes of their own")
        returned = dict(task_executor(session, Observer())(iter(numbered)))
        for number, task in enumerate(tasks):
            require(
                _bits(returned[number]) == _bits(expected[number]),
                f"{task.model.name}: other results than here",
            )


def _check_failures(engine: Engine, folder: Path, workers: int | None) -> None:
    bounded = Limits(_SECONDS, _BYTES if sys.platform == "linux" else None)
    with engine.open(Needs(folder, workers=workers, limits=bounded)) as session:
        failing = [
            ("crash", os.abort, "ended by SIGABRT" if os.name == "posix" else "exit code"),
            ("hang", _hang, "stopped: the task took more than 15 s, its limit (limits.seconds)"),
            ("pickle", _unpicklable, "pickle"),
            ("raise", _fail, "ValueError: of the model"),
        ]
        if bounded.memory is not None:
            text = "out of memory: the process of the task may allocate 3.0 GB (limits.memory)"
            failing.append(("memory", _take_memory, text))
        calls = [Call(number, function) for number, (_, function, _) in enumerate(failing)]
        fine = [Call(2000 + n, _double, [session.put({"n": n})], {}) for n in range(3)]
        values = dict(run_calls(session, iter([*calls, *fine])))
        for number, (name, _, text) in enumerate(failing):
            value = values[number]
            require(isinstance(value, TaskFailure), f"{name}: must be a failure, and is {value!r}")
            require(text in value.error, f"{name}: the failure must say {text!r}: {value.error}")
        doubled = [values[call.number] for call in fine]
        require(doubled == [0, 2, 4], f"other calls must not notice a failure, and return {doubled}")


def _check_closing(engine: Engine, folder: Path, workers: int | None) -> None:
    note, scratch = folder / "pid", folder / "scratch"
    scratch.mkdir()
    with engine.open(Needs(scratch, workers=workers)) as session:
        calls = iter([Call(0, _double, rest={"n": 1}), Call(1, _note_and_hang, rest={"note": str(note)})])
        with closing(run_calls(session, calls)) as ended:
            require(next(ended) == (0, 2), "a call must return its value")
            _wait_for(note.exists, "a call must start while another one runs")
    pid = int(note.read_text())
    _wait_for(lambda: not _is_running(pid), "closing a session must end what runs")


def _check_plugin(engine: Engine, folder: Path, workers: int | None) -> None:
    plugin, scratch = folder / "missing_library.py", folder / "scratch"
    plugin.write_text(_PLUGIN.format(pid=os.getpid()))
    scratch.mkdir()
    law = "a plugin that a node cannot load must be an error that names it"
    value = _value_of_call(engine, Needs(scratch, workers=workers, plugins=[plugin]))
    if isinstance(value, EngineError):
        require("missing_library.py" in str(value) and "no such library" in str(value), f"{law}: {value}")
    else:  # on this machine alone the driver has loaded the plugin before
        require(isinstance(value, TaskFailure) and "no such library on this node" in value.error, law)


def _check_inputs(engine: Engine, folder: Path, workers: int | None) -> None:
    file = str(folder / "features.parquet")
    value = _value_of_call(engine, Needs(folder, workers=workers, inputs={file: "0" * 32}))
    if isinstance(value, EngineError):
        law = "a file that a node lacks must be named"
        require("features.parquet is missing" in str(value), f"{law}: {value}")
    else:
        require(value == 2, "an engine that has one machine alone runs calls with the files of this machine")


def _value_of_call(engine: Engine, needs: Needs) -> object:
    """Return the value of a call that doubles 1, or the error of the engine."""
    try:
        with engine.open(needs) as session:
            ((_, value),) = run_calls(session, [Call(0, _double, rest={"n": 1})])
            return value
    except EngineError as error:
        return error


def _bits(result: object) -> object:
    """Return the parts of a result that must not differ, as plain values; NaN is equal to itself."""
    if not isinstance(result, TaskResult):
        return result
    scores, lists = result.per_user, result.lists
    arrays = [scores.users, scores.values, lists.top_n.user, lists.top_n.item, lists.top_n.score]
    parts = [array.tobytes() for array in arrays]
    predicted = None if lists.predictions is None else lists.predictions.tobytes()
    return parts, predicted, repr((scores.overall, scores.means, scores.at_k, scores.pr_curve)), lists.notes


def _double(n: int) -> int:
    return 2 * n


def _fail() -> None:
    raise ValueError("of the model")


def _hang() -> None:
    time.sleep(600)


def _take_memory() -> float:
    return float(np.ones(2**30).sum())


def _unpicklable() -> object:
    return lambda: None


def _note_and_hang(note: str) -> None:
    part = Path(f"{note}.part")
    part.write_text(str(os.getpid()))
    part.rename(note)
    time.sleep(600)


def _wait_for(reached: Callable[[], bool], law: str) -> None:
    until = time.monotonic() + _PATIENCE
    while not reached():
        require(time.monotonic() < until, law)
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z"
    return False
