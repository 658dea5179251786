"""The console on stdout, and the tables that it prints."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from evalplugin.base.text import escape_controls
from evalplugin.comparison.compared import Mark
from evalplugin.report.sections import Statement
from evalplugin.report.table import Column, Table, TableCell

_STYLED_MARKS: dict[Mark, str] = {"+": " [green]▲[/green]", "-": " [red]▼[/red]", "": ""}
_WIDTH, _NARROW = 180, 100  # at most, in a file or a wide terminal
_BETWEEN = 3  # characters between two columns
_COLOURS = {"better": "green", "keep": "yellow", "worse": "red"}
_UNBOUNDED = 10_000


class Terminal(Console):
    """A console that shows control characters and does not obey them; ``:warning:`` in a name is no emoji."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text from markup: every text that is printed passes here, cells of tables included."""
        return super().render_str(escape_controls(text), **options)


def stdout() -> Console:
    """Return the console for results."""
    console = Terminal()
    # Redirected output has no width of its own, and rich would cut tables at a guess of 80 columns.
    return console if console.is_terminal else Terminal(width=_UNBOUNDED)


def show_table(table: Table, *, wide: bool = True, without: Sequence[str] = ()) -> None:
    """Print a table with its title, verdict and footnotes.

    ``wide``: one that is too wide is printed in parts, one below the other; else the first part, in 100 characters.
    ``without``: what was left out of it.
    """
    console = stdout()
    width = min(console.width, _WIDTH if wide else _NARROW)
    # Not as the table's own title: a narrow table would break it over several lines.
    if table.title:
        console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
    if table.verdict:
        console.print(escape(table.verdict), highlight=False)
    if table.rows:
        parts = list(table.parts(_widths(table), width))
        for part in parts if wide else parts[:1]:
            console.print(rich_table(part))
        hidden = [head for part in parts[1:] for head in part.heads if head not in parts[0].heads]
        if not wide and (hidden := [*without, *hidden]):
            console.print(f"[dim]Not shown: {escape(', '.join(hidden))} (--wide).[/dim]", highlight=False)
    for line in table.footnotes:
        console.print(f"[dim]{coloured(line)}[/dim]", highlight=False)
    console.print()


def show_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """Print a title, and below it a line for each name and value."""
    console = stdout()
    console.print(f"[bold]{escape(title)}[/bold]", highlight=False, soft_wrap=True)
    grid = RichTable.grid(padding=(0, 2))
    for name, text in facts:
        grid.add_row(f"[dim]{escape(name)}[/dim]", escape(text))
    console.print(Padding(grid, (0, 0, 0, 1), expand=False), highlight=False)


def show_lines(lines: Iterable[str]) -> None:
    """Print sentences below a table."""
    console = stdout()
    for line in lines:
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)


def rich_table(table: Table) -> RichTable:
    """Return columns and rows as a table of the terminal, without title, verdict and footnotes."""
    shown = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        right = column.is_number
        # Names may be folded in a narrow terminal; a number that is cut would be another number.
        shown.add_column(
            escape(_heading(column)), justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    marked = [any(row[i].mark for row in table.rows) and c.is_number for i, c in enumerate(table.columns)]
    for row in table.rows:
        shown.add_row(*map(_cell, row, marked))
    return shown


def _heading(column: Column) -> str:
    return f"{column.heading} ↓" if column.direction < 0 else column.heading


def _widths(table: Table) -> list[int]:
    """Return how wide each column is, with the space to the next one."""
    return [
        _BETWEEN + max([len(_heading(column)), *(_width(row[i]) for row in table.rows)])
        for i, column in enumerate(table.columns)
    ]


def _width(cell: TableCell) -> int:
    tag = f" ({cell.tag})" if cell.tag else ""
    sign = 2 * bool(cell.mark)
    return max(len(cell.text) + len(tag), len(cell.small)) + sign


def show_statement(statement: Statement) -> None:
    """Print a statement: the outcome, why, and its tables."""
    console = stdout()
    colour = _COLOURS[statement.status]
    console.print(f"[bold {colour}]{escape(statement.title)}[/bold {colour}]", highlight=False)
    console.print(escape(statement.reason), highlight=False)
    for detail in statement.details:
        console.print(f"[dim]{escape(detail)}[/dim]", highlight=False)
    for table in statement.tables:
        console.print()
        show_table(table)
    for note in statement.notes:
        console.print(f"[dim]{escape(note)}[/dim]", highlight=False)


def coloured(text: str) -> str:
    """Return text as markup, its signs in their colours."""
    signs = {"▲": "green", "▼": "red", "★": "green"}
    return "".join(f"[{signs[c]}]{c}[/{signs[c]}]" if c in signs else c for c in escape(text))


def _cell(cell: TableCell, is_padded: bool) -> str:
    """Return a cell as markup; a padded one has room for a mark, so that numbers are in one column."""
    text = escape(cell.text) + (_STYLED_MARKS[cell.mark] or "  " * is_padded)
    if cell.tag:
        text += f" [dim]({escape(cell.tag)})[/dim]"
    return f"{text}\n[dim]{escape(cell.small)}{'  ' * is_padded}[/dim]" if cell.small else text
