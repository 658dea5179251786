"""Tables as plain text: what ``print`` shows of the results of the Python API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalplugin.base.libraries import pd
from evalplugin.base.text import cut, escape_controls
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.tables import TextCell, TextTable, comparison_tables
from evalplugin.report.words import MARKS

WIDTH = 100  # of a table; columns beyond it follow below the others
_NAME = 48  # characters of a cell


def comparisons_text(comparisons: Sequence[Comparison], sentences: Iterable[str] = ()) -> str:
    """Return the sentences, the verdict on each comparison, its models by the primary metric, and warnings."""
    tables = [table for comparison in comparisons for table in comparison_tables(comparison)]
    warnings = [f"Warning: {text}" for c in comparisons for text in c.contest.all_warnings]
    verdicts = [f"{table.title}: {table.verdict}" for table in tables if table.verdict]
    return "\n".join(
        [*map(escape_controls, [*sentences, *verdicts]), tables_text(tables), *map(escape_controls, warnings)]
    )


def tables_text(tables: Iterable[TextTable]) -> str:
    """Return tables with their titles and legends."""
    parts = []
    for table in tables:
        heads = list(map(escape_controls, table.heads))
        frame = pd.DataFrame([list(map(_text, row)) for row in table.rows], columns=heads)
        shown = [frame.to_string(index=False, line_width=WIDTH)] if table.rows else []
        parts += ["", escape_controls(table.title), *shown, *map(escape_controls, table.legend)]
    return "\n".join(parts)


def _text(cell: TextCell) -> str:
    small = f"({cell.small})" if cell.small else ""
    return cut(escape_controls(" ".join(filter(None, (cell.text, MARKS[cell.mark], small)))), _NAME)
