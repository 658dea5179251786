"""Models that misbehave, one behaviour each: a plugin file for the tests of this folder."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import evalplugin

HELD: list[Any] = []  # outlives the model


class UnpicklableError(Exception):
    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def throw(error: BaseException) -> None:
    raise error


def recurse() -> None:
    recurse()


def print_much() -> None:
    for _ in range(300):
        print("x" * 10_000)  # noqa: T201


def leave_threads() -> None:
    for daemon in (True, False):
        threading.Thread(target=time.sleep, args=(600,), daemon=daemon).start()


def leave_processes() -> None:
    HELD.append(subprocess.Popen(["sleep", "600"]))
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    process.start()


# Behaviours in `fit`. Each value is what the model's failure says, or None where it must not fail.
FITS: dict[str, tuple[Callable[[], Any], str | None]] = {
    "error": (lambda: throw(ValueError("bad value")), "ValueError: bad value"),
    "controls": (
        lambda: throw(ValueError("\x1b[31mred\x07\x9b2J\u202eback\x00")),
        r"ValueError: \u001b[31mred\u0007\u009b2J\u202eback\u0000",
    ),
    "long": (lambda: throw(ValueError("x" * 10_000_000)), "ValueError: xxx"),
    "unpicklable": (lambda: throw(UnpicklableError("odd")), "UnpicklableError: odd"),
    "system exit": (lambda: sys.exit(0), "SystemExit: 0"),
    "keyboard interrupt": (lambda: throw(KeyboardInterrupt()), "KeyboardInterrupt"),
    "recursion": (recurse, "RecursionError: maximum recursion depth exceeded"),
    "memory": (lambda: np.ones(2**50), "MemoryError: Unable to allocate"),
    "full disk": (lambda: throw(OSError(28, "No space left on device")), "OSError: [Errno 28]"),
    "much output": (print_much, None),
    "threads": (leave_threads, None),
    "processes": (leave_processes, None),
}
# Behaviours that end their process, or take all of its handles: they need a process of their own.


@evalplugin.model("bad-fit")
@dataclass
class BadFit:
    """Misbehaves while it is fitted, and scores as a good model does."""

    how: str

    def fit(self, train: Any, rng: Any) -> None:
        self.counts = train.item_counts.astype(float)
        behaviour, _ = FITS[self.how]
        behaviour()

    def scores(self, users: Any) -> Any:
        return np.tile(self.counts, (len(users), 1))


# What `scores` returns in place of an array of floats, and whether that is a failure.
SCORES: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "none": (lambda good: None, True),
    "list": (lambda good: good.tolist(), False),
    "ragged": (lambda good: [[1.0], [1.0, 2.0]], True),
    "objects": (lambda good: good.astype(object), True),
    "integers": (lambda good: good.astype(int), True),
    "half": (lambda good: good.astype(np.float16), False),
    "long double": (lambda good: good.astype(np.longdouble), True),
    "not numbers": (lambda good: good * np.nan, True),
    "infinite": (lambda good: good * 0 + np.inf, True),
    "minus infinite": (lambda good: good * 0 - np.inf, False),
    "scalar": (lambda good: np.float64(1.0), True),
    "one short": (lambda good: good[:, :-1], True),
    "three axes": (lambda good: good[:, :, None], True),
    "masked": (lambda good: np.ma.masked_less(good, 3), True),
    "read only": (lambda good: np.broadcast_to(good[0], good.shape), False),
    "big endian": (lambda good: good.astype(">f8"), False),
}


@evalplugin.model("bad-scores")
@dataclass
class BadScores:
    """Returns something odd as scores."""

    how: str

    def fit(self, train: Any, rng: Any) -> None:
        self.counts = train.item_counts.astype(float)

    def scores(self, users: Any) -> Any:
        change, _ = SCORES[self.how]
        return change(np.tile(self.counts, (len(users), 1)))
