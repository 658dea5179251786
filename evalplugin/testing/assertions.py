"""Assertions of the contract suites."""

from __future__ import annotations

__all__ = ["require"]


def require(holds: bool, message: str) -> None:
    """Raise AssertionError with a message unless a rule holds."""
    if not holds:
        raise AssertionError(message)
