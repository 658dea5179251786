"""Comparisons in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from evalplugin.cli.show.console import rich_table, stdout
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.tables import comparison_tables

__all__ = ["show_comparisons"]


def show_comparisons(
    comparisons: Sequence[Comparison], metrics: Sequence[str] = (), segment: str | None = None
) -> None:
    """Print the tables of each comparison by each metric; none named: the primary one."""
    console = stdout()
    for comparison in comparisons:
        for metric in metrics or [comparison.contest.primary]:
            for table in comparison_tables(comparison, metric, segment):
                # Not as the table's own title: a narrow table would break it over several lines.
                console.print(f"[bold]{escape(table.title)}[/bold]", highlight=False)
                if table.verdict:
                    console.print(escape(table.verdict), highlight=False)
                console.print(rich_table(table))
                for line in table.legend:
                    console.print(f"[dim]{escape(line)}[/dim]", highlight=False)
                console.print()
        if comparison.pairing == "baseline" and len(comparison.models) > 2 and comparison.pairs:
            console.print("[dim]Every two models: --pairs all.[/dim]", highlight=False)
