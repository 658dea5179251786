"""Gate decisions in the terminal."""

from __future__ import annotations

from rich.markup import escape

from evalplugin.cli.show.console import new_table, stdout
from evalplugin.comparison.gate import Decision
from evalplugin.report.decision import LEGEND, decision_tables, error_line, summary_line, title_of

__all__ = ["show_decision"]

_COLOURS = {"promote": "green", "keep": "yellow", "cannot_tell": "yellow", "refuse": "red"}
_PASSED = {"passed": "[green]✓[/green]", "failed": "[red]✗[/red]"}


def show_decision(decision: Decision) -> None:
    """Print the outcome, why, and every condition of every challenger with its numbers."""
    console = stdout()
    colour = _COLOURS[decision.outcome]
    console.print(f"[bold {colour}]{escape(title_of(decision))}[/bold {colour}]", highlight=False)
    console.print(escape(decision.reason), highlight=False)
    console.print(f"[dim]{escape(summary_line(decision))}[/dim]", highlight=False)
    console.print(f"[dim]{escape(error_line(decision))}.[/dim]", highlight=False)
    for table in decision_tables(decision):
        console.print()
        console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
        shown = new_table(*(head if i < table.words else f">{head}" for i, head in enumerate(table.heads)))
        for passed, *cells in table.rows:
            shown.add_row(_PASSED[passed.text], *(escape(cell.text) for cell in cells))
        console.print(shown)
    if decision.conditions:
        console.print(f"[dim]{escape(LEGEND)}[/dim]", highlight=False)
    for note in decision.notes:
        console.print(f"[dim]{escape(note)}[/dim]", highlight=False)
