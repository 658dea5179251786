"""Tables as Markdown."""

from __future__ import annotations

import html
import re

from evalplugin.base.text import escape_controls
from evalplugin.report.table import MARKS, Table, TableCell


def escape(text: object) -> str:
    """Return text that Markdown and HTML show unchanged, on one line."""
    plain = html.escape(escape_controls(" ".join(str(text).split())), quote=False)
    return re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", plain)


def table_lines(table: Table) -> list[str]:
    """Return the lines of columns and rows, without title, verdict and footnotes."""
    rules = ["---:" if column.is_number else "---" for column in table.columns]
    rows = [list(map(escape, table.heads)), rules, *(list(map(_cell, row)) for row in table.rows)]
    return [f"| {' | '.join(cells)} |" for cells in rows]


def titled_lines(table: Table) -> list[str]:
    """Return the lines of a table below its title, with its verdict and its footnotes."""
    lines = [f"## {escape(table.title)}", ""]
    lines += [escape(table.verdict), ""] if table.verdict else []
    lines += [*table_lines(table), ""] if table.rows else []
    return [*lines, *(f"{escape(line)}  " for line in table.footnotes), ""]


def _cell(cell: TableCell) -> str:
    text = f"**{escape(cell.text)}**" if cell.mark == "+" else escape(cell.text)
    tag = f"({escape(cell.tag)})" if cell.tag else ""
    return " ".join(filter(None, (text, MARKS[cell.mark], tag, escape(cell.small))))
