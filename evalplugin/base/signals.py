"""Signals that end a program: they interrupt it once, and not while it cleans up."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
# A terminal and the process that started this one may both send a signal for one Ctrl-C.
_SAME_SECONDS = 1.0

_interrupted: float | None = None  # time of the last interruption, on the monotonic clock


def interrupt_on_signals() -> None:
    """Make SIGINT, SIGTERM and a terminal that is closed raise KeyboardInterrupt, at most once a second.

    Signals that are ignored (as SIGHUP is under ``nohup``) stay so. After an interruption the loggers of libraries
    are silent: they would print the traceback of what was cut off.
    """
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _interrupt_again


def interrupt_waits() -> None:
    """Let signals end a wait for a lock or a file again, after a library has changed that, as importing MLflow does."""
    for number in ENDING:
        if hasattr(signal, "siginterrupt"):
            signal.siginterrupt(number, True)


def is_interrupted() -> bool | None:
    """Return whether a signal has interrupted this program; None if it does not use ``interrupt_on_signals``."""
    if signal.getsignal(signal.SIGINT) is not _interrupt and _interrupted is None:
        return None
    return _interrupted is not None


def ignore_signals_from_now_on() -> None:
    """Ignore SIGINT, SIGTERM and SIGHUP until the process ends."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def restored_signals(handler: Callable[[int, Any], object] | signal.Handlers | None = None) -> Iterator[None]:
    """Put the handlers of SIGINT, SIGTERM and SIGHUP back that code inside replaces, in the main thread.

    With a handler, signals that are not ignored already are handled by it inside.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # which alone receives signals and sets handlers
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING}
    try:
        for number in ENDING:
            if handler is not None and before[number] is not signal.SIG_IGN:
                signal.signal(number, handler)
        yield
    finally:
        for number, former in before.items():
            if signal.getsignal(number) != former:
                signal.signal(number, signal.SIG_DFL if former is None else former)


def ignore_signals() -> AbstractContextManager[None]:
    """Ignore SIGINT, SIGTERM and SIGHUP inside, if this is the main thread."""
    return restored_signals(signal.SIG_IGN)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Deliver SIGINT, SIGTERM and SIGHUP that arrive inside at the end, if this is the main thread."""
    arrived: list[int] = []
    try:
        with restored_signals(lambda number, frame: arrived.append(number)):
            yield
    finally:
        for number in arrived[:1]:
            signal.raise_signal(number)


def _interrupt(number: int, frame: object) -> None:
    global _interrupted
    now = time.monotonic()
    if _interrupted is not None and now - _interrupted < _SAME_SECONDS:
        return
    _interrupted = now
    if (logging := sys.modules.get("logging")) is not None:
        logging.disable()
    raise KeyboardInterrupt


def _interrupt_again(unraisable: Any) -> None:
    """Repeat an interruption that fell into a finalizer or a callback, where it ends nothing."""
    global _interrupted
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        _interrupted = None
        # From another thread: here, the interruption would be lost like the first one.
        threading.Timer(0.05, signal.raise_signal, [signal.SIGINT]).start()
    else:
        sys.__unraisablehook__(unraisable)
