"""Costs of work: seconds and peak memory."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Stopwatch", "peak_memory"]

_CLEAR = Path("/proc/self/clear_refs")
_STATUS = Path("/proc/self/status")


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
class _Peak:
    mb: float = math.nan


@contextmanager
def peak_memory() -> Iterator[_Peak]:
    """Measure the highest resident memory of this process while the work inside runs, in 2**20 bytes.

    The kernel records the maximum, so no peak is missed between two samples. NaN where that maximum cannot be reset
    (only Linux can), as the maximum of the process's whole life would be another number.
    """
    peak = _Peak()
    try:
        _CLEAR.write_text("5")
    except OSError:
        yield peak
        return
    yield peak
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            peak.mb = int(line.split()[1]) / 1024
