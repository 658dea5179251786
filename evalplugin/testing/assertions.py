"""Assertions of the contract suites."""

from __future__ import annotations

import numpy as np

__all__ = ["require"]


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise AssertionError with the message unless a rule holds."""
    if not holds:
        raise AssertionError(message)
