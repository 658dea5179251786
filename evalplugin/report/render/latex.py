"""Tables as LaTeX, for the package booktabs."""

from __future__ import annotations

from evalplugin.base.text import escape_controls
from evalplugin.report.table import Table, TableCell

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$", "|": "$|$", "–": "--",
        "▲": "$^{+}$", "▼": "$^{-}$", "·": r"$\cdot$", "\N{MINUS SIGN}": "$-$", "\N{NO-BREAK SPACE}": "~",
        "[": "{[}", "]": "{]}", "*": "{*}",  # behind a line break they would be its options
    }
)  # fmt: skip


def latex(table: Table) -> str:
    """Return a ``table`` with its title, verdict and footnotes as caption; it needs the package booktabs."""
    caption = " ".join(filter(None, (f"{table.title}.", table.verdict, *table.footnotes)))
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\begin{{tabular}}{{{''.join('r' if c.is_number else 'l' for c in table.columns)}}}",
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


def _cell(cell: TableCell) -> str:
    mark = {"+": "$^{+}$", "-": "$^{-}$", "": ""}[cell.mark]
    tag = f" ({_escape(cell.tag)})" if cell.tag else ""
    small = rf" {{\scriptsize {_escape(cell.small)}}}" if cell.small else ""
    return f"{_escape(cell.text)}{mark}{tag}{small}"


def _escape(text: str) -> str:
    return escape_controls(text).replace("\n", " ").replace("\t", " ").translate(_LATEX)
