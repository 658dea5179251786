"""Functions for calls in processes, by the name of this module."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

HELD: list[Any] = []  # outlives a call


def process() -> tuple[int, int]:
    """Return this process and its parent."""
    return os.getpid(), os.getppid()


def shared_sum(**shared: Any) -> float:
    return float(sum(array.sum() for array in shared.values()))


def hang(note: str) -> None:
    with open(f"{note}.part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{note}.part", note)
    time.sleep(600)


def draw() -> tuple[float, float]:
    return random.random(), np.random.random()  # noqa: NPY002


def modules() -> set[str]:
    return set(sys.modules)


def _start(words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(words, shell=True, stdout=subprocess.DEVNULL)
    HELD.append(process)
    return process


def _fork() -> None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()


# What a call may leave in its process.
LEAVE: dict[str, Callable[[], Any]] = {
    "variable": lambda: os.environ.update(LEFT_BEHIND="1"),
    "child": lambda: _start("exec sleep 600"),
    "orphan": lambda: _start("sleep 600 &").wait(),
    "fork": _fork,
    "thread": lambda: threading.Thread(target=time.sleep, args=(600,)).start(),
    "handler": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "alarm": lambda: signal.alarm(600),
    "descriptors": lambda: os.closerange(0, 3),
    "handles": lambda: HELD.extend(open(os.devnull, "rb") for _ in range(100)),  # noqa: SIM115
    "umask": lambda: os.umask(0o777),
    "path": lambda: sys.path.insert(0, os.sep),
    "folder": lambda: os.chdir(os.sep),
    "memory": lambda: HELD.append(np.ones(100 * 2**17)),
}


def leave(how: str) -> int:
    LEAVE[how]()
    return os.getpid()


def look() -> dict[str, Any]:
    """Return what calls before may have changed."""
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": os.umask(0o022),
        "threads": threading.active_count(),
        "handler": signal.getsignal(signal.SIGTERM),
        "alarm": signal.alarm(0),
        "error output": os.fstat(2).st_ino,
        "path": list(sys.path),
        "held": len(HELD),
    }
