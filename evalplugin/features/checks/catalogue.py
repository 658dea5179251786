"""All checks: importing this registers them."""

from __future__ import annotations

from evalplugin.features.checks import determinism, lists, logs, outcomes, settings, splits
from evalplugin.features.checks.base import CHECKS, check_of, of_data, of_models, of_results

__all__ = [
    "CHECKS", "check_of", "determinism", "lists", "logs", "of_data", "of_models", "of_results", "outcomes", "settings",
    "splits",
]  # fmt: skip
