"""Tasks in worker processes: several at a time, limited in time and memory, and each failing alone."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.base.units import count_text
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Executor, Result
from evalplugin.execution.tasks import Task
from evalplugin.execution.worker import ENDING, NOT_GUARDED, NOT_WRITTEN, Assignment, Limits, run_fields, work
from evalplugin.models import thread_count

__all__ = ["process_executor", "run_in_process"]

T = TypeVar("T")

_GRACE_SECONDS = 5  # a process that does not end itself in time is killed so much later
_POLL_SECONDS = 1.0  # a sentinel stays silent while a process lives that the task has started
_SHARED = ("split", "candidates")  # fields of a task, that it shares with the other models on its fold


def process_executor(
    observer: Observer, *, workers: int, limits: Limits, plugins: Sequence[Path], folder: Path, total: int
) -> Executor:
    """Return an executor with ``workers`` processes at a time; every task has a process of its own.

    A process that is killed, crashes or hangs so takes nothing with it, and its memory and its limits are those of the
    task alone. Data of a fold is written once, and mapped into the memory of every process that needs it.

    Args:
        observer: Receives how many tasks are done.
        workers: How many processes at a time. Their threads together are no more than the processors.
        limits: Of each task.
        plugins: Files that each process loads.
        folder: An empty folder for data and results.
        total: How many tasks there are.

    Raises:
        EvalpluginError: The system has no such limits.
    """
    if limits.memory is not None and sys.platform != "linux":
        raise EvalpluginError(
            "limits.memory: only Linux can bound the memory of a process; leave it out here"
        )
    threads = max(1, min(thread_count(), _processors() // workers))
    data: dict[int, Path] = {}  # by identity of the fold

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        todo = iter(tasks)
        running: list[_Running] = []
        label = f"compute {count_text(total, 'task')}" + (f" in {workers} processes" if workers > 1 else "")

        def fill() -> None:
            while len(running) < workers and (following := next(todo, None)) is not None:
                place, _, task = following
                shared = _written(task, folder, data)
                rest = {f.name: getattr(task, f.name) for f in fields(task) if f.name not in _SHARED}
                with _hold_signals():
                    running.append(_start(place, run_fields, shared, rest, folder, threads, limits, plugins))

        with observer.progress(label, total) as advance:
            try:
                fill()
                while running:
                    wait([one.process.sentinel for one in running], timeout=_time_left(running))
                    ended = [one for one in running if one.has_ended()]
                    for one in ended:
                        running.remove(one)
                    fill()  # before the results are handed out, so that no process waits for them to be logged
                    for one in ended:
                        advance(1)
                        yield one.place, one.result()
            finally:
                for one in running:
                    one.kill()

    return execute


def run_in_process(
    function: Callable[..., T],
    shared: Mapping[str, Any],
    rest: Mapping[str, Any],
    *,
    limits: Limits,
    plugins: Sequence[Path],
    folder: Path,
) -> T | str:
    """Return the value of a function of a module, called in a process of its own; or else its traceback.

    ``shared`` and ``rest`` are its arguments, the large ones in ``shared``; the others as for ``process_executor``.
    """
    import joblib

    file = folder / "shared"
    with _writing(file):
        joblib.dump(dict(shared), file)
    running: list[_Running] = []
    try:
        with _hold_signals():
            running.append(_start(0, function, file, rest, folder, thread_count(), limits, plugins))
        (one,) = running
        while not one.has_ended():
            wait([one.process.sentinel], timeout=_time_left([one]))
        result: T | str = one.result()
        return result
    finally:
        for one in running:
            one.kill()


@dataclass
class _Running:
    place: int
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
        """Return the result that the process has written, or else why it ended and its last traceback.

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
        if self.process.exitcode == NOT_WRITTEN:
            raise StoreError(f"a worker process cannot write its result to {self.out}: is the disk full?")
        if self.out.exists():
            result = pickle.loads(self.out.read_bytes())  # our own process wrote it
            self.out.unlink()
            return result
        log = self.out.with_suffix(".log")
        where = log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""
        return f"{where}\n\n{self._reason(where)}".strip()

    def _reason(self, where: str) -> str:
        code = self.process.exitcode or 0
        if where.startswith("Timeout") or self.is_late:
            return f"stopped: the task took more than {self.limits.seconds:g} s, its limit (limits.seconds)"
        if code >= 0:
            return f"the process of the task ended with exit code {code} before the task was done"
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = ", which systems send when memory runs out" if name == "SIGKILL" else ""
        return f"the process of the task was ended by {name}{hint}"


def _start(
    place: int,
    function: Callable[..., object],
    shared: Path,
    rest: Mapping[str, Any],
    folder: Path,
    threads: int,
    limits: Limits,
    plugins: Sequence[Path],
) -> _Running:
    out, file = folder / f"result-{place}", folder / f"task-{place}"
    with _writing(file):
        file.write_bytes(pickle.dumps(rest, protocol=5))
    absolute = tuple(path.absolute() for path in plugins)
    assignment = Assignment(function, shared, file, out, threads, limits, absolute)
    # Spawned, and not forked: a copy of a process with threads may wait for ever for one that is not there.
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(assignment,), name=f"task {place}"
    )
    process.start()
    seconds = float("inf") if limits.seconds is None else limits.seconds + _GRACE_SECONDS
    return _Running(place, process, out, limits, time.monotonic() + seconds)


@contextmanager
def _hold_signals() -> Iterator[None]:
    """Block the signals that end a program: a process that is started inside unblocks them when it is ready.

    For this process they are blocked as far as the system leaves that to this thread.
    """
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _time_left(running: Sequence[_Running]) -> float:
    """Return the seconds to wait: to the first deadline, but no longer than an end may go unnoticed."""
    first = min(one.deadline for one in running)
    return min(_POLL_SECONDS, max(0.0, first - time.monotonic()) + 0.01)


def _written(task: Task, folder: Path, data: dict[int, Path]) -> Path:
    """Return the file with the data of a task, which it shares with the other models on its fold."""
    key = id(task.split)
    if key not in data:
        import joblib

        data[key] = folder / f"fold-{len(data)}"
        with _writing(data[key]):
            joblib.dump({name: getattr(task, name) for name in _SHARED}, data[key])
    return data[key]


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write {file}, which a worker process needs: {reason}") from error


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
