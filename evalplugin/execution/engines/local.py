"""The engine of this machine: this process, or worker processes with limits of time and memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
import uuid
from collections import ChainMap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.base.processes import ended_by_signal, kill_group
from evalplugin.base.signals import ENDING
from evalplugin.base.text import escape_controls
from evalplugin.base.units import count_text
from evalplugin.execution.engines.base import Call, Handle, Needs, Session, UsersPerTask
from evalplugin.execution.isolation import TaskFailure, error_text, outcome_of
from evalplugin.execution.worker import (
    NO_SPACE,
    NOT_GUARDED,
    NOT_WRITTEN,
    Limits,
    PluginFile,
    WorkerSettings,
    work,
)

_GRACE_SECONDS = 5  # from the time limit, at which a process ends itself, to when it is killed
_POLL_SECONDS = 1.0  # a sentinel reports no end while a process runs that the task has started


@dataclass(frozen=True)
class Local:
    """This machine: one task after the other in this process, or ``workers`` processes at a time.

    Every task has a process of its own where there are several workers or limits, so that one that crashes, hangs or
    is killed affects no other.
    """

    users_per_task: UsersPerTask = 100_000

    @contextmanager
    def open(self, needs: Needs) -> Generator[Session]:
        """Yield a session.

        Raises:
            EvalpluginError: The system cannot limit memory.
        """
        in_process = needs.workers in (None, 1) and needs.limits == Limits()
        session: InProcess | Processes = InProcess() if in_process else Processes(needs)
        with closing(session):
            yield session


class InProcess(Session):
    """A session that runs each call in this process when it is waited for."""

    slots = 1
    in_process = True

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Callable[[], Any]]] = []

    def put(self, value: Mapping[str, Any]) -> Handle:
        """Return the arguments themselves."""
        return value

    def submit(self, call: Call) -> None:
        """Store a call."""
        arguments = dict(ChainMap(dict(call.rest), *call.shared))
        self._waiting.append((call.number, partial(call.function, **arguments)))

    def wait(self) -> list[tuple[int, Any]]:
        """Run the call; an interruption by the user is raised."""
        number, call = self._waiting.pop(0)
        return [(number, outcome_of(call))]

    def close(self) -> None:
        """Discard calls that have not run."""
        self._waiting.clear()


class Processes:
    """A session with worker processes; every call has one of its own.

    What is put is written once, and mapped into the memory of every process that needs it.
    """

    in_process = False

    def __init__(self, needs: Needs) -> None:
        """Divide the processors among the processes; none is started yet.

        Raises:
            EvalpluginError: The system cannot limit memory.
        """
        if needs.limits.memory is not None and sys.platform != "linux":
            raise EvalpluginError(
                "limits.memory: only Linux can bound the memory of a process; leave it out here"
            )
        from evalplugin.models import thread_count

        self.slots = needs.workers or 1
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = max(1, min(thread_count(), processors // self.slots))
        plugins = [PluginFile(path.resolve(), path.resolve()) for path in needs.plugins]
        self._settings = WorkerSettings(needs.folder, threads, needs.limits, plugins)
        self._running: dict[int, WorkerProcess] = {}

    def put(self, value: Mapping[str, Any]) -> Path:
        """Write the arguments to a file."""
        return write_shared(value, self._settings.folder)

    def submit(self, call: Call) -> None:
        """Start a process."""
        pickled = pickle_call(call.function, call.rest)
        with hold_signals():
            self._running[call.number] = start_worker(call.number, pickled, call.shared, self._settings)

    def wait(self) -> list[tuple[int, Any]]:
        """Wait until a process has ended."""
        ended = wait_for_workers(list(self._running.values()))
        numbers = [number for number, worker in self._running.items() if worker in ended]
        return [(number, load_result(self._running.pop(number).result())) for number in numbers]

    def describe(self) -> str:
        """Return the number of processes."""
        return f"in {count_text(self.slots, 'process')}" if self.slots > 1 else ""

    def close(self) -> None:
        """Kill the processes that are running; the caller removes the folder."""
        for worker in self._running.values():
            worker.kill()
        self._running.clear()


@dataclass
class WorkerProcess:
    """A process that runs one call; its value is written to a file."""

    process: BaseProcess
    out: Path
    limits: Limits
    deadline: float  # on the monotonic clock
    is_late: bool = False

    def has_ended(self) -> bool:
        """Return whether it has ended; beyond its time limit, it is killed."""
        if self.process.is_alive() and time.monotonic() > self.deadline:
            self.is_late = True
            self.kill()
            self.process.join()
        return not self.process.is_alive()

    def kill(self) -> None:
        """End the process, if it has not ended, and all that it has started."""
        assert self.process.pid is not None  # it was started
        self.process.kill()
        kill_group(self.process.pid)

    def result(self) -> bytes | TaskFailure:
        """Return the pickled result that the process has written, or a failure: its last traceback and why it ended.

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
                return self.out.read_bytes()
            except OSError:  # the task has written to its descriptor
                return _unreadable()
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
        return f"the process of the task {ended_by_signal(code)}"


def start_worker(
    name: object, call: bytes, shared: Sequence[Path], settings: WorkerSettings
) -> WorkerProcess:
    """Start a process that calls a function of a module.

    Args:
        name: Names the process, and the files of the call.
        call: The function and its arguments, by ``pickle_call``.
        shared: Files with arguments that several calls share, written by ``write_shared``.
        settings: Those of the session.

    Raises:
        StoreError: The arguments cannot be written.
    """
    out, file = settings.folder / f"result-{name}", settings.folder / f"task-{name}"
    with _writing(file):
        file.write_bytes(call)
    # Spawned, not forked: the copy of a process with threads may wait for ever for a thread that it lacks.
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(settings, shared, file, out), name=f"task {name}"
    )
    with _plain_parent() if settings.modules is not None else nullcontext():
        process.start()
    limits = settings.limits
    seconds = float("inf") if limits.seconds is None else limits.seconds + _GRACE_SECONDS
    return WorkerProcess(process, out, limits, time.monotonic() + seconds)


@contextmanager
def _plain_parent() -> Iterator[None]:
    """Start processes from the process of another library: its script is not imported, and it may be a daemon."""
    # Private: `daemon` cannot be set once a process has started. Held by test_daemon_may_start_a_worker.
    main, config = sys.modules["__main__"], multiprocessing.current_process()._config  # type: ignore[attr-defined]
    file, spec, daemon = getattr(main, "__file__", None), main.__spec__, config.get("daemon")
    main.__file__, main.__spec__, config["daemon"] = None, None, False
    try:
        yield
    finally:
        main.__file__, main.__spec__, config["daemon"] = file, spec, daemon


def pickle_call(function: Callable[..., object], rest: Mapping[str, Any]) -> bytes:
    """Return a function of a module and the arguments that no other call shares, for ``start_worker``."""
    return pickle.dumps((function, dict(rest)), protocol=5)


def load_result(written: bytes | TaskFailure) -> Any:
    """Return the result that a worker process has pickled, or the failure in its place."""
    if isinstance(written, TaskFailure):
        return written
    try:
        return pickle.loads(written)  # our own process wrote it
    except Exception:  # noqa: BLE001 - the task has written to its descriptor, or returned an odd object
        return _unreadable()


def _unreadable() -> TaskFailure:
    return TaskFailure(f"{error_text()}\n\nthe result of the task cannot be read")


def wait_for_workers(
    running: Sequence[WorkerProcess], *, at_most: float = float("inf")
) -> list[WorkerProcess]:
    """Return the processes that have ended: at least one, or none after ``at_most`` seconds."""
    until = time.monotonic() + at_most
    deadline = min(worker.deadline for worker in running)
    while True:
        left = max(0.0, deadline - time.monotonic()) + 0.01
        wait([worker.process.sentinel for worker in running], timeout=min(_POLL_SECONDS, left))
        ended = [worker for worker in running if worker.has_ended()]
        if ended or time.monotonic() >= until:
            return ended


def write_shared(value: Mapping[str, Any], folder: Path) -> Path:
    """Write arguments that several calls share to a new file, to be mapped into the memory of each.

    Raises:
        StoreError: They cannot be written.
    """
    import joblib

    file = folder / f"shared-{uuid.uuid4().hex[:12]}"
    with _writing(file):
        joblib.dump(dict(value), file)
    return file


@contextmanager
def hold_signals() -> Iterator[None]:
    """Block the signals that end a program in this thread; a process started inside unblocks them when it is ready."""
    if os.name != "posix":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write {file}, which a worker process needs: {reason}") from error
