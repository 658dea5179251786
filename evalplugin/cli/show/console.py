"""The console on stdout, and the tables that it prints."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from evalplugin.base.text import escape_controls
from evalplugin.comparison.compared import Mark
from evalplugin.report.sections import Statement
from evalplugin.report.tables import TextCell, TextTable

STYLED_MARKS: dict[Mark, str] = {"+": " [green]▲[/green]", "-": " [red]▼[/red]", "": ""}
WIDTH = 110  # of a table that is split to fit and goes to a file
_COLOURS = {"better": "green", "keep": "yellow", "worse": "red"}
_PASSED = {"passed": "[green]✓[/green]", "failed": "[red]✗[/red]"}
_UNBOUNDED = 10_000
_FOLDED = 12  # the least width of a column of names


class Terminal(Console):
    """A console that shows control characters and does not obey them; ``:warning:`` in a name is no emoji."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a table whose numbers do not fit is as wide as they need, and the terminal breaks its lines."""
        own = self._width
        needed = max((self._needs(shown) for shown in objects if isinstance(shown, Table)), default=0)
        if needed > self.width:
            self._width = needed
        try:
            super().print(*objects, **options)
        finally:
            self._width = own

    def _needs(self, table: Table) -> int:
        """Return the width that shows every number of a table; names may be folded where that is enough."""
        unbounded = self.options.update(max_width=_UNBOUNDED)
        natural = Measurement.get(self, unbounded, table).maximum
        names = 0
        for column in table.columns:
            if not column.no_wrap:
                cells = (
                    Measurement.get(self, unbounded, cell).maximum for cell in (column.header, *column.cells)
                )
                names += max(0, max(cells) - _FOLDED)
        return natural - names if natural - names <= self.width else natural

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text from markup: every text that is printed passes here, cells of tables included."""
        return super().render_str(escape_controls(text), **options)


def stdout() -> Console:
    """Return the console for results."""
    console = Terminal()
    # Redirected output has no width of its own, and rich would cut tables at a guess of 80 columns.
    return console if console.is_terminal else Terminal(width=_UNBOUNDED)


def new_table(*heads: str, title: str | None = None) -> Table:
    """Return an empty table; a head that starts with ``>`` is right-aligned."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        right = head.startswith(">")
        # Names may be folded in a narrow terminal; a number that is cut would be another number.
        table.add_column(
            head.removeprefix(">"), justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    return table


def rich_table(table: TextTable) -> Table:
    """Return a table of text as one of the terminal, without its title, verdict and legend."""
    heads = ["" if i < table.words else ">" for i in range(len(table.heads))]
    shown = new_table(*(sign + escape(head) for sign, head in zip(heads, table.heads, strict=True)))
    for row in table.rows:
        shown.add_row(*map(_cell, row))
    return shown


def show_text_table(table: TextTable) -> None:
    """Print a table of text with its title, verdict and legend."""
    console = stdout()
    # Not as the table's own title: a narrow table would break it over several lines.
    console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
    if table.verdict:
        console.print(escape(table.verdict), highlight=False)
    if table.rows:
        console.print(rich_table(table))
    for line in table.legend:
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)
    console.print()


def show_statement(statement: Statement) -> None:
    """Print a statement: the outcome, why, and its tables, whose first column says what passed and what failed."""
    console = stdout()
    colour = _COLOURS[statement.status]
    console.print(f"[bold {colour}]{escape(statement.title)}[/bold {colour}]", highlight=False)
    console.print(escape(statement.reason), highlight=False)
    for detail in statement.details:
        console.print(f"[dim]{escape(detail)}[/dim]", highlight=False)
    for table in statement.tables:
        console.print()
        console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
        shown = rich_table(table._replace(rows=()))
        for passed, *cells in table.rows:
            shown.add_row(_PASSED[passed.text], *map(_cell, cells))
        console.print(shown)
    for line in (*([statement.legend] if statement.tables else []), *statement.notes):
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)


def show_titled(table: Table, title: str) -> None:
    """Print a table below its title."""
    console = stdout()
    # Not as the table's own title: a narrow table would break it over several lines.
    console.print(f"[bold]{escape(title)}[/bold]", highlight=False, soft_wrap=True)
    console.print(table)


def coloured(text: str) -> str:
    """Return text as markup, its signs in their colours."""
    signs = {"▲": "green", "▼": "red", "★": "green"}
    return "".join(f"[{signs[c]}]{c}[/{signs[c]}]" if c in signs else c for c in escape(text))


def _cell(cell: TextCell) -> str:
    text = f"{escape(cell.text)}{STYLED_MARKS[cell.mark]}"
    if cell.small == "baseline":
        return f"{text} [dim](baseline)[/dim]"
    return f"{text}\n[dim]{escape(cell.small)}[/dim]" if cell.small else text
