"""Isolation of tasks: the state of the process is restored after each, and its error becomes a value."""

from __future__ import annotations

import locale
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

from evalplugin.base.errors import PluginError
from evalplugin.base.libraries import np
from evalplugin.base.signals import is_interrupted, restored_signals
from evalplugin.base.text import escape_controls, shorten
from evalplugin.components.registry import line_in_plugin

T = TypeVar("T")

_MAX_ERROR = 20_000  # characters
_FREE_HANDLES = 64  # kept for this program while a task runs


@dataclass(frozen=True)
class TaskFailure:
    """The failure of a task, or of any other call."""

    error: str  # its traceback
    plugin_error: PluginError | None = None  # of a metric, so that it is no failure of the model


def failure_of(error: BaseException) -> TaskFailure:
    """Return the failure of a task that the current exception has ended."""
    return TaskFailure(error_text(), error if isinstance(error, PluginError) else None)


def error_text() -> str:
    """Return the traceback of the current exception: printable, and of bounded length.

    An error of a plugin has a last line with its place there.
    """
    text, error = shorten(escape_controls(traceback.format_exc()), _MAX_ERROR), sys.exception()
    line = None if error is None else line_in_plugin(error)
    return text if line is None else f"{text}\n{escape_controls(line)}\n"


def last_line(error: str) -> str:
    """Return the last line of a traceback that is not empty: the exception, without the frame of a group."""
    lines = [line.strip("+-| \t") for line in error.splitlines()]
    return next((line for line in reversed(lines) if line), "failed without a message")


def outcome_of(function: Callable[[], T]) -> T | TaskFailure:
    """Return what a function returns, run as a task in this process, or its failure.

    Raises:
        KeyboardInterrupt: The user has interrupted the program, which fails no task. Where a program does not handle
            signals by ``interrupt_on_signals``, every KeyboardInterrupt counts as the user's.
    """
    try:
        with isolated():
            return function()
    except BaseException as error:  # the edge of a task: recorded whole, the others go on
        if isinstance(error, KeyboardInterrupt) and is_interrupted() is not False:
            raise
        return failure_of(error)


@contextmanager
def isolated() -> Iterator[None]:
    """Run a task inside: its output goes to stderr, and it leaves the process as it was.

    That is: the streams and their descriptors, the working directory, the temporary folder, the environment, the mask
    of new files, the locale, handlers of signals, limits, and how numpy and Python warn. As many files can be opened
    afterwards as before.
    """
    with ExitStack() as after, np.errstate(), warnings.catch_warnings():
        for restore in (_handles, _descriptors, _streams, _folders, _settings, restored_signals):
            after.enter_context(restore())
        yield


@contextmanager
def _streams() -> Iterator[None]:
    """Replace the streams by ones that a task cannot close; stdout is for results, not for output of models."""
    before = sys.stdout, sys.stderr
    if sys.stderr is not None:  # the process may have been started without one
        sys.stdout = sys.stderr = cast(TextIO, _Shield(sys.stderr))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Shield:
    """A stream that stays open."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Shield:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def close(self) -> None:
        """Write what is buffered."""
        self.flush()


@contextmanager
def _descriptors() -> Iterator[None]:
    """Keep copies of the descriptors 0 to 2, for a task that closes or redirects them."""
    copies = {}
    for number in range(3):
        with suppress(OSError):  # it is closed
            copies[number] = os.dup(number)
    try:
        yield
    finally:
        for number, copy in copies.items():
            with suppress(OSError):  # the task has closed the copy too
                os.dup2(copy, number)
                os.close(copy)


@contextmanager
def _folders() -> Iterator[None]:
    current = temporary = None
    with suppress(OSError):
        current = os.getcwd()
    with suppress(OSError):
        temporary = tempfile.gettempdir()
    try:
        yield
    finally:
        if temporary is not None:
            tempfile.tempdir = temporary
            with suppress(OSError):
                Path(temporary).mkdir(parents=True, exist_ok=True)
        if current is not None:
            with suppress(OSError):  # the task has removed it
                os.chdir(current)


@contextmanager
def _settings() -> Iterator[None]:
    environment, language, mask = dict(os.environ), locale.setlocale(locale.LC_ALL), os.umask(0)
    os.umask(mask)
    try:
        yield
    finally:
        os.umask(mask)
        # Only what was there is put back: a library that the task has imported may rely on what it has set.
        os.environ.update(environment)
        if locale.setlocale(locale.LC_ALL) != language:
            locale.setlocale(locale.LC_ALL, language)


@contextmanager
def _handles() -> Iterator[None]:
    """Keep file handles for this program from a task that opens all that it may, and bound files as before."""
    if os.name != "posix":
        yield
        return
    import resource

    files, size = resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE
    limit, hard = resource.getrlimit(files)
    largest, opened = resource.getrlimit(size), opened_handles()
    highest = max(limit, 2**20) if hard == resource.RLIM_INFINITY else hard
    # Where earlier tasks have left few free ones, this one gets half of them.
    task_limit = min(limit, max(highest - _FREE_HANDLES, (opened + highest) // 2))
    with suppress(ValueError, OSError):
        resource.setrlimit(files, (task_limit, hard))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):  # the task has lowered what cannot be raised again
            resource.setrlimit(files, (highest, hard))
            left = max(0, opened_handles() - opened)
            resource.setrlimit(files, (min(limit + left, highest), hard))
        with suppress(ValueError, OSError):
            resource.setrlimit(size, largest)


def opened_handles() -> int:
    """Return the number of open file handles; 0 where the system does not show them."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0
