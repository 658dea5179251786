"""Isolation of tasks: the error of a task becomes a value, and the process gets back its folder and its streams."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evalplugin.base.errors import PluginError
from evalplugin.base.signals import is_interrupted
from evalplugin.base.text import escape_controls, shorten
from evalplugin.components.registry import line_in_plugin

T = TypeVar("T")

_MAX_ERROR = 20_000  # characters


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
    """Run a task inside: its output goes to stderr, as stdout is for results.

    Afterwards the streams, the working directory, the environment, and how NumPy and Python warn are as before.
    """
    folder, environment = None, dict(os.environ)
    with suppress(OSError):  # it was removed
        folder = os.getcwd()
    with redirect_stdout(sys.stderr), redirect_stderr(sys.stderr), np.errstate(), warnings.catch_warnings():
        try:
            yield
        finally:
            # Only what was there is put back: a library that the task has imported may rely on what it has set.
            os.environ.update(environment)
            if folder is not None:
                with suppress(OSError):  # the task has removed it
                    os.chdir(folder)
