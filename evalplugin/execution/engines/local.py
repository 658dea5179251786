"""The engine of this machine: this process, or a process for each task with limits of time and memory."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
import uuid
from collections import ChainMap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import spawn
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from evalplugin.base.errors import EvalpluginError, StoreError
from evalplugin.base.processes import ended_by_signal
from evalplugin.base.text import escape_controls
from evalplugin.execution.engines.base import Call, Handle, Needs, Session, UsersPerTask
from evalplugin.execution.isolation import TaskFailure, error_text, outcome_of
from evalplugin.execution.shared import write_value
from evalplugin.execution.worker import (
    ANSWER,
    CAN_FORK,
    MESSAGE,
    NO_SPACE,
    NOT_GUARDED,
    TOO_LATE,
    WRITTEN,
    Limits,
    WorkerSettings,
)
from evalplugin.models import thread_count

_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_SECONDS_TO_END = 5.0
# By its code, so that `__main__` of the server is no script.
_SERVE = (
    "import sys; sys.path[:] = {path!r}; from evalplugin.execution.worker import serve; serve({folder!r})"
)


@dataclass(frozen=True)
class Local:
    """This machine: one task after the other in this process, or ``workers`` tasks at a time.

    With several workers or limits, each task has a process of its own.
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
    """A session that runs each call in a process of its own.

    What is put is written once, and mapped into the memory of every process that needs it. Processes are forked by a
    server, which has imported their libraries; without ``fork``, each call has a server of its own.
    """

    in_process = False

    def __init__(self, needs: Needs) -> None:
        """Divide the processors among the processes, and start the server.

        Raises:
            EvalpluginError: The system cannot limit memory.
        """
        if needs.limits.memory is not None and sys.platform != "linux":
            raise EvalpluginError(
                "limits.memory: only Linux can bound the memory of a process; leave it out here"
            )
        self.slots = needs.workers or 1
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._settings = WorkerSettings(
            needs.folder,
            threads=max(1, min(thread_count(), processors // self.slots)),
            limits=needs.limits,
            plugins={path.resolve(): path.resolve() for path in needs.plugins},
            models=[name for kind, name in needs.components if kind == "model"],
        )
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._running: dict[int, Server] = {}
        self._servers = [Server(self._settings, self._ended)]

    def put(self, value: Mapping[str, Any]) -> Path:
        """Write the arguments to a file."""
        return write_shared(value, self._settings.folder)

    def submit(self, call: Call) -> None:
        """Start a process for a call."""
        if not self._servers[-1].can_start:
            self._servers.append(Server(self._settings, self._ended))
        server = self._running[call.number] = self._servers[-1]
        server.start(call.number, pickle_call(call.function, call.rest), call.shared)

    def wait(self) -> list[tuple[int, Any]]:
        """Wait until a call has ended."""
        values: list[tuple[int, Any]] = []
        while not values:
            ended = self._ended.get()
            for number, server in list(self._running.items()):
                if server is ended.server and ended.number in (number, None):
                    del self._running[number]
                    values.append((number, load_result(server.result(number, ended.code))))
        return values

    def describe(self) -> str:
        """Return the number of processes."""
        return f"in {self.slots} processes" if self.slots > 1 else ""

    def close(self) -> None:
        """Kill the processes; the caller removes the folder."""
        for server in self._servers:
            server.close()
        self._running.clear()


class Ended(NamedTuple):
    """The end of a call, or of a server."""

    server: Server
    number: int | None  # of the call; None: the server, and all its calls with it
    code: int  # negative: the signal that ended it


class Server:
    """A process that starts another one for each call; arguments and values are in files."""

    def __init__(
        self, settings: WorkerSettings, ended: SimpleQueue[Ended], *, imports_script: bool = True
    ) -> None:
        """Start it.

        Args:
            settings: Of the session; files are in a new folder below theirs.
            ended: Receives the ends of calls.
            imports_script: Whether it imports the script of this program, as it may define components.
        """
        self._ended, self._has_call = ended, False
        self._folder = Path(tempfile.mkdtemp(dir=settings.folder))
        self._limits = settings.limits
        preparation = _preparation(imports_script)
        settings = replace(settings, folder=self._folder, preparation=preparation)
        with _writing(self._folder / "settings") as file:
            file.write_bytes(pickle.dumps(settings, protocol=5))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE.format(path=preparation["sys_path"], folder=str(self._folder))],
            env={**os.environ, **dict.fromkeys(_THREADS, str(settings.threads))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which then ends it
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def can_start(self) -> bool:
        """Whether it can start a process for a call."""
        return self._process.poll() is None and (CAN_FORK or not self._has_call)

    def start(self, number: int, call: bytes, shared: Sequence[Path]) -> None:
        """Start a process for a call; the server need not be ready yet.

        Args:
            number: Of the call.
            call: The function and its arguments, by ``pickle_call``.
            shared: Files with arguments that several calls share, written by ``write_shared``.

        Raises:
            StoreError: The arguments cannot be written.
        """
        self._has_call = True
        with _writing(self._folder / f"task-{number}") as file:
            file.write_bytes(pickle.dumps((list(shared), call), protocol=5))
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, as the listener finds
            self._process.stdin.write(MESSAGE.pack(number))
            self._process.stdin.flush()

    def _listen(self) -> None:
        """Hand on the ends of calls, and the end of the server."""
        assert self._process.stdout is not None
        while len(answer := self._process.stdout.read(ANSWER.size)) == ANSWER.size:
            self._ended.put(Ended(self, *ANSWER.unpack(answer)))
        self._ended.put(Ended(self, None, self._process.wait()))

    def result(self, number: int, code: int) -> bytes | TaskFailure:
        """Return the pickled value of a call that has ended, or a failure: the last traceback and why it ended.

        Raises:
            EvalpluginError: No process can be started from the script that runs.
            StoreError: The value could not be written.
        """
        out, log, task = (self._folder / f"{name}-{number}" for name in ("result", "log", "task"))
        if code == NOT_GUARDED:
            raise EvalpluginError(
                "a worker process imports the script that started it, and this script starts a bake-off when it is "
                'imported: put the call below `if __name__ == "__main__":`'
            )
        if code == NO_SPACE:
            raise StoreError(f"a worker process cannot write its result to {out}: the disk is full")
        try:
            if code == WRITTEN:
                return out.read_bytes()
            last = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        finally:
            for file in (out, log, task):
                file.unlink(missing_ok=True)
        last = escape_controls(last.strip())
        return TaskFailure(f"{last}\n\n{self._reason(code, last)}".strip())

    def _reason(self, code: int, log: str) -> str:
        if log.startswith("Timeout") or code == TOO_LATE:
            limit = f"{self._limits.seconds:g} s, its limit (limits.seconds)"
            return f"stopped: the task took more than {limit}"
        if code >= 0:
            return f"the process of the task ended with exit code {code} before the task was done"
        return f"the process of the task {ended_by_signal(code)}"

    def close(self) -> None:
        """End it with all that runs."""
        self._process.terminate()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()  # with which its processes end
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):  # what it has not read
                pipe.close()


def _preparation(imports_script: bool) -> dict[str, Any]:
    """Return the path and the script of this process, as ``multiprocessing`` passes them to a new one."""
    data = spawn.get_preparation_data("evalplugin")
    if not imports_script:
        return {"sys_path": data["sys_path"]}
    del data["authkey"]  # it cannot be pickled
    if not Path(data.get("init_main_from_path", "")).is_file():  # it came from stdin
        data.pop("init_main_from_path", None)
    return data


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
        return TaskFailure(f"{error_text()}\n\nthe result of the task cannot be read")


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
def _writing(file: Path) -> Iterator[Path]:
    try:
        yield file
    except OSError as error:
        reason = error.strerror or error
        raise StoreError(f"cannot write {file}, which a worker process needs: {reason}") from error
