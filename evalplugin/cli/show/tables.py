"""Plans, results, comparisons and scores in the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from evalplugin.base.libraries import pd
from evalplugin.base.numbers import UNDEFINED, memory, number, span
from evalplugin.base.places import DataSplit
from evalplugin.base.units import count_text, plural
from evalplugin.cli.shared import print_diagnostic, show_error, show_warning
from evalplugin.cli.show.console import show_statement, show_table, stdout
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.data.queries import Unit, independent_unit
from evalplugin.metrics import parse
from evalplugin.report.charts.pictures import NO_PICTURES, can_draw
from evalplugin.report.competition import competition_of
from evalplugin.report.leaderboard import leaderboard
from evalplugin.report.sentences.statistics import no_interval
from evalplugin.report.sentences.verdict import verdict
from evalplugin.report.table import Table, numbers, text_rows, with_shared_footnotes, words
from evalplugin.report.tables import comparison_tables

if TYPE_CHECKING:
    from evalplugin.bakeoff.dry_run import DryRun
    from evalplugin.features.base import Bakeoff
    from evalplugin.lists.scores import ScoreRow
    from evalplugin.tracking.write.board import Links


_USERS = 20  # rows of the table of users or queries
_MOST_ROWS = 20  # of leaderboards with intervals below their means, which take a line each
# What has a score, and what is known of it.
_USER = ("user", "interactions in the train data")
_QUERY = ("query", "events of the session before it")


def show_dry_run(dry_run: DryRun) -> None:
    """Print the tasks of a bake-off and the memory that they need."""
    tuned = any(planned.trials != 0 for planned in dry_run.jobs)
    units = " or ".join(dict.fromkeys(planned.job.info.units.nouns for planned in dry_run.jobs))
    who = "who" if "users" in units else "which"
    rows = []
    for planned in dry_run.jobs:
        info, model, tasks = planned.job.info, planned.job.model, planned.job.tasks
        # None: as many as fit into the seconds of the budget.
        trials = "by seconds" if planned.trials is None else f"{planned.trials:,}"
        counts = (f"{count:,}" for count in (len(tasks), planned.users, tasks[0].n))
        sizes = map(memory, (planned.lists_mb, planned.block_mb, planned.fit_mb))
        names = (info.dataset, info.split, model.name, model.type)
        rows.append((*names, *([trials] if tuned else []), *counts, *sizes))
    about_trials = "trials: to tune, at most, all folds together; " if tuned else ""
    of_seeds = " times seeds" if any(planned.job.seeds > 1 for planned in dry_run.jobs) else ""
    heads = (*(["trials"] if tuned else []), "tasks", units, "n", "lists", "block", "fit at peak")
    show_table(
        Table(
            f"{dry_run.config}: {count_text(len(dry_run.jobs), 'run')} in the experiment {dry_run.experiment!r}",
            (*words("dataset", "split", "model", "type"), *numbers(*heads)),
            text_rows(rows),
            footnotes=(
                f"{about_trials}tasks: folds{of_seeds} to fit; {units}: {who} get a list; lists, block, fit at peak: "
                f"memory for all lists, for a block of scores, and for fitting, where the model can tell",
            ),
        )
    )
    console = stdout()
    for line in dry_run.power.sentences():
        console.print(escape(line), highlight=False)
    console.print(escape("; ".join([dry_run.power.test.words, *dry_run.power.notes])), style="dim")


def show_users(users: pd.DataFrame, contest: Contest) -> None:
    """Print for each dataset and split how many users or queries a model lost, and those with the largest losses."""
    for _, table in users.groupby(["dataset", "split"], sort=False):
        first = table.iloc[0]
        of_queries = "session" in table and table["session"].notna().all()
        unit, known = (
            (contest.units.noun, "") if competition_of(contest) is None else _QUERY if of_queries else _USER
        )
        units = plural(unit)
        id_column = first.index[2]
        ids = (
            {"session": words("session"), "position": numbers("position")}
            if of_queries
            else {id_column: words(id_column)}
        )
        segments = [name for name in table.columns if name.startswith("segment_")]
        better = contest.spec(first["metric"]).direction or 1
        lost, gained = (int((side * better * table["difference"] > 0).sum()) for side in (-1, 1))
        same = int((table["difference"] == 0).sum())
        rows = []
        for _, row in table.head(_USERS).iterrows():
            scores = [number(row[name]) for name in ("score", "score_against", "difference")]
            if known:
                scores.append(UNDEFINED if pd.isna(row["history"]) else f"{row['history']:,}")
            groups = [UNDEFINED if pd.isna(row[name]) else row[name] for name in segments]
            rows.append((*(str(row[column]) for column in ids), *scores, *groups))
        footnotes = [f"history: {known}"] if known else []
        if len(table) > _USERS:
            more = f"the first {_USERS} of {len(table):,} {units}; all of them: --out {units}.csv"
            footnotes = ["; ".join([more, *footnotes])]
        where = DataSplit(first["dataset"], first["split"])
        heads = (first["model"], first["against"], "difference", *(("history",) if known else ()))
        groups_of = words(*(name.removeprefix("segment_") for name in segments))
        show_table(
            Table(
                f"{where}: {first['metric']} of {first['model']} is worse than that of {first['against']} "
                f"for {lost:,} {units}, better for {gained:,}, the same for {same:,}",
                (*(column for named in ids.values() for column in named), *numbers(*heads), *groups_of),
                text_rows(rows),
                footnotes=tuple(footnotes),
            )
        )


def show_bakeoff(bakeoff: Bakeoff, *, wide: bool) -> None:
    """Print a leaderboard for each dataset and split, the verdicts, and a link; ``wide``: all columns and links."""
    console = stdout()
    is_long = not wide and sum(len(comparison.models) for comparison in bakeoff.comparisons) > _MOST_ROWS
    boards = [leaderboard(comparison, intervals=not is_long) for comparison in bakeoff.comparisons]
    for table in with_shared_footnotes(boards):
        show_table(table, wide=wide, without=["intervals"] if is_long else [])
    sections = bakeoff.sections()
    for section in sections:
        if section.table is not None:
            show_table(section.table)
    if any(comparison.failed for comparison in bakeoff.comparisons):
        console.print("The traceback is in the run of the model in MLflow: traceback.txt.\n")
    if wide:
        show_links(bakeoff.links)
    if codes := dict.fromkeys(finding.code for finding in bakeoff.findings):
        print_diagnostic(f"warnings printed above: {', '.join(codes)}")
    gated = {section.statement.place for section in sections if section.statement is not None}
    for comparison in bakeoff.comparisons:
        where = f"{comparison.contest.place}: " if len(bakeoff.comparisons) > 1 else ""
        decided = verdict(comparison)
        console.print(f"[bold]{escape(where + decided.headline)}[/bold]", highlight=False)
        for detail in decided.lines(is_gated=comparison.contest.place in gated):
            console.print(escape(detail), highlight=False)
        if where:
            console.print()
    for section in sections:
        if section.statement is not None:
            show_statement(section.statement)
    if not wide:
        show_links(bakeoff.links, only="page")
    for section in sections:
        if section.error is not None:
            show_error(section.error)


def show_links(links: Links, *, only: str | None = None, beside_data: bool = False) -> None:
    """Print the links to a bake-off in MLflow.

    Args:
        links: Of the bake-off.
        only: The one to show; None: all.
        beside_data: Print on stderr, as stdout has data for programs.
    """
    shown = {
        "store": links.tracking_uri,
        "look": links.ui_command,
        # The pages of a database are served by nobody yet.
        "page": links.page_url if only is None or links.ui_command is None else links.open_command,
        "board": links.board_url,
        "compare": links.compare_url,
    }
    console = stdout()
    for label, text in shown.items():
        if text is None or only not in (None, label):
            continue
        if beside_data:
            print_diagnostic(f"{label:<8} {text}")
        else:
            # Never wrapped: a link that is broken over two lines cannot be clicked, a command cannot be copied.
            console.print(f"{label:<8} [bold]{escape(text)}[/bold]", highlight=False, soft_wrap=True)
    for warning in links.warnings:  # all others are printed where they arise
        show_warning(warning)
    if not can_draw():
        print_diagnostic(f"note: runs in MLflow have no pictures: {NO_PICTURES}")


def show_comparisons(comparisons: Sequence[Comparison], metrics: Sequence[str], segment: str | None) -> None:
    """Print the tables of each comparison by each metric; none named: the primary one."""
    console = stdout()
    for comparison in comparisons:
        for table in comparison_tables(comparison, metrics, segment):
            show_table(table)
        if comparison.pairing == "baseline" and len(comparison.models) > 2 and comparison.pairs:
            console.print("[dim]Every two models: --pairs all.[/dim]", highlight=False)


def show_scores(rows: Sequence[ScoreRow], *, title: str, unit: Unit = "user", unlisted: int = 0) -> None:
    """Print the means of scored lists, their intervals and numbers of users or queries.

    ``unlisted``: how many have a truth and no list.
    """
    shown = [
        (
            row.metric,
            number(row.mean),
            span(row.low, row.high) or UNDEFINED,
            f"{row.users:,}",
            f"{row.undefined:,}",
        )
        for row in rows
    ]
    footnotes = []
    if unlisted:
        verb = "has" if unlisted == 1 else "have"
        footnotes.append(f"{count_text(unlisted, unit)} of the truth {verb} no list: nothing is found.")
    without = (
        row for row in rows if math.isfinite(row.mean) and not math.isfinite(row.low) and row.users > 1
    )
    if any(parse(row.metric).metric.scope == "user" for row in without):
        footnotes.append(no_interval(independent_unit(unit)))
    columns = (*words("metric"), *numbers("mean", "95 % interval", plural(unit), "undefined"))
    show_table(Table(title, columns, text_rows(shown), footnotes=tuple(footnotes)))


def show_numbers(values: Mapping[str, float], *, title: str) -> None:
    """Print numbers by name."""
    rows = text_rows((name, number(value)) for name, value in values.items())
    show_table(Table(title, (*words("metric"), *numbers("value")), rows))
