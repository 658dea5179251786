"""Documents on comparisons in Markdown, LaTeX and plain text, made of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evalplugin.base.numbers import percent
from evalplugin.comparison.compared import LEVEL
from evalplugin.comparison.comparison import Comparison
from evalplugin.execution.results import Finding, Plan
from evalplugin.report.competition import warnings_on
from evalplugin.report.leaderboard import leaderboard
from evalplugin.report.render.latex import latex
from evalplugin.report.render.markdown import escape, titled_lines
from evalplugin.report.render.text import plain_text
from evalplugin.report.sections import Section, Statement
from evalplugin.report.table import Table, with_shared_footnotes
from evalplugin.report.tables import comparison_tables


def compare_markdown(
    comparisons: Sequence[Comparison],
    metrics: Sequence[str] = (),
    segment: str | None = None,
    tables: Iterable[Table] = (),
) -> str:
    """Return a table with verdict and footnotes for each metric.

    Args:
        comparisons: What to show.
        metrics: Canonical names; none: the primary one of each comparison.
        segment: A segmentation, for tables by group of users too; None: none.
        tables: Further tables, over all comparisons.
    """
    lines = []
    for comparison in comparisons:
        for table in comparison_tables(comparison, metrics, segment):
            lines += titled_lines(table)
        lines += [f"- {escape(note)}" for note in comparison.contest.notes]
        lines += _warnings(comparison)
    for table in tables:
        lines += ["", *titled_lines(table)]
    return "\n".join(lines).rstrip() + "\n"


def compare_latex(
    comparisons: Sequence[Comparison], metrics: Sequence[str] = (), segment: str | None = None
) -> str:
    """Return a ``table`` for each metric, without ``metrics`` for the primary one; it needs the package booktabs."""
    tables = [
        latex(table)
        for comparison in comparisons
        for table in comparison_tables(comparison, metrics, segment)
    ]
    return "% \\usepackage{booktabs}\n" + "\n".join(tables)


def comparisons_text(
    comparisons: Sequence[Comparison], sentences: Iterable[str] = (), findings: Sequence[Finding] = ()
) -> str:
    """Return the sentences, the verdict on each comparison, its models by the primary metric, and warnings.

    ``findings``: of checks of the results.
    """
    tables = [table for comparison in comparisons for table in comparison_tables(comparison)]
    warnings = [f"Warning: {text}" for c in comparisons for text in warnings_on(c.contest, findings)]
    return plain_text(tables, sentences, warnings)


def leaderboard_markdown(
    plan: Plan, comparisons: Sequence[Comparison], sections: Iterable[Section] = ()
) -> str:
    """Return the leaderboard of each dataset and split, and the tables of sections."""
    sections = list(sections)
    findings = [finding for section in sections for finding in section.findings]
    units = " and ".join(dict.fromkeys(comparison.contest.units.nouns for comparison in comparisons))
    lines = [
        f"# Bake-off {escape(plan.id)}",
        "",
        f"{escape(plan.config_name)}: ranked by {escape(plan.primary)}, means over {units} with "
        f"{percent(LEVEL)} intervals.",
        "",
    ]
    tables = with_shared_footnotes(list(map(leaderboard, comparisons)))
    for comparison, table in zip(comparisons, tables, strict=True):
        lines += titled_lines(table)
        if warnings := _warnings(comparison, findings):
            lines += [*warnings, ""]
    for section in sections:
        lines += [] if section.table is None else titled_lines(section.table)
    return "\n".join(lines).rstrip() + "\n"


def statement_markdown(statement: Statement) -> str:
    """Return a statement with its reason, tables and notes."""
    lines = [f"# {escape(statement.title)}", "", escape(statement.reason)]
    for detail in statement.details:
        lines += ["", escape(detail)]
    for table in statement.tables:
        lines += ["", *titled_lines(table)]
    lines += [f"- {escape(note)}" for note in statement.notes]
    return "\n".join([*lines, ""])


def _warnings(comparison: Comparison, findings: Sequence[Finding] = ()) -> list[str]:
    return [f"- **Warning:** {escape(text)}" for text in warnings_on(comparison.contest, findings)]
