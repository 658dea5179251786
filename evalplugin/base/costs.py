"""Costs of work: seconds and peak memory, and the check that a fit finds room on this machine."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import pa

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")
_are_cheap = False  # whether collections are cheap now


class Stopwatch:
    """Total seconds of named pieces of work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Add the time spent inside to one piece of work, on the monotonic clock."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


@dataclass
class Peak:
    """Peak memory of some work, in 2**20 bytes; NaN: not known."""

    mb: float = math.nan


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure by how much the resident memory of this process grows at most while the work inside runs, in 2**20 bytes.

    What the process holds at the start does not count: data, libraries, results of earlier work; nor do mapped files,
    as the code of libraries is. Memory that earlier work has freed is given back to the system first, or else the work
    inside would use it and seem to need less.
    The kernel records the maximum, so no peak is missed between two samples. NaN where that maximum cannot be reset
    (only Linux can), as the maximum of the process's whole life would be another number.
    """
    peak = Peak()
    gc.collect()
    give_back_memory()
    try:
        _CLEAR.write_text("5")
    except OSError:
        yield peak
        return
    start = _status_mb("VmHWM") - _status_mb("RssFile")
    yield peak
    peak.mb = max(0.0, _status_mb("VmHWM") - _status_mb("RssFile") - start)


def give_back_memory() -> None:
    """Give memory that was freed back to the system; Arrow keeps about twice what reading a table has left."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError, TypeError):  # only glibc's allocator can
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def cheap_collections() -> Iterator[None]:
    """Leave present objects out of garbage collections inside: to look at all libraries takes 0.1 s each time.

    A nested one leaves out the objects made since, too; garbage in cycles among them is freed when the outer one ends.
    """
    global _are_cheap
    gc.collect()
    gc.freeze()
    if _are_cheap:
        yield
        return
    _are_cheap = True
    try:
        yield
    finally:
        _are_cheap = False
        gc.unfreeze()


def _status_mb(name: str) -> float:
    """Return a size of this process: VmHWM, the highest resident memory since the last reset, or RssFile, its files."""
    (line,) = (line for line in _STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024


def check_memory(needed: int, subject: str, remedy: str) -> None:
    """Check that the machine has the memory that a fit needs.

    Raises:
        ModelError: It has less; with both sizes and the remedy.
    """
    available = _total_memory()
    if available is not None and needed > available:
        raise ModelError(
            f"{subject} needs {needed:,} bytes ({needed / 2**30:.1f} GiB) of memory, and there are {available:,} "
            f"({available / 2**30:.1f} GiB); {remedy}"
        )


def _total_memory() -> int | None:
    """Return the bytes of memory of this machine or its container; None where that is unknown."""
    if not hasattr(os, "sysconf"):
        return None
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    return total if text == "max" else min(total, int(text))
