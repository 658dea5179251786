"""Tables as plain text, as ``print`` shows the results of the Python API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from evalplugin.base.text import cut, escape_controls
from evalplugin.report.table import MARKS, Table, TableCell

LINES, WIDTH = 40, 100  # at most
_NAME = 48  # characters of a cell


def plain_text(tables: Sequence[Table], first: Iterable[str] = (), last: Iterable[str] = ()) -> str:
    """Return sentences, verdicts, tables and last sentences in at most ``LINES`` lines; the others are counted."""
    verdicts = [f"{table.title}: {table.verdict}" for table in tables if table.verdict]
    lines = _wrapped([*first, *verdicts])
    for table in tables:
        lines += ["", *_wrapped([table.title]), *_table_lines(table), *_wrapped(table.footnotes)]
    lines += _wrapped(last)
    if len(lines) > LINES:
        left = len(lines) - LINES + 1
        lines = [*lines[: LINES - 1], f"... ({left} more lines; to_frame() has all numbers)"]
    return "\n".join(lines)


def _wrapped(texts: Iterable[str]) -> list[str]:
    return [line for text in texts for line in wrap(escape_controls(text), WIDTH)]


def _table_lines(table: Table) -> Iterator[str]:
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
            text.rjust(width) if column.is_number else text.ljust(width)
            for text, width, column in zip(row, widths, table.columns, strict=False)
        )
        yield "  ".join(cells).rstrip()
    if hidden := rows[0][len(widths) :]:
        yield cut(f"Too wide to show: {', '.join(hidden)}", WIDTH)


def _text(cell: TableCell) -> str:
    notes = [f"({note})" for note in (cell.tag, cell.small) if note]
    return cut(escape_controls(" ".join(filter(None, (cell.text, MARKS[cell.mark], *notes)))), _NAME)
