"""Markdown: tables, comparisons, the leaderboard of a bake-off, statements."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from evalplugin.base.numbers import UNDEFINED, percent, seconds
from evalplugin.base.text import escape_controls
from evalplugin.base.units import plural
from evalplugin.comparison.compared import LEVEL, ComparedModel
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.execution.results import Finding, Plan
from evalplugin.report.competition import competition_of, facts_of, warnings_on
from evalplugin.report.sections import Section, Statement
from evalplugin.report.tables import TextCell, TextTable, comparison_tables, mean_cell, name_cell
from evalplugin.report.words import (
    MARKS,
    few_users_legend,
    heading,
    marks_legend,
    seed_lines,
    shared_lines,
    tuning_lines,
    units_of,
)


def escape(text: object) -> str:
    """Return text that Markdown and HTML show unchanged, on one line."""
    plain = html.escape(escape_controls(" ".join(str(text).split())), quote=False)
    return re.sub(r"([\\`*_{}\[\]()#+!|~$])", r"\\\1", plain)


def markdown_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, words: int | None = None
) -> list[str]:
    """Return the lines of a table of Markdown; columns after the first ``words`` are aligned right."""
    lines = ["---" if words is None or i < words else "---:" for i in range(len(heads))]
    return [f"| {' | '.join(cells)} |" for cells in (heads, lines, *rows)]


def compare_markdown(
    comparisons: Sequence[Comparison],
    metrics: Sequence[str] = (),
    segment: str | None = None,
    tables: Iterable[TextTable] = (),
) -> str:
    """Return a table with verdict and legend for each metric.

    Args:
        comparisons: What to show.
        metrics: Canonical names; none: the primary one of each comparison.
        segment: A segmentation, for tables by group of users too; None: none.
        tables: Further tables, over all comparisons.
    """
    lines = []
    for comparison in comparisons:
        for table in comparison_tables(comparison, metrics, segment):
            lines += _titled(table)
        lines += [f"- {escape(note)}" for note in comparison.contest.notes]
        lines += _warnings(comparison)
    for table in tables:
        lines += ["", *_titled(table)]
    return "\n".join(lines).rstrip() + "\n"


def leaderboard_markdown(
    bakeoff: Plan, comparisons: Sequence[Comparison], sections: Iterable[Section] = ()
) -> str:
    """Return a table of all models, best first, for each dataset and split, and a list of those that failed."""
    units, sections = units_of(comparisons), list(sections)
    findings = [finding for section in sections for finding in section.findings]
    lines = [
        f"# Bake-off {escape(bakeoff.id)}",
        "",
        f"{escape(bakeoff.config_name)}: ranked by {escape(bakeoff.primary)}, "
        f"means over {' and '.join(map(plural, units))} with {percent(LEVEL)} intervals.",
        "",
    ]
    for comparison in comparisons:
        contest = comparison.contest
        lines += [f"## {escape(str(contest.place))}", ""]
        if warnings := _warnings(comparison, findings):
            lines += [*warnings, ""]
        if comparison.scored:
            metrics = (escape(heading(contest.spec(metric))) for metric in contest.metrics)
            costs = [] if competition_of(contest) is None else ["fit", "recommend"]
            heads = ["", "model", *metrics, plural(contest.units.noun), "undefined", *costs]
            rows = [_leaderboard_row(contest, row)[: len(heads)] for row in comparison.scored]
            lines += [*markdown_table(heads, rows), ""]
        few = few_users_legend(comparison.pairs, contest.units.independent)
        shared = shared_lines(comparison, contest.metrics)
        for line in [*shared, *few, *seed_lines(comparison), *tuning_lines(comparison)]:
            lines += [escape(line), ""]
        if failed := [f"- **{escape(row.model)}**: {escape(row.error)}" for row in comparison.failed]:
            lines += ["Failed:", "", *failed, ""]
    for section in sections:
        lines += [] if section.table is None else _titled(section.table)
    for unit in units_of(c for c in comparisons if c.pairs and c.contest.baseline is not None):
        lines.append(escape(marks_legend(bakeoff.baseline, LEVEL, unit)))
    for unit in units:
        lines += [
            "",
            f"{plural(unit).capitalize()}: those with a value of the metric that ranks; undefined: those without one.",
        ]
    return "\n".join(lines) + "\n"


def statement_markdown(statement: Statement) -> str:
    """Return a statement with its reason, tables and notes."""
    lines = [f"# {escape(statement.title)}", "", escape(statement.reason)]
    for detail in statement.details:
        lines += ["", escape(detail)]
    for table in statement.tables:
        lines += ["", f"## {escape(table.title)}", "", *_table(table)]
    lines += ["", statement.legend]
    if statement.notes:
        lines += ["", *(f"- {escape(note)}" for note in statement.notes)]
    return "\n".join([*lines, ""])


def _warnings(comparison: Comparison, findings: Sequence[Finding] = ()) -> list[str]:
    return [f"- **Warning:** {escape(text)}" for text in warnings_on(comparison.contest, findings)]


def _titled(table: TextTable) -> list[str]:
    lines = [f"## {escape(table.title)}", ""]
    lines += [escape(table.verdict), ""] if table.verdict else []
    lines += [*_table(table), ""] if table.rows else []
    return [*lines, *(f"{escape(line)}  " for line in table.legend), ""]


def _table(table: TextTable) -> list[str]:
    rows = [[_cell(cell) for cell in row] for row in table.rows]
    return markdown_table([escape(head) for head in table.heads], rows, words=table.words)


def _cell(cell: TextCell) -> str:
    text = f"**{escape(cell.text)}**" if cell.mark == "+" else escape(cell.text)
    small = f"({escape(cell.small)})" if cell.small == "baseline" else escape(cell.small)
    return " ".join(filter(None, (text, MARKS[cell.mark], small)))


def _leaderboard_row(contest: Contest, row: ComparedModel) -> list[str]:
    cells = [row.cells.get(metric) for metric in contest.metrics]
    shown = map(_cell, (name_cell(row), *map(mean_cell, cells)))
    first, costs, undefined = cells[0], facts_of(contest, row.model).costs, [UNDEFINED, UNDEFINED]
    counts = undefined if first is None else [f"{first.has:,}", f"{first.undefined:,}"]
    times = undefined if costs is None else [seconds(costs.fit_seconds), seconds(costs.recommend_seconds)]
    return ["" if row.rank is None else str(row.rank), *shown, *counts, *times]
