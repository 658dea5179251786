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
from evalplugin.execution.engines.base import Call, Handle, Needs, Session, UsersPerTask
from evalplugin.execution.isolation import TaskFailure, error_text, outcome_of
from evalplugin.execution.shared import write_value
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

    With several workers or limits, a task that crashes, hangs or is killed costs its process, which a new one replaces,
    and affects no other task. So does a task that changes its process for good.
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
    """A session with worker processes, each of which runs one call after the other.

    What is put is written once, and mapped into the memory of every process that needs it. A process starts at once for
    each call that is certain to come, and else with the first call that finds none. A call that ends or changes its
    process costs it that process: the next call starts another one.
    """

    in_process = False

    def __init__(self, needs: Needs) -> None:
        """Divide the processors among the processes, and start those that will be needed.

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
        self._workers: list[WorkerProcess] = []
        self._running: dict[int, tuple[Call, WorkerProcess]] = {}
        # They import what they need while the first call is prepared.
        for _ in range(min(self.slots, needs.calls)):
            self._start()

    def put(self, value: Mapping[str, Any]) -> Path:
        """Write the arguments to a file."""
        return write_shared(value, self._settings.folder)

    def submit(self, call: Call) -> None:
        """Hand a call to a process: one that has started, if there is one."""
        idle = [worker for worker in self._workers if worker.is_idle and worker.process.is_alive()]
        ready = [worker for worker in idle if worker.is_ready()]
        self._submit(call, (ready or idle or [self._start()])[0])

    def _submit(self, call: Call, worker: WorkerProcess) -> None:
        self._running[call.number] = call, worker
        worker.submit(call.number, pickle_call(call.function, call.rest), call.shared)

    def _start(self) -> WorkerProcess:
        with hold_signals():
            self._workers.append(WorkerProcess(self._settings))
        return self._workers[-1]

    def wait(self) -> list[tuple[int, Any]]:
        """Wait until a call has ended."""
        values: list[tuple[int, Any]] = []
        while not values:
            ended = wait_for_workers([worker for _, worker in self._running.values()])
            for number, (call, worker) in list(self._running.items()):
                if worker in ended:
                    del self._running[number]
                    value = load_result(worker.result())
                    if not worker.is_ready():
                        self._workers.remove(worker)
                        if isinstance(value, TaskFailure) and worker.may_have_lacked_memory:
                            self._submit(call, self._start())  # which has nothing of earlier calls
                            continue
                    values.append((number, value))
        return values

    def describe(self) -> str:
        """Return the number of processes."""
        return f"in {self.slots} processes" if self.slots > 1 else ""

    def close(self) -> None:
        """Kill the processes; the caller removes the folder."""
        for worker in self._workers:
            worker.kill()
        self._workers.clear()
        self._running.clear()


class WorkerProcess:
    """A process that runs calls, one at a time; their values are written to files."""

    def __init__(self, settings: WorkerSettings) -> None:
        """Start it."""
        self._settings, name = settings, uuid.uuid4().hex[:12]
        self._pipe, other = multiprocessing.Pipe()
        self._log = settings.folder / f"worker-{name}.log"
        # Spawned, not forked: the copy of a process with threads may wait for ever for a thread that it lacks. As a
        # daemon it is ended with this process where a session was not closed.
        self.process: BaseProcess = multiprocessing.get_context("spawn").Process(
            target=work, args=(settings, other, self._log), name=f"worker {name}", daemon=True
        )
        with _plain_parent() if settings.modules is not None else nullcontext():
            self.process.start()
        other.close()
        self._calls = self._answers = 0  # the first answer says that it has started
        self._out: Path | None = None  # of the call that runs
        self._deadline = float("inf")  # on the monotonic clock
        self._is_late = False

    @property
    def is_idle(self) -> bool:
        """Whether no call has been handed to it whose result is to come."""
        return self._out is None

    def submit(self, name: object, call: bytes, shared: Sequence[Path]) -> None:
        """Hand it a call; it need not have started yet.

        Args:
            name: Names the files of the call.
            call: The function and its arguments, by ``pickle_call``.
            shared: Files with arguments that several calls share, written by ``write_shared``.

        Raises:
            StoreError: The arguments cannot be written.
        """
        self._out, file = self._settings.folder / f"result-{name}", self._settings.folder / f"task-{name}"
        with _writing(file):
            file.write_bytes(call)
        self._calls += 1
        self._begin_time()
        with suppress(OSError):  # it has ended, as is found when its result is waited for
            self._pipe.send((list(shared), file, self._out))

    def _begin_time(self) -> None:
        seconds = self._settings.limits.seconds
        self._deadline = float("inf") if seconds is None else time.monotonic() + seconds + _GRACE_SECONDS

    def is_ready(self) -> bool:
        """Return whether it has started, ended its last call, and can run another one."""
        try:
            while not self._pipe.closed and self._pipe.poll():
                self._pipe.recv_bytes()
                self._answers += 1
                self._begin_time()  # of the first call, if it was handed over before the process had started
        except (EOFError, OSError):
            self._pipe.close()
            self.process.join(_GRACE_SECONDS)
        return self._answers > self._calls

    @property
    def handles(self) -> list[Any]:
        """What may be ready when its call has ended."""
        return [self.process.sentinel] if self._pipe.closed else [self.process.sentinel, self._pipe]

    def has_ended(self) -> bool:
        """Return whether its call has ended; beyond the time limit, the process is killed."""
        if self.is_ready():
            return True
        if self.process.is_alive() and time.monotonic() > self._deadline:
            self._is_late = True
            self.kill()
            self.process.join()
        return not self.process.is_alive()

    @property
    def deadline(self) -> float:
        """When its call is over time, on the monotonic clock."""
        return self._deadline

    @property
    def may_have_lacked_memory(self) -> bool:
        """Whether its last call may have failed as earlier ones had left something in memory."""
        return self._settings.limits.memory is not None and self._calls > 1 and not self._is_late

    def kill(self) -> None:
        """End the process, if it has not ended, and all that it has started."""
        assert self.process.pid is not None  # it was started
        self.process.kill()
        kill_group(self.process.pid)

    def result(self) -> bytes | TaskFailure:
        """Return the pickled value of the call that has ended, or a failure: the last traceback and why it ended.

        Raises:
            EvalpluginError: No process can be started from the script that runs.
            StoreError: The value could not be written.
        """
        assert self._out is not None  # a call was submitted
        out, self._out = self._out, None
        if not self.is_ready():
            self.process.join()
            self.kill()
        if self.process.exitcode == NOT_GUARDED:
            raise EvalpluginError(
                "a worker process imports the script that started it, and this script starts a bake-off when it is "
                'imported: put the call below `if __name__ == "__main__":`'
            )
        if self.process.exitcode == NO_SPACE:
            raise StoreError(f"a worker process cannot write its result to {out}: the disk is full")
        if out.exists():
            try:
                return out.read_bytes()
            except OSError:  # the task has written to its descriptor
                return _unreadable()
            finally:
                with suppress(OSError):
                    out.unlink()
        last = ""
        if self._log.exists():
            last = escape_controls(self._log.read_text(encoding="utf-8", errors="replace").strip())
        return TaskFailure(f"{last}\n\n{self._reason(last)}".strip())

    def _reason(self, log: str) -> str:
        code = self.process.exitcode or 0
        if log.startswith("Timeout") or self._is_late:
            self._is_late = True
            limit = f"{self._settings.limits.seconds:g} s, its limit (limits.seconds)"
            return f"stopped: the task took more than {limit}"
        if code == NOT_WRITTEN:
            return "the process of the task could not write its result: the task has changed its limits or its folder"
        if code >= 0:
            return f"the process of the task ended with exit code {code} before the task was done"
        return f"the process of the task {ended_by_signal(code)}"


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
    """Return a function of a module and the arguments that no other call shares, for ``WorkerProcess.submit``."""
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
    """Return the processes whose call has ended: at least one, or none after ``at_most`` seconds."""
    until = time.monotonic() + at_most
    while True:
        deadline = min(worker.deadline for worker in running)  # later once a process has started
        left = max(0.0, deadline - time.monotonic()) + 0.01
        handles = [handle for worker in running for handle in worker.handles]
        wait(handles, timeout=min(_POLL_SECONDS, left))
        ended = [worker for worker in running if worker.has_ended()]
        if ended or time.monotonic() >= until:
            return ended


def write_shared(value: Mapping[str, Any], folder: Path) -> Path:
    """Write arguments that several calls share to a new file, to be mapped into the memory of each.

    Raises:
        StoreError: They cannot be written.
    """
    file = folder / f"shared-{uuid.uuid4().hex[:12]}"
    with _writing(file):
        write_value(dict(value), file)
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
