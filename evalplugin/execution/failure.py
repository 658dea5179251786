"""The end of a task, or of any call, that failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["TaskFailure"]


@dataclass(frozen=True)
class TaskFailure:
    """The end of a task that failed."""

    error: str  # its traceback
    inputs: Mapping[str, str] | None = None  # what it has read until then, with fingerprints; None: not known
