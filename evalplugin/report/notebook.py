"""Comparisons in notebooks: table, DataFrame, chart, page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import pd
from evalplugin.base.numbers import number, percent, signed
from evalplugin.base.text import escape_html
from evalplugin.comparison.compared import Cell, Mark
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.intervals import Interval
from evalplugin.execution.results import Finding
from evalplugin.files.outputs import open_output
from evalplugin.files.uris import is_remote, local_path
from evalplugin.report.charts.palette import model_styles
from evalplugin.report.charts.pictures import Chart, stacked
from evalplugin.report.competition import warnings_on
from evalplugin.report.documents import comparisons_text
from evalplugin.report.frames import compare_frame, group_statistics_frame, overlap_frame
from evalplugin.report.page import comparison_page
from evalplugin.report.render.html import small_html, table_html
from evalplugin.report.sections import Section
from evalplugin.report.table import MARKS, Table
from evalplugin.report.tables import comparison_tables
from evalplugin.report.users import users_frame

if TYPE_CHECKING:
    import altair as alt

    from evalplugin.tracking.write.board import Links


@dataclass(frozen=True, eq=False)
class Comparisons:
    """The result of ``compare``: a comparison for each dataset and split, usually one."""

    comparisons: tuple[Comparison, ...]
    # Returns the sections that features add to reports on comparisons.
    sections: Callable[[Sequence[Comparison]], Iterable[Section]] = field(
        default=lambda comparisons: (), repr=False
    )
    # Returns a contest with its lists, truth and titles, which only the page needs; None: it has them.
    complete: Callable[[Contest], Contest] | None = field(default=None, repr=False)
    links: Links | None = field(default=None, repr=False)  # of a table of scores that was logged

    def __getitem__(self, index: int) -> Comparison:
        return self.comparisons[index]

    def __len__(self) -> int:
        return len(self.comparisons)

    def __repr__(self) -> str:
        return comparisons_text(self.comparisons, findings=self._findings)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def to_frame(self, metric: str | None = None, *, segment: str | None = None) -> pd.DataFrame:
        """Return a row for each model and metric; with a ``segment``, such as ``activity``, for each group too.

        Raises:
            DataError: No such metric or segmentation.
        """
        metrics = self.canonical([] if metric is None else [metric])
        if segment is not None:
            self.check_segment(segment)
        return compare_frame(self.comparisons, metrics, segment)

    def group_statistics(self, segment: str, metric: str | None = None) -> pd.DataFrame:
        """Return the gap between the groups of a ``segment``, such as ``activity``, and the worst one, of each model.

        Raises:
            DataError: No such metric or segmentation.
        """
        metrics = self.canonical([] if metric is None else [metric])
        self.check_segment(segment)
        return group_statistics_frame(self.comparisons, segment, metrics)

    def users(self, a: str, b: str, metric: str | None = None) -> pd.DataFrame:
        """Return one row for each user, or each query, those whom model ``a`` serves worst against ``b`` first.

        Columns: ``dataset``, ``split``; ``user``, the id of a user or a query; of queries ``session`` and ``position``,
        the number of events of the session before the query; ``metric``; ``model`` and its ``score``; ``against``, the
        other model, and ``score_against``; ``difference``, the first less the second; ``history``, the number of train
        interactions, or of the events that models are told of a session, missing where it is not known;
        ``segment_NAME``, the user's group in each segmentation. Undefined values are missing.

        Args:
            a, b: Names of models, or ids of their runs.
            metric: None: the primary one.

        Raises:
            DataError: There is no such model or metric, or one of the models failed.
        """
        having = [
            c for c in self.comparisons if {a, b} <= {n for row in c.models for n in (row.model, row.run_id)}
        ]
        frames = []
        for comparison in having or self.comparisons[:1]:  # which says what is missing
            frame = users_frame(comparison, a, b, metric)
            for position, (name, value) in enumerate(comparison.contest.place._asdict().items()):
                frame.insert(position, name, value)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)

    def overlap(self) -> pd.DataFrame:
        """Return for every two models how much of the same they list.

        Raises:
            TrackingError: The lists cannot be read from the tracking store.
        """
        return overlap_frame(self.with_lists().comparisons)

    def with_lists(self) -> Comparisons:
        """Return the comparisons with the models' lists, which are read from the tracking store if need be.

        Raises:
            TrackingError: The lists cannot be read.
        """
        return replace(self, comparisons=tuple(self._complete()), complete=None)

    def plot(self, metric: str | None = None) -> alt.VConcatChart:
        """Return an Altair chart of differences with their intervals, or of means where nothing was compared.

        ``.save("chart.png")`` writes it to a file.

        Raises:
            DataError: No such metric.
        """
        import altair as alt

        metrics = self.canonical([] if metric is None else [metric])
        panels = [_panel(c, *(metrics or [c.contest.primary])) for c in self.comparisons]
        chart: alt.VConcatChart = alt.VConcatChart.from_dict(stacked(panels))
        return chart

    def to_html(self, path: str | Path) -> str | Path:
        """Write the comparison page, one file that needs no network; return its path or URI.

        Raises:
            DataError: The folder does not exist, or the file cannot be written.
            TrackingError: The data for the page cannot be read from the tracking store.
        """
        if not is_remote(path):
            path = local_path(path)
            if not path.absolute().parent.is_dir():
                raise DataError(f"{path}: there is no folder {path.absolute().parent} to write to")
        comparisons = self._complete()
        page = comparison_page(comparisons, list(self.sections(comparisons)))
        try:
            with open_output(path) as file:
                file.write(page.encode())
        except OSError as error:
            raise DataError(f"{path}: the page cannot be written: {error.strerror or error}") from None
        return path

    @property
    def tables(self) -> list[Table]:
        """The tables that features add, over all comparisons."""
        return [section.table for section in self._sections if section.table is not None]

    def canonical(self, metrics: Sequence[str]) -> list[str]:
        """Return the canonical names of metrics.

        Raises:
            DataError: A metric that was not computed.
        """
        names = [self.comparisons[0].contest.spec(metric).name for metric in metrics]
        known = list(dict.fromkeys(m for c in self.comparisons for m in c.contest.metrics))
        for name in names:
            if name not in known:
                raise DataError(f"metric {name!r} is not there{did_you_mean(name, known, noun='there are')}")
        return names

    def check_segment(self, segment: str) -> None:
        """Check that users were grouped by a segmentation.

        Raises:
            DataError: They were not.
        """
        known = list(dict.fromkeys(s.name for c in self.comparisons for s in c.contest.segments))
        if segment not in known:
            units = self.comparisons[0].contest.units.nouns
            near = did_you_mean(segment, known, noun="there are") or f"; the runs have no groups of {units}"
            raise DataError(f"{units} are not grouped by {segment!r}{near}")

    def _repr_html_(self) -> str:
        parts: list[str] = []
        for comparison in self.comparisons:
            parts += map(table_html, comparison_tables(comparison))
            parts += [small_html(note) for note in comparison.contest.notes]
            parts += [
                f"<div><b>Warning:</b> {escape_html(text)}</div>"
                for text in warnings_on(comparison.contest, self._findings)
            ]
        return "".join([*parts, *map(table_html, self.tables)])

    @cached_property
    def _sections(self) -> list[Section]:
        return list(self.sections(self.comparisons))

    @property
    def _findings(self) -> list[Finding]:
        return [finding for section in self._sections for finding in section.findings]

    def _complete(self) -> list[Comparison]:
        """Return the comparisons of the complete contests."""
        if self.complete is None:
            return list(self.comparisons)
        return [replace(c, contest=self.complete(c.contest)) for c in self.comparisons]


def _panel(comparison: Comparison, metric: str) -> dict[str, Any]:
    """Return a chart of every difference by a metric with its interval, best model first; of means without pairs.

    ``metric`` is a canonical name. A filled point is shown to be better or worse; a mean is filled too.
    """
    contest = comparison.contest
    styles = model_styles([model.model for model in contest.models], contest.baseline)
    pairs = [pair for pair in comparison.pairs if pair.metric == metric]
    rows = [_row(pair.model, pair.paired.interval, pair.mark, styles[pair.model]) for pair in pairs]
    title = f"{metric}: difference from {contest.baseline}"
    if pairs and comparison.pairing == "all":
        rows = [
            {**row, "model": f"{pair.model} − {pair.against}"} for row, pair in zip(rows, pairs, strict=True)
        ]
        title = f"{metric}: difference between two models"
    if not pairs:
        means = [(row.model, row.cells[metric]) for row in comparison.models if metric in row.cells]
        rows = [_row(model, cell, None, styles[model]) for model, cell in means]
        title = metric
    if any(row["low"] != row["high"] for row in rows):
        title += f", {percent(comparison.level)} intervals"
    better = {1: "  (right is better)", -1: "  (left is better)", 0: ""}[contest.spec(metric).direction]
    chart = Chart("forest" if pairs else "means", rows, {"title": title + better}, title)
    return chart.spec(width=420, title=str(contest.place), height=26 * max(len(rows), 1))


def _row(model: str, value: Cell | Interval, mark: Mark | None, style: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of a difference, or without ``mark`` of a mean."""
    is_known = math.isfinite(value.low) and math.isfinite(value.high)
    low, high = (value.low, value.high) if is_known else (value.mean, value.mean)
    text = number(value.mean) if mark is None else f"{signed(value.mean)} {MARKS[mark] if mark else ''}"
    fill = "var(--surface)" if mark == "" else style["colour"]
    return {
        "model": model,
        "difference": value.mean,
        "low": low,
        "high": high,
        "text": text,
        "fill": fill,
        **style,
    }
