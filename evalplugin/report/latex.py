"""LaTeX tables of comparisons, for the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from evalplugin.base.text import escape_controls
from evalplugin.comparison.comparison import Comparison
from evalplugin.report.tables import TextCell, TextTable, comparison_tables

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", "–": "--",
        "▲": "$^{+}$", "▼": "$^{-}$", "·": r"$\cdot$", "\N{MINUS SIGN}": "$-$", "\N{NO-BREAK SPACE}": "~",
        "[": "{[}", "]": "{]}", "*": "{*}",  # behind a line break they would be its options
    }
)  # fmt: skip


def compare_latex(
    comparisons: Sequence[Comparison], metrics: Sequence[str] = (), segment: str | None = None
) -> str:
    """Return a ``table`` for each metric, without ``metrics`` for the primary one; it needs the package booktabs."""
    tables = [
        _table(table)
        for comparison in comparisons
        for table in comparison_tables(comparison, metrics, segment)
    ]
    return "% \\usepackage{booktabs}\n" + "\n".join(tables)


def _table(table: TextTable) -> str:
    columns = "l" * table.words + "r" * (len(table.heads) - table.words)
    caption = " ".join(filter(None, (f"{table.title}.", table.verdict, *table.legend)))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            " & ".join(map(_escape, table.heads)) + r" \\",
            r"\midrule",
            *(" & ".join(map(_cell, row)) + r" \\" for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            rf"\caption{{{_escape(caption)}}}",
            r"\end{table}",
            "",
        ]
    )


def _cell(cell: TextCell) -> str:
    mark = {"+": "$^{+}$", "-": "$^{-}$", "": ""}[cell.mark]
    small = rf" {{\scriptsize {_escape(cell.small)}}}" if cell.small else ""
    return f"{_escape(cell.text)}{mark}{small}"


def _escape(text: str) -> str:
    return escape_controls(text).replace("\n", " ").replace("\t", " ").translate(_LATEX)
