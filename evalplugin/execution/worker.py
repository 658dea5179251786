"""Processes of tasks: a server that has imported their libraries forks one for each call, and reports how it ended."""

from __future__ import annotations

import errno
import faulthandler
import gc
import math
import os
import pickle
import select
import signal
import struct
import sys
import threading
import time
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from multiprocessing import spawn
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from evalplugin.base import processes
from evalplugin.base.errors import PluginError, is_disk_full
from evalplugin.base.units import size_text
from evalplugin.components.registry import load_plugin_file
from evalplugin.execution.isolation import failure_of, isolated
from evalplugin.execution.shared import read_value
from evalplugin.models import MODELS, one_blas_thread

CAN_FORK = hasattr(os, "fork")
# Exit codes: of a process that has written its result, which no task has by chance; of one that cannot, as the disk is
# full; of one that was killed as it took too long; of a server whose script would start a bake-off of its own.
WRITTEN, NO_SPACE, TOO_LATE, NOT_GUARDED = 78, 79, 80, 81
MESSAGE, ANSWER = struct.Struct("q"), struct.Struct("qq")  # number of a call; number and exit code
_LIBRARIES = (
    "evalplugin.execution.executor",
    "joblib",
    "pandas",
    "pyarrow.compute",
    "scipy.sparse",
    "scipy.special",
)
_POLL_SECONDS = 1.0
_GRACE_SECONDS = 5.0  # from the time limit, at which a process ends itself, to when it is killed

_imports_script = False  # whether this process imports the script of its parent now


@dataclass(frozen=True)
class Limits:
    """Time and memory of one task; None: no limit."""

    seconds: float | None = None
    memory: int | None = None  # bytes that its process may allocate


@dataclass(frozen=True)
class WorkerSettings:
    """Settings that all processes of a session share."""

    folder: Path  # for the files of calls
    threads: int  # that each may use
    limits: Limits
    # Path that names the module of a plugin -> its file here. Loaded first: they define the classes of arguments.
    plugins: Mapping[Path, Path]
    models: Sequence[str] = ()  # types whose libraries the server imports
    # What ``multiprocessing.spawn`` does to a process, such as importing the script of its parent.
    preparation: Mapping[str, Any] = field(default_factory=dict)
    modules: Path | None = None  # a folder with modules that the plugins import, from another machine


def refuse_in_worker() -> None:
    """End this process if it imports the script that started it; its parent reports the reason."""
    if _imports_script:
        os._exit(NOT_GUARDED)


def serve(folder: str) -> None:
    """Run calls, each in a process of its own, until the parent ends: the main function of a server.

    stdin has the numbers of calls; stdout gets the number and the exit code of each call that has ended. Without
    ``fork``, a server runs one call itself.
    """
    calls, answers = os.dup(0), os.dup(1)  # a script and tasks may read and print
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    with suppress(OSError):  # the program was started without a stderr
        os.dup2(2, 1)  # stdout is for results, not for output of models
    settings: WorkerSettings = pickle.loads(Path(folder, "settings").read_bytes())
    _import_script(settings.preparation)
    _import_libraries(settings.models)
    if not CAN_FORK:
        _run_and_exit(settings, *MESSAGE.unpack(os.read(calls, MESSAGE.size)))
    alive, holding = os.pipe()  # which ends with this process
    signals, wakeup = os.pipe()  # a signal ends the wait for calls
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    limit = settings.limits.seconds
    patience = math.inf if limit is None else limit + _GRACE_SECONDS
    # By process: its call, and when it is killed, on the monotonic clock.
    running: dict[int, tuple[int, float]] = {}
    try:
        while True:
            ready, _, _ = select.select([calls, signals], [], [], _POLL_SECONDS)
            if signals in ready and signal.SIGTERM in os.read(signals, 4096):
                return
            if calls in ready:
                if not (message := os.read(calls, MESSAGE.size)):  # the parent has ended
                    return
                (call,) = MESSAGE.unpack(message)
                if (process := os.fork()) == 0:
                    _become_task(alive, (calls, answers, holding, signals, wakeup))
                    _run_and_exit(settings, call)
                running[process] = call, time.monotonic() + patience
                with suppress(OSError):  # it may have done this itself, and have ended
                    os.setpgid(process, process)
            for process, (call, deadline) in list(running.items()):
                if (code := _exit_code(process, deadline)) is not None:
                    del running[process]
                    os.write(answers, ANSWER.pack(call, code))
    finally:
        for process in running:
            processes.kill_group(process)


def _exit_code(process: int, deadline: float) -> int | None:
    """Return the exit code of a process that has ended, after killing what it has started; None: it runs."""
    is_late = time.monotonic() > deadline
    if is_late:
        processes.kill_group(process)
    ended, status = os.waitpid(process, 0 if is_late else os.WNOHANG)
    if not ended:
        return None
    processes.kill_group(process)
    return TOO_LATE if is_late else os.waitstatus_to_exitcode(status)


def _import_script(preparation: Mapping[str, Any]) -> None:
    """Import the script of the parent as multiprocessing does, as it may define components."""
    global _imports_script
    _imports_script = True
    # Not documented, but without it models of a script would be unknown. Held by test_script_may_define_a_model.
    spawn.prepare(dict(preparation))
    _imports_script = False


def _import_libraries(models: Sequence[str]) -> None:
    """Import the libraries of tasks, while the parent prepares the first."""
    for module in _LIBRARIES:
        import_module(module)
    with one_blas_thread():
        pass
    for name in models:
        # Not of optional packages: they may start threads, which a fork does not have.
        if MODELS.has_own(name) and not MODELS.entry(name).cls.requires:
            with suppress(Exception):  # the task has the same error, or other parameters
                MODELS.create(name).prepare()
    gc.collect()
    gc.freeze()  # collections in the processes leave these objects out, and their memory shared


def _become_task(alive: int, handles: Sequence[int]) -> None:
    """Make a fork of the server the leader of a group, which is killed with it or with the server.

    Args:
        alive: A pipe that ends with the server. It alone may be killed: Ray does so with the processes of a worker.
        handles: Of the server, to close.
    """
    os.setpgid(0, 0)
    processes.is_task = True
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    for handle in handles:
        os.close(handle)
    threading.Thread(target=_end_with_server, args=(alive,), daemon=True).start()
    np.random.seed()  # noqa: NPY002 - a model may draw from it; Python does so itself with ``random``


def _end_with_server(alive: int) -> None:
    os.read(alive, 1)
    os.killpg(0, signal.SIGKILL)


def _run_and_exit(settings: WorkerSettings, call: int) -> NoReturn:
    """Run a call in this process, and end it."""
    code = 1
    try:
        code = _run(settings, call)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # the task may have closed it
                stream.flush()
    except OSError as error:
        if is_disk_full(error):
            code = NO_SPACE
    finally:
        os._exit(code)


def _run(settings: WorkerSettings, call: int) -> int:
    """Run a call and write its value, or its failure; return the exit code of this process."""
    limits = settings.limits
    with (
        # Opened now: the task may change the mask of new files, or leave no handle.
        Path(settings.folder, f"result-{call}").open("wb") as out,
        Path(settings.folder, f"log-{call}").open("w", encoding="utf-8") as crashes,
    ):
        faulthandler.enable(crashes)
        if limits.seconds is not None:  # ends the process, even in compiled code
            faulthandler.dump_traceback_later(limits.seconds, exit=True, file=crashes)
        try:
            with isolated(), _memory_limit(limits.memory):
                result = _loaded(settings, call)()
        except BaseException as error:  # noqa: BLE001 - the edge of a task: recorded whole
            result = failure_of(error)
            if limits.memory is not None and _is_out_of_memory(error):
                allowed = size_text(limits.memory)
                text = f"out of memory: the process of the task may allocate {allowed} (limits.memory)"
                result = replace(result, error=f"{result.error}\n{text}")
        try:
            pickle.dump(result, out, protocol=5)
            out.flush()
        except Exception as error:  # noqa: BLE001 - whatever cannot be pickled
            if is_disk_full(error):  # no failure of the model: the task may be run again
                return NO_SPACE
            out.seek(0)
            out.truncate()
            pickle.dump(failure_of(error), out, protocol=5)
            out.flush()
    return WRITTEN


def _loaded(settings: WorkerSettings, call: int) -> Callable[[], object]:
    """Return the function of a call with its arguments."""
    if settings.modules is not None:
        # Last, as the folder of a plugin: no file there hides a package.
        sys.path.append(str(settings.modules))
    for origin, file in settings.plugins.items():
        load_plugin_file(file, origin=origin)
    shared, pickled = pickle.loads(Path(settings.folder, f"task-{call}").read_bytes())
    arguments = [read_value(file) for file in shared]
    function, rest = pickle.loads(pickled)
    return partial(function, **ChainMap(rest, *arguments))


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, PluginError) and error.__cause__ is not None:  # which says where it was raised
        return _is_out_of_memory(error.__cause__)
    if isinstance(error, ImportError):  # of compiled code; the system's loader reports no more than this
        return "failed to map segment" in str(error)
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)


@contextmanager
def _memory_limit(size: int | None) -> Iterator[None]:
    """Limit the memory of this process to ``size`` bytes inside."""
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
