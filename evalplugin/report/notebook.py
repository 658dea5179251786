"""Comparisons in notebooks: table, DataFrame, figure, page."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.remote import open_output
from evalplugin.base.stores import is_remote, local_path
from evalplugin.comparison.compared import Mark
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.gate import Decision
from evalplugin.comparison.ranks import ranks_of
from evalplugin.comparison.trends import History, PastBakeoff
from evalplugin.data.drift import DescribedData
from evalplugin.metrics import parse
from evalplugin.report.frames import compare_frame, segment_frame
from evalplugin.report.history import history_tables, worse_lines
from evalplugin.report.ranks import ranks_table
from evalplugin.report.tables import TextCell, TextTable, comparison_tables
from evalplugin.report.words import MARKS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

__all__ = ["Comparisons", "ShownHistory"]

_CELL = "padding:2px 10px;border:none;border-bottom:1px solid rgba(128,128,128,.25);vertical-align:top;background:none"
_SMALL = "opacity:.65;font-size:85%;white-space:nowrap"
# Distinguishable on white and on black.
_COLOURS: dict[Mark, str] = {"+": "#2E8B57", "-": "#D55E00"}


@dataclass(frozen=True, eq=False)
class Comparisons:
    """The result of ``evalplugin.compare``: a comparison for each dataset and split, usually one.

    A notebook shows it as a table of the models by the primary metric.
    """

    comparisons: tuple[Comparison, ...]
    # Returns a contest with its lists, truth and titles, which only the page needs; None: it has them.
    complete: Callable[[Contest], Contest] | None = field(default=None, repr=False)
    # Returns the bake-offs of the experiment, which only the page needs.
    past: Callable[[], Sequence[PastBakeoff]] = field(default=tuple, repr=False)
    decision: Decision | None = None  # of the gate, where there is one
    data: DescribedData | None = field(default=None, repr=False)  # of a bake-off that has just run

    def __getitem__(self, index: int) -> Comparison:
        return self.comparisons[index]

    def __len__(self) -> int:
        return len(self.comparisons)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def to_frame(self, metric: str | None = None, *, segment: str | None = None) -> pd.DataFrame:
        """Return one row for each model and metric; see ``compare_frame``.

        Args:
            metric: Name of the only metric; None: all.
            segment: Name of a segmentation, such as ``activity``: one row for each group, metric and model.

        Raises:
            DataError: No such metric or segmentation.
        """
        metrics = [] if metric is None else [self._metric(metric)]
        if segment is None:
            return compare_frame(self.comparisons, metrics)
        self.check_segment(segment)
        return segment_frame(self.comparisons, segment, metrics)

    def plot(self, metric: str | None = None) -> Figure:
        """Return a matplotlib figure: differences with their intervals, or means where nothing was compared.

        ``metric``: None: the primary one.

        Raises:
            DataError: No such metric.
        """
        from evalplugin.report.forest import forest

        return forest(self.comparisons, None if metric is None else self._metric(metric))

    def to_html(self, path: str | Path) -> str | Path:
        """Write the comparison page, one file that needs no network; return its path, or its URI if that was given.

        Raises:
            DataError: The folder does not exist, or the file cannot be written.
            TrackingError: The data for the page cannot be read from the tracking store.
        """
        from evalplugin.report.page import comparison_page

        if not is_remote(path):
            path = local_path(path)
            if not path.absolute().parent.is_dir():
                raise DataError(f"{path}: there is no folder {path.absolute().parent} to write to")
        page = comparison_page(self._complete(), decision=self.decision, past=self.past(), data=self.data)
        try:
            with open_output(path) as file:
                file.write(page.encode())
        except OSError as error:
            raise DataError(f"{path}: the page cannot be written: {error.strerror or error}") from None
        return path

    def canonical(self, metrics: Sequence[str]) -> list[str]:
        """Return the canonical names of metrics.

        Raises:
            DataError: A metric that was not computed.
        """
        return [self._metric(metric) for metric in metrics]

    def check_segment(self, segment: str) -> None:
        """Check that users were grouped by a segmentation.

        Raises:
            DataError: They were not.
        """
        known = list(dict.fromkeys(s.name for c in self.comparisons for s in c.contest.segments))
        if segment not in known:
            near = did_you_mean(segment, known, noun="there are") or "; the runs have no groups of users"
            raise DataError(f"users are not grouped by {segment!r}{near}")

    def _repr_html_(self) -> str:
        parts: list[str] = []
        for comparison in self.comparisons:
            parts += map(_table_html, comparison_tables(comparison, comparison.contest.primary))
            parts += [_small_html(note) for note in comparison.contest.notes]
            parts += [
                f"<div><b>Warning:</b> {html.escape(text)}</div>" for text in comparison.contest.all_warnings
            ]
        parts += [_table_html(ranks_table(ranks)) for ranks in ranks_of(self.comparisons)]
        return "".join(parts)

    def _metric(self, text: str) -> str:
        name = parse(text).name
        known = list(dict.fromkeys(m for c in self.comparisons for m in c.contest.metrics))
        if name not in known:
            raise DataError(f"metric {name!r} is not there{did_you_mean(name, known, noun='there are')}")
        return name

    def _complete(self) -> list[Comparison]:
        if self.complete is None:
            return list(self.comparisons)
        return [_on(comparison, self.complete(comparison.contest)) for comparison in self.comparisons]


class ShownHistory(History):
    """The result of ``evalplugin.history``: a history that a notebook shows as a table of models by bake-off."""

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each point, the oldest first; see ``rows``."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        lines = (f"<div>{html.escape(line)}</div>" for line in (*worse_lines(self), *self.damaged))
        return "".join([*map(_table_html, history_tables(self)), *lines])


def _on(comparison: Comparison, contest: Contest) -> Comparison:
    """Return a comparison with the lists of a complete contest."""
    lists = {model.model: model.top_n for model in contest.models}
    models = tuple(replace(row, top_n=lists[row.model]) for row in comparison.models)
    return replace(comparison, contest=contest, models=models)


def _table_html(table: TextTable) -> str:
    aligned = ["left" if i < table.words else "right" for i in range(len(table.heads))]
    heads = "".join(
        f'<th style="{_CELL};text-align:{side};font-weight:600">{html.escape(head)}</th>'
        for head, side in zip(table.heads, aligned, strict=True)
    )
    rows = "".join(
        f'<tr style="background:none">{"".join(map(_cell_html, row, aligned))}</tr>' for row in table.rows
    )
    words = f"<div>{html.escape(table.verdict)}</div>" if table.verdict else ""
    # Colours are those of the notebook, so that the table is readable in light and dark themes.
    return (
        f'<div style="color:inherit"><b>{html.escape(table.title)}</b>{words}'
        f'<table style="border-collapse:collapse;color:inherit;margin:6px 0">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        f"{_small_html(' '.join(table.legend))}</div>"
    )


def _small_html(text: str) -> str:
    return (
        f'<div style="opacity:.65;font-size:85%;max-width:60em;margin-bottom:6px">{html.escape(text)}</div>'
    )


def _cell_html(cell: TextCell, side: str) -> str:
    text = html.escape(cell.text)
    if cell.mark:
        text += f' <span style="color:{_COLOURS[cell.mark]}">{MARKS[cell.mark]}</span>'
    if cell.small:
        text += f'<br><span style="{_SMALL}">{html.escape(cell.small)}</span>'
    return f'<td style="{_CELL};text-align:{side}">{text}</td>'
