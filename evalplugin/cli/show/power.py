"""Power in the terminal."""

from __future__ import annotations

from rich.markup import escape

from evalplugin.base.numbers import number
from evalplugin.cli.show.console import new_table, show_titled, stdout
from evalplugin.execution.results import DataSplit
from evalplugin.features.power import PowerReport

__all__ = ["show_power"]


def show_power(report: PowerReport) -> None:
    """Print a table for each dataset and split: a row for each spread."""
    for place in dict.fromkeys(map(DataSplit.of, report.rows)):
        rows = [row for row in report.rows if DataSplit.of(row) == place]
        named = any(row.model for row in rows)
        heads = ["metric", "model", "against"] if named else ["spread"]
        table = new_table(*heads, ">sd", ">users", ">they find", ">gain", ">it needs")
        for row in rows:
            names = [row.metric, row.model, row.against] if named else [row.origin]
            table.add_row(
                *map(escape, names),
                number(row.sd),
                *("" if row.users is None else f"{row.users:,}", _gain(row.detectable), _gain(row.gain)),
                "" if row.users_needed is None else f"{row.users_needed:,} users",
            )
        show_titled(table, str(place) or "Power")
    console = stdout()
    margins = {row.margin for row in report.rows if row.margin}
    above = (
        f" Gains are those that are shown to be above min_gain ({', '.join(map(number, sorted(margins)))})."
        if margins
        else ""
    )
    console.print(f"[dim]Test: {escape(report.test.words)}.{above}[/dim]", highlight=False)
    for note in report.notes:
        console.print(f"[dim]{escape(note)}.[/dim]", highlight=False)


def _gain(value: float | None) -> str:
    return "" if value is None else number(value)
