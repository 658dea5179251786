"""A table of results: columns, rows of cells with marks, footnotes. Every renderer shows this one value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from evalplugin.comparison.compared import Mark

_T = TypeVar("_T")

MARKS: dict[Mark, str] = {"+": "▲", "-": "▼", "": ""}


class Column(NamedTuple):
    """The heading of a column; numbers are aligned right."""

    heading: str
    is_number: bool = True
    direction: int = 0  # 1: higher is better, -1: lower is better, 0: neither, or no result
    group: str = ""  # columns of one group make a part of their own in the terminal; empty: of none


class TableCell(NamedTuple):
    """One cell."""

    text: str
    small: str = ""  # in small print below or after the text, such as an interval
    mark: Mark = ""  # better or worse
    tag: str = ""  # in brackets after the text, such as ``baseline``
    value: float = math.nan  # the number that the page sorts by; NaN: the text


class Table(NamedTuple):
    """Columns, rows of cells, a verdict above them and footnotes below."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    verdict: str = ""  # a sentence or two
    footnotes: tuple[str, ...] = ()  # each a line

    @classmethod
    def of(
        cls, title: str, values: Iterable[_T], fields: Sequence[tuple[Column, Callable[[_T], TableCell]]]
    ) -> Table:
        """Return a table with a row for each value; a field is a column and the function that makes its cells."""
        rows = tuple(tuple(cell(value) for _, cell in fields) for value in values)
        return cls(title, tuple(column for column, _ in fields), rows)

    @property
    def heads(self) -> tuple[str, ...]:
        """The headings."""
        return tuple(column.heading for column in self.columns)

    @property
    def naming(self) -> int:
        """The position of the column that names the rows."""
        return next((i for i, c in enumerate(self.columns) if c.heading and not c.is_number), 0)

    def parts(self, widths: Sequence[int], width: int) -> Iterator[Table]:
        """Yield tables with as many columns of numbers as fit; each has the columns of words before them.

        Args:
            widths: The width of each column.
            width: The width of a table.
        """
        first = next((i for i, column in enumerate(self.columns) if column.is_number), len(self.columns))
        parts: list[list[int]] = [[]]
        left = free = max(width - sum(widths[:first]), width // 2)  # names may be folded
        groups = groupby(range(first, len(self.columns)), key=lambda i: self.columns[i].group or i)
        for together in (list(group) for _, group in groups):
            needed = sum(widths[i] for i in together)
            if parts[-1] and (needed > left or self.columns[together[0]].group):
                parts.append([])
                left = free
            parts[-1] += together
            left -= needed
        for part in parts:
            shown = [*range(first), *part]
            rows = tuple(tuple(row[i] for i in shown) for row in self.rows)
            yield self._replace(columns=tuple(self.columns[i] for i in shown), rows=rows)


def words(*headings: str) -> tuple[Column, ...]:
    """Return columns of words."""
    return tuple(Column(heading, is_number=False) for heading in headings)


def numbers(*headings: str) -> tuple[Column, ...]:
    """Return columns of numbers."""
    return tuple(Column(heading) for heading in headings)


def text_rows(rows: Iterable[Iterable[str]]) -> tuple[tuple[TableCell, ...], ...]:
    """Return rows of texts as rows of cells."""
    return tuple(tuple(map(TableCell, row)) for row in rows)


def with_shared_footnotes(tables: Sequence[Table]) -> list[Table]:
    """Return tables with each footnote once: below the last table that has it."""
    later: set[str] = set()
    shown = []
    for table in reversed(tables):
        shown.append(table._replace(footnotes=tuple(line for line in table.footnotes if line not in later)))
        later |= {*table.footnotes}
    return shown[::-1]
