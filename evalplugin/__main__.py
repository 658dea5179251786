"""``python -m evalplugin``, and the console script."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import NoReturn

from evalplugin.base.signals import ignore_signals_from_now_on, interrupt_on_signals

_INTERRUPTED = 130  # the exit code, also before it can be imported
# Imports make objects that live on: looking for garbage among them by Python's default takes a quarter of their time.
_OBJECTS_BEFORE_COLLECTION = 10_000
_SECONDS_TO_EXIT = 5.0
_SECONDS_TO_EXIT_INTERRUPTED = 1.0


def script() -> NoReturn:
    """Run a command and exit with its code, also where a signal interrupts the imports or the exit."""
    code = _INTERRUPTED
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    try:
        interrupt_on_signals()
        from evalplugin.cli import main

        code = main()
        ignore_signals_from_now_on()
        gc.freeze()  # the memory of the process ends with it: Python looks for no garbage in it before
    except KeyboardInterrupt:
        ignore_signals_from_now_on()
    # Python waits for threads and processes that a model has left, which may never end.
    threading.Thread(target=_end, args=(code,), daemon=True).start()
    # After an interruption inside of `exec`, which dataclasses use, Python ends by SIGINT whatever the exit code;
    # the next `exec` resets that.
    exec("")  # noqa: S102
    sys.exit(code)


def _end(code: int) -> None:
    time.sleep(_SECONDS_TO_EXIT_INTERRUPTED if code == _INTERRUPTED else _SECONDS_TO_EXIT)
    if (multiprocessing := sys.modules.get("multiprocessing")) is not None:
        for child in multiprocessing.active_children():
            child.kill()
    os._exit(code)


if __name__ == "__main__":
    script()
