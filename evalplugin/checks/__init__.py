"""Checks with codes: known defects of evaluations, looked for in the config, the data and the results."""

from __future__ import annotations

from evalplugin.checks import determinism, filters, lists, logs, outcomes, settings, splits
from evalplugin.checks.base import CHECKS, Check, check_of, page_of
from evalplugin.checks.run import data_findings, with_data_findings, with_result_findings

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
    "page_of",
    "settings",
    "splits",
    "with_data_findings",
    "with_result_findings",
]
