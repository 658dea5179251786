"""Plans, results and scores as tables on stdout."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evalplugin.base.units import count_text
from evalplugin.comparison.compared import Cell, ComparedModel
from evalplugin.comparison.comparison import LEVEL, Comparison

if TYPE_CHECKING:
    from evalplugin.bakeoff.flow import Outcome
    from evalplugin.bakeoff.plan import Plan
    from evalplugin.execution.results import Bakeoff
    from evalplugin.lists.output import Row

__all__ = ["show_numbers", "show_outcome", "show_plan", "show_scores", "stdout"]

_UNBOUNDED = 10_000
_WIDTH = 110  # of a leaderboard that goes to a file


def show_plan(plan: Plan) -> None:
    """Print what a bake-off would do and need."""
    table = _table(
        "dataset", "split", "model", "type", ">tasks", ">users", ">n", ">lists", ">block", ">fit at peak",
        title=f"{plan.config}: {count_text(len(plan.tasks), 'run')} in the experiment {plan.experiment!r}",
    )  # fmt: skip
    for task in plan.tasks:
        table.add_row(
            *(escape(text) for text in (task.dataset, task.split, task.model, task.type)),
            *(f"{number:,}" for number in (task.folds, task.users, task.n)),
            *(_size(mb) for mb in (task.lists_mb, task.block_mb, task.fit_mb)),
        )
    console = stdout()
    console.print(table)
    console.print(
        "tasks: folds to fit; users: who get a list; lists, block, fit at peak: memory for all lists, for a block of "
        "scores, and for fitting, where the model can tell",
        style="dim",
    )


def show_outcome(outcome: Outcome) -> None:
    """Print who won: a table for each dataset and split, what the marks mean, and where to look further."""
    console = stdout()
    bakeoff = outcome.result.bakeoff
    for comparison in outcome.comparisons:
        _show_leaderboard(console, comparison)
    for line in _legend(outcome.comparisons, bakeoff):
        console.print(line, highlight=False)
    console.print()
    links = outcome.links
    shown = {
        "store": links.tracking_uri,
        "look": links.ui_command,
        "page": links.page_url,
        "board": links.board_url,
        "compare": links.compare_url,
    }
    for label, text in shown.items():
        if text is not None:
            # Never wrapped: a link that is broken over two lines cannot be clicked, a command cannot be copied.
            console.print(f"{label:<8} [bold]{escape(text)}[/bold]", highlight=False, soft_wrap=True)
    for warning in links.warnings:
        Console(stderr=True).print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)


def show_scores(rows: Sequence[Row], *, title: str) -> None:
    """Print the means of lists that were scored, with their intervals, and over how many users they are."""
    table = _table("metric", ">mean", ">95 % interval", ">users", ">undefined")
    for row in rows:
        interval = "–" if math.isnan(row.low) else f"{_number(row.low)}–{_number(row.high)}"
        table.add_row(escape(row.metric), _number(row.mean), interval, f"{row.users:,}", f"{row.undefined:,}")
    _show_titled(table, title)


def show_numbers(numbers: Mapping[str, float], *, title: str) -> None:
    """Print numbers by name."""
    table = _table("metric", ">value")
    for name, value in numbers.items():
        table.add_row(escape(name), _number(value))
    _show_titled(table, title)


def _show_titled(table: Table, title: str) -> None:
    console = stdout()
    # Not as the table's own title: a narrow table would break it over several lines.
    console.print(f"[bold]{escape(title)}[/bold]", highlight=False, soft_wrap=True)
    console.print(table)


def _show_leaderboard(console: Console, comparison: Comparison) -> None:
    rows, metrics = comparison.models, comparison.contest.metrics
    title = ", ".join(filter(None, (comparison.contest.dataset, comparison.contest.split)))
    names = max([len("model"), *(len(row.model) for row in rows)])
    fitting = max(1, (min(console.width, _WIDTH) - names - 8) // 17)
    chunks = [metrics[i : i + fitting] for i in range(0, len(metrics), fitting)]
    for number, chunk in enumerate([*chunks, None]):
        heads = [f">{escape(metric)}" for metric in chunk] if chunk is not None else _COSTS
        table = _table(">", "model", *heads, title=title if number == 0 else None)
        for row in rows:
            place = "-" if row.rank is None else str(row.rank)
            name = escape(row.model) + (" [dim](baseline)[/dim]" if row.is_baseline else "")
            if row.error is not None:
                cells = ["[red]failed[/red]"] + [""] * (len(heads) - 1)
            elif chunk is None:
                cells = _costs(row)
            else:
                cells = [_cell(row.cells[metric]) for metric in chunk]
            table.add_row(place, name, *cells)
        console.print(table)


_COSTS = (">start", ">fit", ">recommend", ">score", ">peak memory")
_MARKS = {"+": " [green]▲[/green]", "-": " [red]▼[/red]", "": "  "}


def _cell(cell: Cell) -> str:
    mean = f"{_number(cell.mean)}{_MARKS[cell.mark]}"
    if math.isnan(cell.low):
        return mean
    return f"{mean}\n[dim]{_number(cell.low)}–{_number(cell.high)}  [/dim]"


def _costs(row: ComparedModel) -> list[str]:
    assert row.costs is not None
    costs = row.costs
    seconds = [
        f"{s:.2f} s"
        for s in (costs.start_seconds, costs.fit_seconds, costs.recommend_seconds, costs.score_seconds)
    ]
    return [*seconds, _size(costs.peak_memory_mb)]


def _legend(comparisons: Sequence[Comparison], bakeoff: Bakeoff) -> Iterator[str]:
    rows = [row for comparison in comparisons for row in comparison.models]
    cells = [cell for row in rows for cell in row.cells.values()]
    methods = sorted({cell.method for cell in cells if cell.method})
    if methods:
        yield f"[dim]Small: {LEVEL:.0%} interval of the mean ({' or '.join(methods)}).[/dim]"
    if any(cell.mark for cell in cells):
        yield (
            f"[dim][green]▲[/green] better, [red]▼[/red] worse than {escape(bakeoff.baseline or '')}, user by user: "
            f"paired permutation test at {1 - LEVEL:.0%}, Holm's correction over the models.[/dim]"
        )
    primary = [row.cells[bakeoff.primary] for row in rows if bakeoff.primary in row.cells]
    if primary and primary[0].summary is not None:
        low, high = min(c.users for c in primary), max(c.users for c in primary)
        users = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        yield f"Users: {users} counted, {max(c.undefined for c in primary):,} undefined (no relevant truth)."
    for comparison in comparisons:
        for row in comparison.models:
            if row.error is not None:
                contest = comparison.contest
                name = bakeoff.run_name(contest.dataset, contest.split, row.model)
                yield f"[red]{escape(name)} failed:[/red] {escape(row.error)}"


def _table(*heads: str, title: str | None = None) -> Table:
    """Return an empty table; a head that starts with ``>`` is right-aligned."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        right = head.startswith(">")
        # Names may be folded in a narrow terminal; a number that is cut would be another number.
        table.add_column(
            head.removeprefix(">"), justify="right" if right else "left", no_wrap=right, overflow="fold"
        )
    return table


def stdout() -> Console:
    """Return what results are printed by."""
    console = Console()
    # Redirected output has no width of its own, and rich would cut tables at a guess of 80 columns.
    return console if console.is_terminal else Console(width=_UNBOUNDED)


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _size(mb: float | None) -> str:
    if mb is None or math.isnan(mb):
        return "–"
    return f"{mb / 1024:.1f} GB" if mb >= 1024 else f"{mb:.1f} MB" if mb < 10 else f"{mb:.0f} MB"
