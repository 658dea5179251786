"""A comparison as the command line shows it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evalplugin.cli.show.tables import stdout
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.compare_table import TextCell, TextTable
from evalplugin.report.compare_text import tables_of

__all__ = ["show_comparisons"]

_MARKS = {"+": " [green]▲[/green]", "-": " [red]▼[/red]", "": ""}


def show_comparisons(
    comparisons: Sequence[Comparison], metrics: Sequence[str] = (), segment: str | None = None
) -> None:
    """Print who won, for whom, and whether it is real, by each metric; none named: the primary one."""
    console = stdout()
    for comparison in comparisons:
        for metric in metrics or [comparison.contest.primary]:
            for said, table, legend in tables_of(comparison, metric, segment):
                _show(console, table, said, legend)
        if comparison.pairing == "baseline" and len(comparison.models) > 2 and comparison.pairs:
            console.print("[dim]Every two models: --pairs all.[/dim]", highlight=False)


def _show(console: Console, table: TextTable, said: str, legend: Sequence[str]) -> None:
    # Not as the table's own title: a narrow table would break it over several lines.
    console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
    if said:
        console.print(escape(said), highlight=False)
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, head in enumerate(table.heads):
        is_number = i >= table.words
        # Names may be folded in a narrow terminal; a number that is cut would be another number.
        shown.add_column(
            escape(head), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in table.rows:
        shown.add_row(*(_text(cell) for cell in row))
    console.print(shown)
    for line in legend:
        console.print(f"[dim]{escape(line)}[/dim]", highlight=False)
    console.print()


def _text(cell: TextCell) -> str:
    text = f"{escape(cell.text)}{_MARKS[cell.mark]}"
    if cell.small == "baseline":
        return f"{text} [dim](baseline)[/dim]"
    return f"{text}\n[dim]{escape(cell.small)}[/dim]" if cell.small else text
