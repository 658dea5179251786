"""Comparisons in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from evalplugin.cli.show.console import show_text_table, stdout
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.ranks import ranks_of
from evalplugin.report.ranks import ranks_table
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
                show_text_table(table)
        if comparison.pairing == "baseline" and len(comparison.models) > 2 and comparison.pairs:
            console.print("[dim]Every two models: --pairs all.[/dim]", highlight=False)
    for ranks in ranks_of(comparisons):
        show_text_table(ranks_table(ranks))
