"""Checks with codes: known defects of evaluations, looked for in the config, the data and the results."""

from __future__ import annotations

from evalplugin.features.checks import determinism, filters, lists, logs, outcomes, settings, splits
from evalplugin.features.checks.base import CHECKS, Check, check_of
from evalplugin.features.checks.run import data_findings

__all__ = [
    "CHECKS",
    "Check",
    "check_of",
    "data_findings",
    "determinism",
    "filters",
    "lists",
    "logs",
    "outcomes",
    "settings",
    "splits",
]
