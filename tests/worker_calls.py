"""Functions for calls of worker processes, by the name of this module."""

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


def process() -> int:
    return os.getpid()


def process_of_shared(**shared: Any) -> tuple[int, list[int]]:
    """Return the process, and the places of shared arguments in its memory."""
    return os.getpid(), [id(value) for value in shared.values()]


def hang() -> None:
    time.sleep(600)


def take(mb: int) -> float:
    return float(np.ones(mb * 2**17).sum())


def hold(mb: int) -> int:
    HELD.append(np.ones(mb * 2**17))
    return os.getpid()


def held() -> int:
    return len(HELD)


def draw() -> tuple[float, float]:
    return random.random(), np.random.random()  # noqa: NPY002


def seed() -> int:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    return os.getpid()


def modules() -> set[str]:
    return set(sys.modules)


def _start(words: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(words, shell=True, stdout=subprocess.DEVNULL)
    HELD.append(process)
    return process


def _fork() -> None:
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()


# What a call may leave in its process that cannot be undone.
LEAVE: dict[str, Callable[[], Any]] = {
    "variable": lambda: os.environ.update(LEFT_BEHIND="1"),
    "child": lambda: _start("exec sleep 600"),
    "orphan": lambda: _start("sleep 600 &").wait(),
    "fork": _fork,
    "thread": lambda: threading.Thread(target=time.sleep, args=(600,), daemon=True).start(),
    "handler": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "alarm": lambda: signal.alarm(600),
    "mask": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]),
    "handles": lambda: HELD.extend(open(os.devnull, "rb") for _ in range(100)),  # noqa: SIM115
    "descriptors": lambda: os.closerange(3, 1000),
    "path": lambda: sys.path.insert(0, os.sep),
    "recursion": lambda: sys.setrecursionlimit(3000),
    "memory": lambda: hold(600),
}
# What is undone.
UNDONE: dict[str, Callable[[], Any]] = {
    "folder": lambda: os.chdir(os.sep),
    "value": lambda: os.environ.update(OMP_NUM_THREADS="77"),
    "emptied": os.environ.clear,
    "umask": lambda: os.umask(0o777),
    "output": lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 2),
    "interrupt": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "ended child": lambda: (_start("exit 0"), os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)),
    "random": seed,
}


def leave(how: str) -> int:
    {**LEAVE, **UNDONE}[how]()
    return os.getpid()


def look() -> dict[str, Any]:
    """Return what calls before may have changed."""
    return {
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "umask": os.umask(0o022),
        "threads": threading.active_count(),
        "handlers": [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGTERM)],
        "alarm": signal.alarm(0),
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, []),
        "error output": os.fstat(2).st_ino,
        "path": list(sys.path),
        "recursion": sys.getrecursionlimit(),
        "held": len(HELD),
    }
