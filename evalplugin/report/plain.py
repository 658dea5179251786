"""Tables as plain text: what ``print`` shows of the results of the Python API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from evalplugin.base.text import cut, escape_controls
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Finding
from evalplugin.report.competition import warnings_on
from evalplugin.report.tables import TextCell, TextTable, comparison_tables
from evalplugin.report.words import MARKS

LINES, WIDTH = 40, 100  # at most
_NAME = 48  # characters of a cell


def comparisons_text(
    comparisons: Sequence[Comparison], sentences: Iterable[str] = (), findings: Sequence[Finding] = ()
) -> str:
    """Return the sentences, the verdict on each comparison, its models by the primary metric, and warnings.

    ``findings``: of checks of the results.
    """
    tables = [table for comparison in comparisons for table in comparison_tables(comparison)]
    warnings = [f"Warning: {text}" for c in comparisons for text in warnings_on(c.contest, findings)]
    return plain_text(tables, sentences, warnings)


def plain_text(tables: Sequence[TextTable], first: Iterable[str] = (), last: Iterable[str] = ()) -> str:
    """Return sentences, verdicts, tables and last sentences in at most ``LINES`` lines; the others are counted."""
    verdicts = [f"{table.title}: {table.verdict}" for table in tables if table.verdict]
    lines = _wrapped([*first, *verdicts])
    for table in tables:
        lines += ["", *_wrapped([table.title]), *_table_lines(table), *_wrapped(table.legend)]
    lines += _wrapped(last)
    if len(lines) > LINES:
        left = len(lines) - LINES + 1
        lines = [*lines[: LINES - 1], f"... ({left} more lines; to_frame() has all numbers)"]
    return "\n".join(lines)


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in wrap(escape_controls(text), WIDTH)]


def _table_lines(table: TextTable) -> Iterator[str]:
    """Yield the head and the rows, with the first columns as far as there is room for them."""
    rows = [
        [escape_controls(head) for head in table.heads],
        *([_text(cell) for cell in row] for row in table.rows),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    while len(widths) > 1 and sum(widths) + 2 * (len(widths) - 1) > WIDTH:
        widths.pop()
    for row in rows:
        cells = (
            text.ljust(width) if i < table.words else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=False))
        )
        yield "  ".join(cells).rstrip()
    if hidden := rows[0][len(widths) :]:
        yield cut(f"Too wide to show: {', '.join(hidden)}", WIDTH)


def _text(cell: TextCell) -> str:
    small = f"({cell.small})" if cell.small else ""
    return cut(escape_controls(" ".join(filter(None, (cell.text, MARKS[cell.mark], small)))), _NAME)
