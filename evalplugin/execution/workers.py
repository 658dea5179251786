"""Tasks in worker processes: several at a time, with limits of time and memory, each failing by itself."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, fields
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.base.signals import ENDING
from evalplugin.base.text import escape_controls
from evalplugin.data import Split
from evalplugin.execution.isolation import error_text
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Executor, Result
from evalplugin.execution.tasks import Task, TaskFailure
from evalplugin.execution.worker import (
    NO_SPACE,
    NOT_GUARDED,
    NOT_WRITTEN,
    Assignment,
    Limits,
    run_fields,
    work,
)
from evalplugin.models import thread_count

__all__ = ["process_executor", "run_in_process"]

T = TypeVar("T")

_GRACE_SECONDS = 5  # from the time limit, at which a process ends itself, to when it is killed
_POLL_SECONDS = 1.0  # a sentinel reports no end while a process runs that the task has started
_SHARED = ("split", "candidates")  # fields of a task that it shares with the other models on its fold

# A call for a worker process: its number, a function of a module, the file with its large arguments, the others.
_Call = tuple[int, Callable[..., object], Path, Mapping[str, Any]]


def process_executor(
    observer: Observer, *, workers: int, limits: Limits, plugins: Sequence[Path], folder: Path
) -> Executor:
    """Return an executor with ``workers`` processes at a time; every task has a process of its own.

    So a process that crashes, hangs or is killed affects no other task, and memory and limits are those of one task.
    The data of a fold is written once, and mapped into the memory of every process that needs it.

    Args:
        observer: Receives which tasks are running.
        workers: Number of processes at a time; together they have no more threads than there are processors.
        limits: Limits of each task.
        plugins: Files that each process loads.
        folder: An empty folder for data and results.

    Raises:
        EvalpluginError: The system cannot limit memory.
    """
    if limits.memory is not None and sys.platform != "linux":
        raise EvalpluginError(
            "limits.memory: only Linux can bound the memory of a process; leave it out here"
        )
    threads = max(1, min(thread_count(), _processors() // workers))
    data: dict[
        int, tuple[Split, Path]
    ] = {}  # by identity of the fold, which is kept so that no other gets its id

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        shown = ExitStack()  # the progress of the running tasks
        ends: dict[int, Callable[[], object]] = {}  # by number of the task

        def calls() -> Iterator[_Call]:
            for number, label, task in tasks:
                rest = {f.name: getattr(task, f.name) for f in fields(task) if f.name not in _SHARED}
                progress = ExitStack()
                ends[number] = shown.enter_context(progress).close
                progress.enter_context(observer.progress(f"compute {label}"))
                yield number, run_fields, _shared_file(task, folder, data), rest

        start = partial(_start, folder=folder, threads=threads, limits=limits, plugins=plugins)
        ended = _run(calls(), workers, start)
        with shown, closing(ended):
            for worker in ended:
                ends.pop(worker.number)()
                yield worker.number, worker.result()

    return execute


def run_in_process(
    function: Callable[..., T],
    shared: Mapping[str, Any],
    rest: Mapping[str, Any],
    *,
    limits: Limits,
    plugins: Sequence[Path],
    folder: Path,
) -> T | TaskFailure:
    """Return the value of a function of a module, called in a process of its own, or its failure.

    ``shared`` are its large arguments and ``rest`` the others. The options are those of ``process_executor``.
    """
    import joblib

    file = folder / "shared"
    with _writing(file):
        joblib.dump(dict(shared), file)
    start = partial(_start, folder=folder, threads=thread_count(), limits=limits, plugins=plugins)
    (worker,) = _run(iter([(0, function, file, rest)]), 1, start)
    result: T | TaskFailure = worker.result()
    return result


def _run(calls: Iterator[_Call], workers: int, start: Callable[..., _Worker]) -> Generator[_Worker]:
    """Call functions in worker processes, ``workers`` at a time; yield each process as soon as it has ended."""
    running: list[_Worker] = []

    def fill() -> None:
        while len(running) < workers and (call := next(calls, None)) is not None:
            with _hold_signals():
                running.append(start(*call))

    try:
        fill()
        while running:
            wait([worker.process.sentinel for worker in running], timeout=_time_left(running))
            ended = [worker for worker in running if worker.has_ended()]
            for worker in ended:
                running.remove(worker)
            fill()  # before results are yielded, so that no process waits for them to be logged
            yield from ended
    finally:
        for worker in running:
            worker.kill()


@dataclass
class _Worker:
    number: int
    process: BaseProcess
    out: Path
    limits: Limits
    deadline: float  # on the monotonic clock
    is_late: bool = False

    def has_ended(self) -> bool:
        if self.process.is_alive() and time.monotonic() > self.deadline:
            self.is_late = True
            self.kill()
            self.process.join()
        return not self.process.is_alive()

    def kill(self) -> None:
        """End the process, if it has not ended, and all that it has started."""
        self.process.kill()
        if os.name == "posix":
            assert self.process.pid is not None  # it was started
            with suppress(ProcessLookupError):  # nothing is left of its group
                os.killpg(self.process.pid, signal.SIGKILL)

    def result(self) -> Any:
        """Return the result that the process has written; without one, a failure: its last traceback and why it ended.

        Raises:
            EvalpluginError: No process can be started from the script that runs.
            StoreError: The result could not be written.
        """
        self.process.join()
        self.kill()
        if self.process.exitcode == NOT_GUARDED:
            raise EvalpluginError(
                "a worker process imports the script that started it, and this script starts a bake-off when it is "
                'imported: put the call below `if __name__ == "__main__":`'
            )
        if self.process.exitcode == NO_SPACE:
            raise StoreError(f"a worker process cannot write its result to {self.out}: the disk is full")
        if self.out.exists():
            try:
                return pickle.loads(self.out.read_bytes())  # our own process wrote it
            except Exception:  # noqa: BLE001 - the task has written to its descriptor, or returned an odd object
                return TaskFailure(f"{error_text()}\n\nthe result of the task cannot be read")
            finally:
                with suppress(OSError):
                    self.out.unlink()
        log = self.out.with_suffix(".log")
        last = (
            escape_controls(log.read_text(encoding="utf-8", errors="replace").strip()) if log.exists() else ""
        )
        return TaskFailure(f"{last}\n\n{self._reason(last)}".strip())

    def _reason(self, log: str) -> str:
        code = self.process.exitcode or 0
        if log.startswith("Timeout") or self.is_late:
            return f"stopped: the task took more than {self.limits.seconds:g} s, its limit (limits.seconds)"
        if code == NOT_WRITTEN:
            return "the process of the task could not write its result: the task has changed its limits or its folder"
        if code >= 0:
            return f"the process of the task ended with exit code {code} before the task was done"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = ", which systems send when memory runs out" if name == "SIGKILL" else ""
        return f"the process of the task was ended by {name}{hint}"


def _start(
    number: int,
    function: Callable[..., object],
    shared: Path,
    rest: Mapping[str, Any],
    *,
    folder: Path,
    threads: int,
    limits: Limits,
    plugins: Sequence[Path],
) -> _Worker:
    out, file = folder / f"result-{number}", folder / f"task-{number}"
    with _writing(file):
        file.write_bytes(pickle.dumps(rest, protocol=5))
    absolute = tuple(path.absolute() for path in plugins)
    assignment = Assignment(function, shared, file, out, threads, limits, absolute)
    # Spawned, not forked: the copy of a process with threads may wait for ever for a thread that it lacks.
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(assignment,), name=f"task {number}"
    )
    process.start()
    seconds = float("inf") if limits.seconds is None else limits.seconds + _GRACE_SECONDS
    return _Worker(number, process, out, limits, time.monotonic() + seconds)


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Block the signals that end a program in this thread; a process started inside unblocks them when it is ready."""
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _time_left(running: Sequence[_Worker]) -> float:
    """Return the seconds to wait: until the first deadline, at most ``_POLL_SECONDS``."""
    first = min(worker.deadline for worker in running)
    return min(_POLL_SECONDS, max(0.0, first - time.monotonic()) + 0.01)


def _shared_file(task: Task, folder: Path, data: dict[int, tuple[Split, Path]]) -> Path:
    """Return the file with the fields of a task that it shares with other models; written once for each fold."""
    key = id(task.split)
    if key not in data:
        import joblib

        file = folder / f"fold-{len(data)}"
        with _writing(file):
            joblib.dump({name: getattr(task, name) for name in _SHARED}, file)
        data[key] = task.split, file
    return data[key][1]


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write {file}, which a worker process needs: {reason}") from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
