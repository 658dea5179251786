"""Histories in the terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evalplugin.base.numbers import number, span
from evalplugin.cli.show.console import WIDTH, coloured, stdout
from evalplugin.comparison.comparison import LEVEL
from evalplugin.comparison.trends import History, Point
from evalplugin.report.words import PROMOTED, location, small_legend, worse_legend, worsened

__all__ = ["history_csv", "history_json", "show_history"]

_OUTCOMES = {"promote": "[green]promote[/green]", "keep": "keep", "refuse": "[red]refuse[/red]"}
_ROLES = {"promoted": " [green]★[/green]", "champion": " [dim]☆[/dim]", "baseline": "  ", "challenger": "  "}


def history_json(history: History) -> str:
    """Return one object a line and point, in a list."""
    rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False, allow_nan=False) for row in history.rows())
    return f"[\n{rows}\n]\n"


def history_csv(history: History) -> str:
    """Return one row a point; unknown values are empty."""
    text = io.StringIO()
    rows = history.rows()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def show_history(history: History) -> None:
    """Print a table for each dataset and split: a row a bake-off, a column a model; then each result that got worse."""
    console = stdout()
    for dataset, split in dict.fromkeys((p.model.dataset, p.model.split) for p in history.points):
        trends = {m: t for (d, s, m), t in history.trends.items() if (d, s) == (dataset, split)}
        title = f"{history.experiment}: {history.metric} on {location(dataset, split)}"
        console.print(f"[bold]{escape(title)}[/bold]", highlight=False, soft_wrap=True)
        fitting = max(1, (min(console.width, WIDTH) - 32) // 19)
        names = sorted(trends, key=lambda name: _newest(trends[name], history.higher_is_better))
        for i in range(0, len(names), fitting):
            _show(console, history, {name: trends[name] for name in names[i : i + fitting]})
    for line in _legend(history):
        console.print(f"[dim]{coloured(line)}.[/dim]", highlight=False)
    for point in history.worse:
        text = worsened(point, on=location(point.model.dataset, point.model.split))
        console.print(f"[red]{escape(text)}[/red]", highlight=False)


def _show(console: Console, history: History, trends: dict[str, list[Point]]) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    gated = any(p.outcome for points in trends.values() for p in points)
    for head in ("bake-off", *(["decision"] if gated else [])):
        table.add_column(head, no_wrap=True)
    for name in trends:
        table.add_column(escape(name), justify="right", overflow="fold")
    at = {name: {p.bakeoff.id: p for p in points} for name, points in trends.items()}
    for bakeoff in history.bakeoffs:
        row = [at[name].get(bakeoff.id) for name in trends]
        present = [point for point in row if point is not None]
        if not present:
            continue
        decided = [_decided(present[0])] if gated else []
        table.add_row(f"{bakeoff.id}\n[dim]{bakeoff.at:%Y-%m-%d %H:%M} UTC[/dim]", *decided, *map(_cell, row))
    console.print(table)


def _decided(point: Point) -> str:
    outcome = _OUTCOMES.get(point.outcome or "", "")
    return f"{outcome}\n[red]not registered[/red]" if outcome and point.bakeoff.unregistered else outcome


def _cell(point: Point | None) -> str:
    if point is None:
        return ""
    if point.value is None:
        return "[red]failed[/red]  " if not point.model.values else "–  "
    value, worse = point.value, point.change is not None and point.change.worse
    mean = f"{'[red]▼[/red]' if worse else ' '} {number(value.mean)}{_ROLES[point.role]}"
    interval = span(value.low, value.high)
    return f"{mean}\n[dim]{interval}  [/dim]" if interval else mean


def _legend(history: History) -> Iterator[str]:
    known = [p for p in history.points if p.value is not None]
    if any(p.value is not None and not math.isnan(p.value.low) for p in known):
        yield small_legend(LEVEL)
    roles = {p.role for p in known}
    signs = {"champion": "☆ champion then", "promoted": PROMOTED}
    if shown := [text for role, text in signs.items() if role in roles]:
        yield ", ".join(shown)
    if history.higher_is_better is None:
        yield f"Which way {history.metric} is better is not known: nothing is marked as worse"
    elif any(p.change is not None and p.change.worse for p in history.points):
        yield (
            f"{worse_legend(history.level)}; by chance alone so does about 1 change in "
            f"{round(2 / (1 - history.level))}"
        )


def _newest(points: Sequence[Point], up: bool | None) -> float:
    """Return the sort key of a model: by its newest value, the best first."""
    value = next((p.value.mean for p in reversed(points) if p.value is not None), math.nan)
    if math.isnan(value):
        return math.inf
    return value if up is False else -value
