"""Sections: parts that the features of a bake-off add to the reports on its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from evalplugin.base.places import DataSplit
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Finding
from evalplugin.report.table import Table


@dataclass(frozen=True)
class Statement:
    """A conclusion from one comparison, with its reasons; the page shows it above the verdict."""

    place: DataSplit
    status: Literal["better", "keep", "worse"]  # decides on the colour
    subject: str  # who concludes, such as Gate
    outcome: str  # in a word or two
    headline: str
    reason: str  # one sentence
    details: tuple[str, ...]  # sentences in small print; the first one says what happens next
    tables: tuple[Table, ...]
    notes: tuple[str, ...]  # below the tables

    @property
    def title(self) -> str:
        """The outcome and the headline."""
        return f"{self.outcome.upper()}: {self.headline}"


@dataclass(frozen=True)
class Section:
    """A feature's part of the reports on comparisons."""

    findings: tuple[Finding, ...] = ()  # of checks of the results
    statement: Statement | None = None
    error: str | None = None  # what went wrong after all was logged; the terminal shows it last
    # Over all comparisons; below their tables. On the page, a table with a picture stands at the top.
    table: Table | None = None
    # Returns the picture of the table on the page as SVG, given a CSS colour for each model; None: it has none.
    picture: Callable[[Mapping[str, str]], str] | None = None
    # Returns values for a comparison's tab on the page, given its models there, by their names in the template; those
    # under ``data`` are for the scripts.
    tab: Callable[[Comparison, Sequence[Mapping[str, Any]]], Mapping[str, Any]] | None = None
