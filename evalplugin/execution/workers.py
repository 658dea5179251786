"""Tasks in processes of their own: several at a time, bounded in time and memory, and each failing alone."""

from __future__ import annotations

import errno
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TextIO, TypeVar

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.base.registry import load_plugin_file
from evalplugin.base.units import bytes_of, count_text, size_text
from evalplugin.config.sections import TaskLimits
from evalplugin.execution.observer import Observer
from evalplugin.execution.tasks import Task, TaskResult, run_task
from evalplugin.models import thread_count

__all__ = ["Limits", "process_executor", "refuse_in_worker", "run_in_process"]

T = TypeVar("T")

_GRACE_SECONDS = 5  # a process that does not end itself in time is killed so much later
_LOOK_SECONDS = 1.0  # a sentinel tells nothing while a process lives that the task has started
# Exit codes of a worker that would start a bake-off of its own, and of one that cannot write its result.
_NOT_GUARDED, _NOT_WRITTEN = 79, 80
_SHARED = ("split", "candidates")  # fields of a task, that it shares with the other models on its fold
_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Limits:
    """Time and memory of one task; None: no limit."""

    seconds: float | None = None
    memory: int | None = None  # bytes that its process may allocate

    @classmethod
    def of(cls, spec: TaskLimits) -> Limits:
        """Return the limits that a config asks for."""
        return cls(spec.seconds, None if spec.memory is None else bytes_of(spec.memory))


def process_executor(
    observer: Observer, *, workers: int, limits: Limits, plugins: Sequence[Path], folder: Path, total: int
) -> Callable[[Iterable[tuple[int, str, Task]]], Generator[tuple[int, TaskResult | str]]]:
    """Return what computes tasks in processes, ``workers`` at a time; every task has a process of its own.

    A process that is killed, crashes or hangs so takes nothing with it, and its memory and its limits are those of the
    task alone. Data of a fold is written once, and mapped into the memory of every process that needs it.

    Args:
        observer: Hears how many tasks are done.
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

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, TaskResult | str]]:
        todo = iter(tasks)
        running: list[_Running] = []
        label = f"compute {count_text(total, 'task')}" + (f" in {workers} processes" if workers > 1 else "")

        def fill() -> None:
            while len(running) < workers and (following := next(todo, None)) is not None:
                place, _, task = following
                shared = _written(task, folder, data)
                rest = {f.name: getattr(task, f.name) for f in fields(task) if f.name not in _SHARED}
                with _no_interrupt():
                    running.append(_start(place, _run, shared, rest, folder, threads, limits, plugins))

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
    """Return what a function of a module returns, called in a process of its own; or else what became of it.

    ``shared`` and ``rest`` are its arguments, the large ones in ``shared``; the others as for ``process_executor``.
    """
    import joblib

    file = folder / "shared"
    with _writing(file):
        joblib.dump(dict(shared), file)
    running: list[_Running] = []
    try:
        with _no_interrupt():
            running.append(_start(0, function, file, rest, folder, thread_count(), limits, plugins))
        (one,) = running
        while not one.has_ended():
            wait([one.process.sentinel], timeout=_time_left([one]))
        result: T | str = one.result()
        return result
    finally:
        for one in running:
            one.kill()


def refuse_in_worker() -> None:
    """End this process if it is a worker that imports the script which started it; its parent then says why."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(_NOT_GUARDED)


@dataclass
class _Order:
    """What a worker process is told: where the files are, as only plugins tell what is in them."""

    function: Callable[..., object]
    shared: Path  # arguments that others share
    rest: Path  # the other arguments
    out: Path
    threads: int
    limits: Limits
    plugins: tuple[Path, ...]


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
        """Return what the process has left, or else what became of it and where it was.

        Raises:
            EvalpluginError: No process can be started from the script that runs.
            StoreError: The result could not be written.
        """
        self.process.join()
        self.kill()
        if self.process.exitcode == _NOT_GUARDED:
            raise EvalpluginError(
                "a worker process imports the script that started it, and this script starts a bake-off when it is "
                'imported: put the call below `if __name__ == "__main__":`'
            )
        if self.process.exitcode == _NOT_WRITTEN:
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
    order = _Order(function, shared, file, out, threads, limits, tuple(path.absolute() for path in plugins))
    # Spawned, and not forked: a copy of a process with threads may wait for ever for one that is not there.
    process = multiprocessing.get_context("spawn").Process(target=_work, args=(order,), name=f"task {place}")
    process.start()
    seconds = float("inf") if limits.seconds is None else limits.seconds + _GRACE_SECONDS
    return _Running(place, process, out, limits, time.monotonic() + seconds)


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Hold back what ends a program: from a process that is started inside, until it can take it; and from this one.

    From this one as far as the system leaves it to this thread.
    """
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _time_left(running: Sequence[_Running]) -> float:
    """Return how long to wait: to the first deadline, and no longer than a process may have ended unnoticed."""
    first = min(one.deadline for one in running)
    return min(_LOOK_SECONDS, max(0.0, first - time.monotonic()) + 0.01)


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


def _work(order: _Order) -> None:
    """Run a task and write its result: all that a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.setpgid(0, 0)  # what the task starts is in its group, and ends with it
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a model prints is no result
    _end_with_parent()
    log = order.out.with_suffix(".log").open("w", encoding="utf-8")
    _tell_where(log, order.limits.seconds)
    for variable in _THREADS:
        os.environ[variable] = str(order.threads)
    try:
        with _memory_bounded(order.limits.memory):
            result = _result(order)
    except BaseException as error:  # noqa: BLE001 - the edge of a task: recorded whole
        result = traceback.format_exc()
        if _is_memory(error) and order.limits.memory is not None:
            allowed = size_text(order.limits.memory)
            result += f"\nout of memory: the process of the task may allocate {allowed} (limits.memory)"
    beside = order.out.with_suffix(".part")
    try:
        with beside.open("wb") as file:
            pickle.dump(result, file, protocol=5)
        beside.rename(order.out)
    except OSError:  # no failure of the model's: it may be tried again
        os._exit(_NOT_WRITTEN)
    sys.stdout.flush()
    sys.stderr.flush()
    _end()


def _is_memory(error: BaseException) -> bool:
    if isinstance(error, ImportError):  # of compiled code; the system's loader says no more
        return "failed to map segment" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


def _result(order: _Order) -> object:
    import joblib

    for plugin in order.plugins:
        load_plugin_file(plugin)
    shared = joblib.load(order.shared, mmap_mode="r")
    rest = pickle.loads(order.rest.read_bytes())
    order.rest.unlink()
    return order.function(**shared, **rest)


def _run(**task: Any) -> TaskResult:
    return run_task(Task(**task), "", Observer())


@contextmanager
def _memory_bounded(size: int | None) -> Iterator[None]:
    """Let this process allocate no more than ``size`` bytes inside."""
    if size is None:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _tell_where(log: TextIO, seconds: float | None) -> None:
    """Write where the program stands when it crashes, or when its time is up, which ends it even in compiled code."""
    faulthandler.enable(log)
    if seconds is not None:
        faulthandler.dump_traceback_later(seconds, exit=True, file=log)


def _end_with_parent() -> None:
    """End this process when its parent is gone, whatever ended that."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        _end()

    threading.Thread(target=watch, daemon=True).start()


def _end() -> None:
    """End this process and what the task has left running: threads, and processes that it has started."""
    if os.name == "posix":
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
