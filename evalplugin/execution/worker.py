"""Main function of a worker process: run one task after the other within limits, and write results to files."""

from __future__ import annotations

import errno
import faulthandler
import gc
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TextIO

from evalplugin.base.costs import cheap_collections
from evalplugin.base.errors import PluginError, is_disk_full
from evalplugin.base.signals import ENDING
from evalplugin.base.units import size_text
from evalplugin.components.registry import load_plugin_file
from evalplugin.execution.isolation import TaskFailure, failure_of, isolated
from evalplugin.execution.leftovers import Leftovers
from evalplugin.execution.shared import read_value
from evalplugin.files.outputs import written_whole
from evalplugin.models.threads import one_blas_thread

# Exit codes of a worker that would start a bake-off of its own, or cannot write its result: as the disk is full, or as
# the task has changed its process.
NOT_GUARDED, NO_SPACE, NOT_WRITTEN = 79, 80, 81
_THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Limits:
    """Time and memory of one task; None: no limit."""

    seconds: float | None = None
    memory: int | None = None  # bytes that its process may allocate


@dataclass(frozen=True)
class PluginFile:
    """A plugin to load: its file here, and the path that names its module."""

    file: Path
    origin: Path


@dataclass(frozen=True)
class WorkerSettings:
    """What the worker processes of a session have in common."""

    folder: Path  # for the files of calls
    threads: int  # that each may use
    limits: Limits
    plugins: Sequence[PluginFile]  # loaded first: they define the classes of arguments
    # A folder with modules that the plugins import, where this machine is not the driver's: no script is run there.
    modules: Path | None = None


def refuse_in_worker() -> None:
    """End this process if it is a worker that imports the script that started it; its parent reports the reason."""
    # Private: only multiprocessing knows that it imports a script. Held by test_script_without_main_guard_is_an_error.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(NOT_GUARDED)


def work(settings: WorkerSettings, pipe: Connection, log: Path) -> None:
    """Run calls, one after the other, until the parent ends this process: the main function of a worker process.

    A message is a call: files with arguments that several calls share, the file with the function and the other
    arguments, and the file for its value. It is answered when the value is written, if the process is as it was before.
    Else the process ends, and all that the call has started.

    Args:
        settings: Of the session.
        pipe: Brings calls; takes an empty message when the process has started, and after each call.
        log: The file for the traceback of a crash, or of a call that takes too long.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.setpgid(0, 0)  # processes that a task starts are in its group, and end with it
    multiprocessing.current_process().daemon = False  # it may start processes
    with suppress(OSError):  # the program was started without a stderr
        os.dup2(2, 1)  # stdout is for results, not for output of models
    _end_with_parent()
    with log.open("w", encoding="utf-8") as crashes, cheap_collections():
        faulthandler.enable(crashes)
        for variable in _THREADS:
            os.environ[variable] = str(settings.threads)
        _import_libraries()
        worker = _Worker(settings, pipe, crashes)
        while True:
            try:
                pipe.send_bytes(b"")
                shared, call, out = pipe.recv()
            except (EOFError, OSError):  # the parent has ended
                break
            if not worker.run(shared, call, out):
                break
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the task may have closed it
            stream.flush()
    _end()


def _import_libraries() -> None:
    """Import what all tasks need, while the parent prepares the first.

    joblib sets variables when it is imported: within a task, they would cost the process.
    """
    import joblib  # noqa: F401

    import_module("evalplugin.execution.executor")
    with one_blas_thread():
        pass


class _Worker:
    """What a worker process has from one call to the next."""

    def __init__(self, settings: WorkerSettings, pipe: Connection, crashes: TextIO) -> None:
        self._settings, self._crashes = settings, crashes
        self._shared: dict[Path, Any] = {}
        self._modules = len(sys.modules)
        self._leftovers = Leftovers(pipe.fileno())
        if settings.modules is not None:
            sys.path.append(
                str(settings.modules)
            )  # last, as the folder of a plugin: no file there hides a package

    def run(self, shared: Sequence[Path], call: Path, out: Path) -> bool:
        """Run a call and write its value, or its traceback; return whether the process can run another one.

        Args:
            shared: Files with arguments that several calls share.
            call: The file with the function, which is one of a module, and the other arguments; it is removed.
            out: The file for the value.
        """
        limits, limit = self._settings.limits, self._settings.limits.memory
        if limits.seconds is not None:  # ends the process, even in compiled code
            faulthandler.dump_traceback_later(limits.seconds, exit=True, file=self._crashes)
        function = None
        can_go_on = False
        try:
            with _memory_limit(limit):
                function = self._loaded(shared, call)
            self._leftovers.begin_task()
            with isolated(), _memory_limit(limit):
                can_go_on = True
                result = function()
        except BaseException as error:  # noqa: BLE001 - the edge of a task: recorded whole
            result = failure_of(error)
            if limit is not None and _is_out_of_memory(error):
                allowed = size_text(limit)
                text = f"out of memory: the process of the task may allocate {allowed} (limits.memory)"
                result, can_go_on = TaskFailure(f"{result.error}\n{text}"), False
        try:
            try:
                _write(result, out)
            except Exception as error:
                if is_disk_full(error):
                    raise
                # The result cannot be pickled, or the task has left too few handles.
                _write(failure_of(error), out)
        except BaseException as error:  # noqa: BLE001 - a full disk is no failure of the model: the task may be run again
            os._exit(NO_SPACE if is_disk_full(error) else NOT_WRITTEN)
        faulthandler.cancel_dump_traceback_later()
        del function, result
        return can_go_on and self._is_clean()

    def _loaded(self, shared: Sequence[Path], call: Path) -> Callable[[], object]:
        """Return the function of a call with its arguments; plugins and shared arguments are loaded once."""
        for plugin in self._settings.plugins:
            load_plugin_file(plugin.file, origin=plugin.origin)
        for file in shared:
            if file not in self._shared:
                self._shared[file] = read_value(file)
        function, rest = pickle.loads(call.read_bytes())
        call.unlink()
        return partial(function, **dict(ChainMap(rest, *(self._shared[file] for file in shared))))

    def _is_clean(self) -> bool:
        """Return whether the call has left nothing that the next one would notice."""
        if len(sys.modules) > self._modules:
            self._modules = len(sys.modules)
            gc.collect()
            gc.freeze()
        if not self._leftovers.are_removed():
            return False
        if not self._leftovers.fill_memory():
            return True
        self._shared.clear()
        return not self._leftovers.fill_memory()


def _write(result: object, out: Path) -> None:
    with written_whole(out) as file:
        pickle.dump(result, file, protocol=5)


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


def _end_with_parent() -> None:
    """End this process when its parent has ended, for whatever reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        _end()

    threading.Thread(target=watch, daemon=True).start()


def _end() -> None:
    """End this process and all threads and processes that the task has started."""
    if os.name == "posix":
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
