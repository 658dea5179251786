"""Plans, results, comparisons, scores, data cards and power in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from evalplugin.base.libraries import pd
from evalplugin.base.numbers import UNDEFINED, memory, number, span
from evalplugin.base.units import count_text, plural
from evalplugin.cli.shared import print_diagnostic, show_error, show_warning
from evalplugin.cli.show.console import (
    STYLED_MARKS,
    WIDTH,
    coloured,
    new_table,
    show_statement,
    show_text_table,
    show_titled,
    stdout,
)
from evalplugin.comparison.compared import LEVEL, ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.data.queries import Unit, independent_unit
from evalplugin.execution.results import DataSplit
from evalplugin.metrics import parse
from evalplugin.report.competition import competition_of, facts_of
from evalplugin.report.tables import COST_HEADS, TextCell, comparison_tables, cost_texts, mean_cell
from evalplugin.report.verdict import verdict_sentence
from evalplugin.report.words import (
    cluster_mean_legend,
    counted,
    design_effect_legend,
    few_users_legend,
    heading,
    marks_legend,
    no_interval,
    seed_lines,
    shared_lines,
    small_legend,
    tuning_lines,
)

if TYPE_CHECKING:
    from evalplugin.bakeoff.dry_run import DryRun
    from evalplugin.execution.results import Plan
    from evalplugin.features.base import Bakeoff
    from evalplugin.features.data_card.feature import DataReport
    from evalplugin.features.power.power import PowerReport
    from evalplugin.lists.output import Row
    from evalplugin.tracking.write.board import Links


_USERS = 20  # rows of the table of users or queries
# What has a score, and what is known of it.
_USER = ("user", "interactions in the train data")
_QUERY = ("query", "events of the session before it")


def show_dry_run(dry_run: DryRun) -> None:
    """Print the tasks of a bake-off and the memory that they need."""
    tuned = any(planned.trials != 0 for planned in dry_run.jobs)
    units = " or ".join(dict.fromkeys(plural(planned.job.info.units.noun) for planned in dry_run.jobs))
    who = "who" if "users" in units else "which"
    table = new_table(
        "dataset", "split", "model", "type", *([">trials"] if tuned else []), ">tasks", f">{units}", ">n", ">lists",
        ">block", ">fit at peak",
        title=f"{dry_run.config}: {count_text(len(dry_run.jobs), 'run')} in the experiment {dry_run.experiment!r}",
    )  # fmt: skip
    for planned in dry_run.jobs:
        info, model, tasks = planned.job.info, planned.job.model, planned.job.tasks
        table.add_row(
            *(escape(text) for text in (info.dataset, info.split, model.name, model.type)),
            # None: as many as fit into the seconds of the budget.
            *(["by seconds" if planned.trials is None else f"{planned.trials:,}"] if tuned else []),
            *(f"{count:,}" for count in (len(tasks), planned.users, tasks[0].n)),
            *(memory(mb) for mb in (planned.lists_mb, planned.block_mb, planned.fit_mb)),
        )
    console = stdout()
    console.print(table)
    about_trials = "trials: to tune, at most, all folds together; " if tuned else ""
    of_seeds = " times seeds" if any(planned.job.seeds > 1 for planned in dry_run.jobs) else ""
    console.print(
        f"{about_trials}tasks: folds{of_seeds} to fit; {units}: {who} get a list; lists, block, fit at peak: memory "
        "for all lists, for a block of scores, and for fitting, where the model can tell",
        style="dim",
    )
    for line in dry_run.power.sentences():
        console.print(escape(line), highlight=False)
    console.print(escape("; ".join([dry_run.power.test.words, *dry_run.power.notes])), style="dim")


def show_users(users: pd.DataFrame, contest: Contest) -> None:
    """Print for each dataset and split how many users or queries a model lost, and those with the largest losses."""
    console = stdout()
    for _, table in users.groupby(["dataset", "split"], sort=False):
        first = table.iloc[0]
        of_queries = "session" in table and table["session"].notna().all()
        unit, known = (
            (contest.units.noun, "") if competition_of(contest) is None else _QUERY if of_queries else _USER
        )
        units = plural(unit)
        ids = (
            {"session": "session", ">position": "position"}
            if of_queries
            else {first.index[2]: first.index[2]}
        )
        segments = [name for name in table.columns if name.startswith("segment_")]
        better = contest.spec(first["metric"]).direction or 1
        lost, gained = (int((side * better * table["difference"] > 0).sum()) for side in (-1, 1))
        same = int((table["difference"] == 0).sum())
        where = DataSplit(first["dataset"], first["split"])
        words = (
            f"{where}: {first['metric']} of {first['model']} is worse than that of {first['against']} "
            f"for {lost:,} {units}, better for {gained:,}, the same for {same:,}"
        )
        heads = [name.removeprefix("segment_") for name in segments]
        numbers = (first["model"], first["against"], "difference", *(("history",) if known else ()))
        shown = new_table(
            *ids, *(f">{name}" for name in numbers), *heads,
            title=escape(words),
        )  # fmt: skip
        for _, row in table.head(_USERS).iterrows():
            history = UNDEFINED if pd.isna(row["history"]) else f"{row['history']:,}"
            groups = [UNDEFINED if pd.isna(row[name]) else escape(row[name]) for name in segments]
            scores = [number(row["score"]), number(row["score_against"]), number(row["difference"])]
            named = [escape(str(row[column])) for column in ids.values()]
            shown.add_row(*named, *scores, *((history,) if known else ()), *groups)
        console.print(shown)
        if len(table) > _USERS:
            more = f"the first {_USERS} of {len(table):,} {units}; all of them: --out {units}.csv"
            console.print(f"{more}; history: {known}" if known else more, style="dim")


def show_bakeoff(bakeoff: Bakeoff) -> None:
    """Print a leaderboard for each dataset and split, the legend of its marks, the links, and who won."""
    console = stdout()
    for comparison in bakeoff.comparisons:
        _show_leaderboard(console, comparison)
    sections = bakeoff.sections()
    for section in sections:
        if section.table is not None:
            show_text_table(section.table)
    for line in _legend(bakeoff.comparisons, bakeoff.plan):
        console.print(line, highlight=False)
    console.print()
    show_links(bakeoff.links)
    if codes := dict.fromkeys(finding.code for finding in bakeoff.findings):
        print_diagnostic(f"warnings printed above: {', '.join(codes)}")
    console.print()
    for comparison in bakeoff.comparisons:
        where = f"{comparison.contest.place}: " if len(bakeoff.comparisons) > 1 else ""
        sentence = verdict_sentence(comparison, comparison.contest.primary)
        console.print(escape(where + sentence), highlight=False)
    for section in sections:
        if section.statement is not None:
            show_statement(section.statement)
    for section in sections:
        if section.error is not None:
            show_error(section.error)


def show_links(links: Links, *, beside_data: bool = False) -> None:
    """Print the links to a bake-off in MLflow; ``beside_data``: on stderr, as stdout has data for programs."""
    shown = {
        "store": links.tracking_uri,
        "look": links.ui_command,
        "page": links.page_url,
        "board": links.board_url,
        "compare": links.compare_url,
    }
    console = stdout()
    for label, text in shown.items():
        if text is not None and beside_data:
            print_diagnostic(f"{label:<8} {text}")
        elif text is not None:
            # Never wrapped: a link that is broken over two lines cannot be clicked, a command cannot be copied.
            console.print(f"{label:<8} [bold]{escape(text)}[/bold]", highlight=False, soft_wrap=True)
    for warning in links.warnings:  # all others are printed where they arise
        show_warning(warning)


def show_comparisons(comparisons: Sequence[Comparison], metrics: Sequence[str], segment: str | None) -> None:
    """Print the tables of each comparison by each metric; none named: the primary one."""
    console = stdout()
    for comparison in comparisons:
        for table in comparison_tables(comparison, metrics, segment):
            show_text_table(table)
        if comparison.pairing == "baseline" and len(comparison.models) > 2 and comparison.pairs:
            console.print("[dim]Every two models: --pairs all.[/dim]", highlight=False)


def show_scores(rows: Sequence[Row], *, title: str, unit: Unit = "user", unlisted: int = 0) -> None:
    """Print the means of scored lists, with their intervals and numbers of users or queries.

    ``unlisted``: how many have a truth and no list.
    """
    table = new_table("metric", ">mean", ">95 % interval", f">{plural(unit)}", ">undefined")
    for row in rows:
        interval = span(row.low, row.high) or UNDEFINED
        table.add_row(escape(row.metric), number(row.mean), interval, f"{row.users:,}", f"{row.undefined:,}")
    show_titled(table, title)
    if unlisted:
        verb = "has" if unlisted == 1 else "have"
        stdout().print(
            f"{count_text(unlisted, unit)} of the truth {verb} no list: nothing is found.", highlight=False
        )
    without = (
        row for row in rows if math.isfinite(row.mean) and not math.isfinite(row.low) and row.users > 1
    )
    if any(parse(row.metric).metric.scope == "user" for row in without):
        stdout().print(f"[dim]{no_interval(independent_unit(unit))}.[/dim]", highlight=False)


def show_numbers(numbers: Mapping[str, float], *, title: str) -> None:
    """Print numbers by name."""
    table = new_table("metric", ">value")
    for name, value in numbers.items():
        table.add_row(escape(name), number(value))
    show_titled(table, title)


def show_data(report: DataReport) -> None:
    """Print the cards of all datasets of a config; findings are warnings."""
    from evalplugin.features.data_card.report import (
        card_facts,
        card_title,
        split_heads,
        split_rows,
    )

    console = stdout()
    for card in report.cards:
        console.print(f"[bold]{escape(card_title(card))}[/bold]", highlight=False, soft_wrap=True)
        facts = Table.grid(padding=(0, 2))
        for name, text in card_facts(card):
            facts.add_row(f"[dim]{escape(name)}[/dim]", escape(text))
        console.print(Padding(facts, (0, 0, 0, 1), expand=False), highlight=False)
        table = new_table(*(head if i == 0 else f">{head}" for i, head in enumerate(split_heads(card))))
        for row in split_rows(card):
            table.add_row(*map(escape, row))
        console.print(table)
        console.print()
    for finding in report.findings:
        show_warning(finding.line)


def show_power(report: PowerReport) -> None:
    """Print a table for each dataset and split: a row for each spread."""
    for place in dict.fromkeys(map(DataSplit.of, report.rows)):
        rows = [row for row in report.rows if DataSplit.of(row) == place]
        named = any(row.model for row in rows)
        units = plural(rows[0].unit)
        heads = ["metric", "model", "against"] if named else ["spread"]
        is_planned = any(row.is_planned for row in rows)
        table = new_table(
            *heads, ">sd", f">{units}", ">they find", *([">gain", ">it needs"] if is_planned else [])
        )
        for row in rows:
            names = [row.metric, row.model, row.against] if named else [row.origin]
            cells = [number(row.sd), "" if row.users is None else f"{row.users:,}", _gain(row.detectable)]
            if is_planned:
                needed = row.users_needed if row.is_planned else None
                cells += [_gain(row.gain if row.is_planned else None)]
                cells += ["" if needed is None else f"{needed:,} {units}"]
            table.add_row(*map(escape, names), *cells)
        show_titled(table, str(place) or "Power")
    console = stdout()
    margins = {row.margin for row in report.rows if row.margin}
    above = (
        f" Gains are those that are shown to be above min_gain ({', '.join(map(number, sorted(margins)))})."
        if margins
        else ""
    )
    console.print(f"[dim]Test: {escape(report.test.words)}.{above}[/dim]", highlight=False)
    if any(row.measured and not row.is_planned for row in report.rows):
        console.print("[dim]--gain tells how many users a gain needs; a measured one may be chance.[/dim]")
    for note in report.notes:
        console.print(f"[dim]{escape(note)}.[/dim]", highlight=False)


def _gain(value: float | None) -> str:
    return "" if value is None else number(value)


def _show_leaderboard(console: Console, comparison: Comparison) -> None:
    rows, metrics = comparison.models, comparison.contest.metrics
    title = str(comparison.contest.place)
    names = max([len("model"), *(len(row.model) for row in rows)])
    fitting = max(1, (min(console.width, WIDTH) - names - 8) // 17)
    chunks = [metrics[i : i + fitting] for i in range(0, len(metrics), fitting)]
    for i, chunk in enumerate([*chunks, None]):
        heads: tuple[str, ...] = COST_HEADS
        if chunk is not None:
            heads = tuple(escape(heading(comparison.contest.spec(metric))) for metric in chunk)
        table = new_table(">", "model", *(f">{head}" for head in heads), title=None if i else title)
        for row in rows:
            rank = "-" if row.rank is None else str(row.rank)
            name = escape(row.model) + (" [dim](baseline)[/dim]" if row.is_baseline else "")
            table.add_row(rank, name, *_leaderboard_cells(comparison.contest, row, chunk, len(heads)))
        console.print(table)


def _leaderboard_cells(
    contest: Contest, row: ComparedModel, metrics: Sequence[str] | None, n: int
) -> list[str]:
    """Return a model's means, or its costs where no metrics are given; ``n``: how many cells."""
    if row.error is not None:
        return ["[red]failed[/red]"] + [""] * (n - 1)
    if metrics is not None:
        return [_aligned(mean_cell(row.cells[metric])) for metric in metrics]
    costs = facts_of(contest, row.model).costs
    assert costs is not None
    return cost_texts(costs)


def _aligned(cell: TextCell) -> str:
    """Return a right-aligned cell whose numbers are in one column, with and without a mark."""
    text = cell.text + (STYLED_MARKS[cell.mark] or "  ")
    return f"{text}\n[dim]{cell.small}  [/dim]" if cell.small else text


def _legend_of(comparisons: Sequence[Comparison], plan: Plan, unit: Unit, independent: str) -> Iterator[str]:
    """Yield lines on the intervals, the marks and the numbers of users or queries.

    Args:
        comparisons: Of one unit, and of the same independent ones.
        plan: Of the bake-off.
        unit: The noun of what has a score.
        independent: The noun of what is independent.
    """
    rows = [row for comparison in comparisons for row in comparison.models]
    cells = [cell for row in rows for cell in row.cells.values()]
    if any(cell.method for cell in cells):
        yield f"[dim]{small_legend(LEVEL, (cell.method for cell in cells), unit, independent)}.[/dim]"
    if any(cell.mark for cell in cells):
        yield f"[dim]{coloured(marks_legend(plan.baseline, LEVEL, unit))}[/dim]"
        for comparison in comparisons:
            yield from (
                f"[dim]{escape(line)}[/dim]" for line in few_users_legend(comparison.pairs, independent)
            )
    primary = [row.cells[plan.primary] for row in rows if plan.primary in row.cells]
    if primary and primary[0].summary is not None:
        without = max(c.undefined for c in primary)
        why = f"; {without:,} without a score, as none of their held-out items is relevant" if without else ""
        yield f"{counted(comparisons, plan.primary, [cell.users for cell in primary])} counted{why}."
        yield from design_effect_legend(comparisons, plan.primary)


def _legend(comparisons: Sequence[Comparison], plan: Plan) -> Iterator[str]:
    by_units: dict[tuple[Unit, str], list[Comparison]] = {}
    for comparison in comparisons:
        units = comparison.contest.units.noun, comparison.contest.units.independent
        by_units.setdefault(units, []).append(comparison)
    for units, alike in by_units.items():
        yield from _legend_of(alike, plan, *units)
    for comparison in comparisons:
        where = str(comparison.contest.place) if len(comparisons) > 1 else ""
        for line in [
            *shared_lines(comparison, comparison.contest.metrics),
            *cluster_mean_legend(comparison, plan.primary),
            *seed_lines(comparison),
            *tuning_lines(comparison),
        ]:
            yield f"[dim]{escape(f'{where}: {line}' if where else line)}[/dim]"
    failed = [(c.contest, row) for c in comparisons for row in c.models if row.error is not None]
    for contest, row in failed:
        name = plan.run_name(contest, row.model)
        yield f"[red]{escape(name)} failed:[/red] {escape(row.error or '')}"
    if failed:
        yield "[dim]The traceback is in the run of the model in MLflow: traceback.txt.[/dim]"
