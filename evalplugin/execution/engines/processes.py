"""Worker processes: a call of a function in a process of its own, with limits of time and memory."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.base.processes import ended_by_signal, kill_group
from evalplugin.base.signals import ENDING
from evalplugin.base.text import escape_controls
from evalplugin.execution.isolation import TaskFailure, error_text
from evalplugin.execution.worker import (
    NO_SPACE,
    NOT_GUARDED,
    NOT_WRITTEN,
    Assignment,
    Limits,
    PluginFile,
    work,
)

__all__ = [
    "WorkerProcess",
    "hold_signals",
    "load_result",
    "pickle_call",
    "start_worker",
    "wait_for_workers",
    "write_shared",
]

_GRACE_SECONDS = 5  # from the time limit, at which a process ends itself, to when it is killed
_POLL_SECONDS = 1.0  # a sentinel reports no end while a process runs that the task has started


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

    def result(self) -> Any:
        """Return the result that the process has written; without one, a failure: its last traceback and why it ended.

        Raises:
            EvalpluginError: No process can be started from the script that runs.
            StoreError: The result could not be written.
        """
        written = self.written()
        return load_result(written) if isinstance(written, bytes) else written

    def written(self) -> bytes | TaskFailure:
        """Return the pickled result that the process has written; without one, as ``result``."""
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
    name: object,
    call: bytes,
    shared: Sequence[Path],
    *,
    folder: Path,
    threads: int,
    limits: Limits,
    plugins: Sequence[PluginFile],
    modules: Path | None = None,
) -> WorkerProcess:
    """Start a process that calls a function of a module.

    Args:
        name: Names the process, and the files of the call.
        call: The function and its arguments, by ``pickle_call``.
        shared: Files with arguments that several calls share, written by ``write_shared``.
        folder: For the files of the call.
        threads: How many threads it may use.
        limits: Its limits.
        plugins: Files that it loads first.
        modules: A folder with modules that these import, where this process is not the driver: its script is not run.

    Raises:
        StoreError: The arguments cannot be written.
    """
    out, file = folder / f"result-{name}", folder / f"task-{name}"
    with _writing(file):
        file.write_bytes(call)
    assignment = Assignment(tuple(shared), file, out, threads, limits, tuple(plugins), modules)
    # Spawned, not forked: the copy of a process with threads may wait for ever for a thread that it lacks.
    process = multiprocessing.get_context("spawn").Process(
        target=work, args=(assignment,), name=f"task {name}"
    )
    with _plain_parent() if modules is not None else nullcontext():
        process.start()
    seconds = float("inf") if limits.seconds is None else limits.seconds + _GRACE_SECONDS
    return WorkerProcess(process, out, limits, time.monotonic() + seconds)


@contextmanager
def _plain_parent() -> Iterator[None]:
    """Start processes from the process of another library: its script is not imported there, and a daemon may."""
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


def load_result(written: bytes) -> Any:
    """Return the result that a worker process has pickled; a failure where it cannot be read."""
    try:
        return pickle.loads(written)  # our own process wrote it
    except Exception:  # noqa: BLE001 - the task has written to its descriptor, or returned an odd object
        return _unreadable()


def _unreadable() -> TaskFailure:
    return TaskFailure(f"{error_text()}\n\nthe result of the task cannot be read")


def wait_for_workers(
    running: Sequence[WorkerProcess], *, at_most: float = float("inf")
) -> list[WorkerProcess]:
    """Return those of some processes that have ended: at least one, or none after ``at_most`` seconds."""
    until = time.monotonic() + at_most
    while True:
        wait([worker.process.sentinel for worker in running], timeout=_time_left(running))
        ended = [worker for worker in running if worker.has_ended()]
        if ended or time.monotonic() >= until:
            return ended


def write_shared(value: Mapping[str, Any], file: Path) -> Path:
    """Write arguments that several calls share, to be mapped into the memory of each.

    Raises:
        StoreError: They cannot be written.
    """
    import joblib

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


def _time_left(running: Sequence[WorkerProcess]) -> float:
    """Return the seconds to wait: until the first deadline, at most ``_POLL_SECONDS``."""
    first = min(worker.deadline for worker in running)
    return min(_POLL_SECONDS, max(0.0, first - time.monotonic()) + 0.01)


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write {file}, which a worker process needs: {reason}") from error
