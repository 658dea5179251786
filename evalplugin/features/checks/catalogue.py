"""All checks: importing this registers them."""

from __future__ import annotations

from evalplugin.features.checks import determinism, lists, logs, off_policy, outcomes, settings, splits
from evalplugin.features.checks.base import CHECKS, check_of

__all__ = [
    "CHECKS",
    "check_of",
    "determinism",
    "lists",
    "logs",
    "off_policy",
    "outcomes",
    "settings",
    "splits",
]
