"""Data cards in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from evalplugin.cli.shared import show_warning
from evalplugin.cli.show.console import new_table, stdout
from evalplugin.report.data_card import SPLIT_HEADS, card_facts, card_title, drift_lines, split_rows

if TYPE_CHECKING:
    from evalplugin.features.data_card.command import DataReport

__all__ = ["show_data"]


def show_data(report: DataReport) -> None:
    """Print the cards of all datasets of a config, with drift; findings are warnings."""
    console = stdout()
    for card in report.data.cards:
        console.print(f"[bold]{escape(card_title(card))}[/bold]", highlight=False, soft_wrap=True)
        facts = Table.grid(padding=(0, 2))
        for name, text in card_facts(card):
            facts.add_row(f"[dim]{escape(name)}[/dim]", escape(text))
        console.print(Padding(facts, (0, 0, 0, 1), expand=False), highlight=False)
        table = new_table(*(head if i == 0 else f">{head}" for i, head in enumerate(SPLIT_HEADS)))
        for row in split_rows(card):
            table.add_row(*map(escape, row))
        console.print(table)
        if (drift := report.data.drifts.get(card.name)) is not None:
            for line in drift_lines(drift):
                console.print(escape(line), highlight=False, soft_wrap=True)
        console.print()
    for finding in report.findings:
        show_warning(finding.line)
