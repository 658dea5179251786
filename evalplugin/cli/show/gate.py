"""A decision as the command line shows it."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from evalplugin.cli.show.tables import stdout
from evalplugin.comparison.gate import Decision
from evalplugin.report.decision_text import HEADS, LEGEND, decision_rows, summary_line, title_of

__all__ = ["show_decision"]

_COLOURS = {"promote": "green", "keep": "yellow", "refuse": "red"}
_PASSED = {"passed": "[green]✓[/green]", "failed": "[red]✗[/red]"}


def show_decision(decision: Decision) -> None:
    """Print the outcome, why, and every condition of every challenger with its numbers."""
    console = stdout()
    colour = _COLOURS[decision.outcome]
    console.print(f"[bold {colour}]{escape(title_of(decision))}[/bold {colour}]", highlight=False)
    console.print(escape(decision.reason), highlight=False)
    console.print(f"[dim]{escape(summary_line(decision))}[/dim]", highlight=False)
    for challenger in decision.ranked:
        rows = decision_rows(decision, challenger)
        if not rows:
            continue
        console.print()
        verdict = "passed" if decision.passed(challenger) else "failed"
        console.print(f"[bold]{escape(challenger)}[/bold]: {verdict}", highlight=False)
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for place, head in enumerate(HEADS):
            table.add_column(head, justify="right" if place >= 3 else "left", overflow="fold")
        for passed, *cells in rows:
            table.add_row(_PASSED[passed], *map(escape, cells))
        console.print(table)
    if decision.conditions:
        console.print(f"[dim]{escape(LEGEND)}[/dim]", highlight=False)
    for note in decision.notes:
        console.print(f"[dim]{escape(note)}[/dim]", highlight=False)
