"""Tables as HTML for notebooks, in the colours of the notebook."""

from __future__ import annotations

from evalplugin.base.text import escape_html
from evalplugin.comparison.compared import Mark
from evalplugin.report.table import MARKS, Table, TableCell

_CELL = "padding:2px 10px;border:none;border-bottom:1px solid rgba(128,128,128,.25);vertical-align:top;background:none"
_SMALL = "opacity:.65;font-size:85%;white-space:nowrap"
# Distinguishable on white and on black.
_COLOURS: dict[Mark, str] = {"+": "#2E8B57", "-": "#D55E00"}


def table_html(table: Table) -> str:
    """Return a table for a notebook, with its title, verdict and footnotes."""
    aligned = ["right" if column.is_number else "left" for column in table.columns]
    heads = "".join(
        f'<th style="{_CELL};text-align:{side};font-weight:600">{escape_html(head)}</th>'
        for head, side in zip(table.heads, aligned, strict=True)
    )
    rows = "".join(
        f'<tr style="background:none">{"".join(map(_cell_html, row, aligned))}</tr>' for row in table.rows
    )
    words = f"<div>{escape_html(table.verdict)}</div>" if table.verdict else ""
    # Colours are those of the notebook, so that the table is readable in light and dark themes.
    return (
        f'<div style="color:inherit"><b>{escape_html(table.title)}</b>{words}'
        f'<table style="border-collapse:collapse;color:inherit;margin:6px 0">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f"{small_html(' '.join(table.footnotes))}</div>"
    )


def small_html(text: str) -> str:
    """Return a paragraph in small print."""
    return (
        f'<div style="opacity:.65;font-size:85%;max-width:60em;margin-bottom:6px">{escape_html(text)}</div>'
    )


def _cell_html(cell: TableCell, side: str) -> str:
    text = escape_html(cell.text)
    if cell.mark:
        text += f' <span style="color:{_COLOURS[cell.mark]}">{MARKS[cell.mark]}</span>'
    if cell.tag:
        text += f' <span style="{_SMALL}">({escape_html(cell.tag)})</span>'
    if cell.small:
        text += f'<br><span style="{_SMALL}">{escape_html(cell.small)}</span>'
    return f'<td style="{_CELL};text-align:{side}">{text}</td>'
