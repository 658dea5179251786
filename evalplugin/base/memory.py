"""The memory of this machine, and checks that a fit finds room in it."""

from __future__ import annotations

import os
from pathlib import Path

from evalplugin.base.errors import ModelError

__all__ = ["check_memory"]


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
