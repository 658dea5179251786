"""Leftovers: changes of a process by a task that cannot be undone, so that the next task needs another process."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import random
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalplugin.base.costs import give_back_memory
from evalplugin.base.libraries import np
from evalplugin.execution.isolation import opened_handles

_HANDLES = 16  # that libraries may open at their first use
_BYTES = 2**29  # that libraries and their caches may take
_CHILD_SUBREAPER = 36  # of Linux's prctl


class Leftovers:
    """What the tasks of this process leave in it, apart from what ``isolated`` restores.

    Not all is seen: what a task changes in the modules of libraries stays, as it does without workers.
    """

    def __init__(self, handle: int) -> None:
        """Begin, before the first task; ``handle`` is a descriptor that must stay open."""
        # Processes whose parent ends become children of this one, which finds them.
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._handle, self._memory, self._undrawn = handle, _anonymous_bytes(), _random_states()

    def begin_task(self) -> None:
        """Keep the state of the process."""
        self._random, self._torch, self._opened = _random_states(), _torch_state(), opened_handles()
        self._state = list(_state(self._handle))

    def are_removed(self) -> bool:
        """Restore the random states after a task; return whether the rest of the process is as it was."""
        self._restore_random()
        try:
            if list(_state(self._handle)) != self._state:
                return False
        except OSError:  # the handle was closed
            return False
        return opened_handles() - self._opened <= _HANDLES and not _has_children()

    def _restore_random(self) -> None:
        """Restore the random states; those that nobody has set are drawn anew, as in a new process."""
        if self._random == self._undrawn:
            random.seed()
            np.random.seed()
            self._undrawn = _random_states()
        else:
            state, numpy_state = pickle.loads(self._random)
            random.setstate(state)
            np.random.set_state(numpy_state)
        if (torch := sys.modules.get("torch")) is not None:
            torch.set_rng_state(torch.Generator().get_state() if self._torch is None else self._torch)

    def fill_memory(self) -> bool:
        """Return whether tasks have left so much in memory that those to come may lack it."""
        gc.collect()
        give_back_memory()
        return _anonymous_bytes() - self._memory > _BYTES


def _state(handle: int) -> Iterator[object]:
    yield os.getpid()  # a fork returns from the task too
    yield set(os.environ)  # the values are restored
    yield list(sys.path)
    yield sys.getrecursionlimit()
    # tqdm's thread only looks at its progress bars.
    yield {thread for thread in threading.enumerate() if type(thread).__name__ != "TMonitor"}
    yield {number: signal.getsignal(number) for number in signal.valid_signals()}
    file = os.fstat(handle)
    yield file.st_dev, file.st_ino
    if os.name == "posix":
        import resource

        yield signal.pthread_sigmask(signal.SIG_BLOCK, ())
        yield signal.getitimer(signal.ITIMER_REAL) > (0.0, 0.0)
        yield os.getpriority(os.PRIO_PROCESS, 0)
        limits = {
            name: resource.getrlimit(getattr(resource, name)) for name in dir(resource) if "RLIMIT_" in name
        }
        yield limits.pop("RLIMIT_NOFILE")[1]  # the soft one grows with what is open
        yield limits
    if hasattr(os, "sched_getaffinity"):
        yield os.sched_getaffinity(0)


def _random_states() -> bytes:
    return pickle.dumps((random.getstate(), np.random.get_state()))


def _torch_state() -> Any:
    """Return the state of PyTorch's generator, which is the same in each new process; None: it is not imported."""
    torch = sys.modules.get("torch")
    return None if torch is None else torch.get_rng_state()


def _has_children() -> bool:
    """Return whether a process that this one has started is running."""
    with suppress(ChildProcessError):
        while os.name == "posix":
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
    return False


def _anonymous_bytes() -> int:
    """Return the bytes of memory that this process alone has written; 0 where that is unknown."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
