"""Main function of a worker process: run a task within its limits and write its result to a file."""

from __future__ import annotations

import errno
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path

from evalplugin.base.errors import is_disk_full
from evalplugin.base.signals import ENDING
from evalplugin.base.units import size_text
from evalplugin.components.registry import load_plugin_file
from evalplugin.execution.isolation import TaskFailure, error_text, isolated
from evalplugin.files.outputs import written_whole
from evalplugin.files.recording import ignore_folder, recorded_inputs

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


def work(settings: WorkerSettings, shared: Sequence[Path], call: Path, out: Path) -> None:
    """Run a task and write its result, or its traceback: the main function of a worker process.

    Args:
        settings: Of the session.
        shared: Files with arguments that several calls share.
        call: The file with the function, which is one of a module, and the other arguments; it is removed.
        out: The file for the result.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.setpgid(0, 0)  # processes that the task starts are in its group, and end with it
    with suppress(OSError):  # the program was started without a stderr
        os.dup2(2, 1)  # stdout is for results, not for output of models
    _end_with_parent()
    limits, limit = settings.limits, settings.limits.memory
    log = out.with_suffix(".log").open("w", encoding="utf-8")
    faulthandler.enable(log)
    if limits.seconds is not None:  # ends the process, even in compiled code
        faulthandler.dump_traceback_later(limits.seconds, exit=True, file=log)
    for variable in _THREADS:
        os.environ[variable] = str(settings.threads)
    inputs = None
    with ExitStack() as recording:
        try:
            with isolated(), _memory_limit(limit):
                function = _loaded(settings, shared, call)
                inputs = recording.enter_context(recorded_inputs(carry=True))
                result = function()
        except BaseException as error:  # noqa: BLE001 - the edge of a task: recorded whole
            text = error_text()
            if limit is not None and _is_out_of_memory(error):
                allowed = size_text(limit)
                text += f"\nout of memory: the process of the task may allocate {allowed} (limits.memory)"
            result = TaskFailure(text, inputs)  # the inputs are complete when the recording ends
    try:
        try:
            _write(result, out)
        except Exception as error:
            if is_disk_full(error):
                raise
            # The result cannot be pickled, or the task has left too few handles.
            _write(TaskFailure(error_text(), inputs), out)
    except BaseException as error:  # noqa: BLE001 - a full disk is no failure of the model: the task may be run again
        os._exit(NO_SPACE if is_disk_full(error) else NOT_WRITTEN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the task may have closed it
            stream.flush()
    _end()


def _write(result: object, out: Path) -> None:
    with written_whole(out) as file:
        pickle.dump(result, file, protocol=5)


def _loaded(settings: WorkerSettings, shared: Sequence[Path], call: Path) -> Callable[[], object]:
    """Return the function of a call with its arguments."""
    import joblib

    if settings.modules is not None:
        sys.path.insert(0, str(settings.modules))
        ignore_folder(settings.modules)  # sent along, as they belong to the code of a plugin
    for plugin in settings.plugins:
        load_plugin_file(plugin.file, origin=plugin.origin)
    arguments = [joblib.load(file, mmap_mode="r") for file in shared]
    function, rest = pickle.loads(call.read_bytes())
    call.unlink()
    return partial(function, **dict(ChainMap(rest, *arguments)))


def _is_out_of_memory(error: BaseException) -> bool:
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
