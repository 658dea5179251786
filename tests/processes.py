"""Other processes: waiting for what they do, and whether they run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait_for(reached: Callable[[], object]) -> None:
    """Wait until something is true; a minute is more than any machine needs."""
    until = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < until
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
