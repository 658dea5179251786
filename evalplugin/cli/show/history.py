"""Histories in the terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from evalplugin.base.text import escape_formula
from evalplugin.cli.show.console import WIDTH, coloured, stdout
from evalplugin.features.history.history import History
from evalplugin.report.tables import TextCell, TextTable

_COLOURS = {"promote": "green", "refuse": "red", "failed": "red", "not registered": "red"}


def history_json(history: History) -> str:
    """Return one object a line and point, in a list."""
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in history.rows())
    return f"[\n{rows}\n]\n"


def history_csv(history: History) -> str:
    """Return one row a point; unknown values are empty."""
    text = io.StringIO()
    rows = history.rows()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: escape_formula(v) if isinstance(v, str) else v for k, v in row.items()})
    return text.getvalue()


def show_history(history: History) -> None:
    """Print a table for each dataset and split: a row a bake-off, a column a model."""
    console = stdout()
    fitting = max(1, (min(console.width, WIDTH) - 32) // 19)
    for table in history.tables():
        console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False, soft_wrap=True)
        for first in range(table.words, len(table.heads), fitting):
            console.print(_part(table, range(first, min(first + fitting, len(table.heads)))))
        for line in table.legend:
            console.print(f"[dim]{coloured(line)}[/dim]", highlight=False)


def _part(table: TextTable, models: range) -> Table:
    """Return the columns of some models, for the bake-offs that they were in."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head in table.heads[: table.words]:
        shown.add_column(head, no_wrap=True)
    for column in models:
        shown.add_column(escape(table.heads[column]), justify="right", overflow="fold")
    for row in table.rows:
        cells = [row[column] for column in models]
        if any(cell.text for cell in cells):
            shown.add_row(*map(_word, row[: table.words]), *map(_value, cells))
    return shown


def _word(cell: TextCell) -> str:
    style = _COLOURS.get(cell.small, "dim")
    return _styled(cell.text) + (f"\n[{style}]{escape(cell.small)}[/{style}]" if cell.small else "")


def _value(cell: TextCell) -> str:
    """Return a right-aligned cell whose numbers are in one column, with and without a sign."""
    if not cell.text:
        return ""
    signed = cell.text.endswith(("★", "☆"))
    text = coloured(cell.text).replace("☆", "[dim]☆[/dim]") if signed else f"{_styled(cell.text)}  "
    return f"{text}\n[dim]{cell.small}  [/dim]" if cell.small else text


def _styled(text: str) -> str:
    style = _COLOURS.get(text)
    return escape(text) if style is None else f"[{style}]{escape(text)}[/{style}]"
