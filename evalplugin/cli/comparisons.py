"""Options and output that ``compare`` and ``compare-scores`` share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data

if TYPE_CHECKING:
    from evalplugin.execution.observer import Observer
    from evalplugin.report.notebook import Comparisons

_CHOICES = (
    click.option(
        "--baseline", metavar="MODEL",
        help="What the others are compared with; else the bake-off's, if there is one.",
    ),
    click.option("--primary", metavar="METRIC", help="What ranks the models; else the bake-off's, or the first."),
    click.option(
        "--pairs", type=click.Choice(["baseline", "all"]),
        help="Compare models with the baseline, or all with each other; else with the baseline, if there is one.",
    ),
    click.option(
        "--test", "tests", type=click.Choice(["wilcoxon", "t"]), multiple=True,
        help="A test beside the permutation test; several times.",
    ),
    click.option("--level", type=float, default=0.95, show_default=True, help="Of intervals and marks."),
    click.option(
        "--intervals", type=click.Choice(["t", "bootstrap"]), default="t", show_default=True,
        help="Of differences: Student's t, or BCa bootstrap.",
    ),
)  # fmt: skip
_OUTPUT = (
    options.shown("table", "json", "markdown", "csv", "latex"),
    click.option(
        "--html", type=options.Output(path_type=Path, dir_okay=False), help="Write the page to this file."
    ),
    click.option(
        "--users", nargs=2, metavar="A B",
        help="Two models user by user, those whom A serves worst against B first: scores, history, groups.",
    ),
    click.option(
        "--out",
        type=options.Output(path_type=Path, dir_okay=False),
        help="Write the table of --users: .parquet, .csv.",
    ),
)  # fmt: skip


def choices(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of what is compared with what; they are keywords of ``evalplugin.compare``."""
    for option in reversed(_CHOICES):
        function = option(function)
    return function


def output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the output, which the command takes as one ``output``."""

    @wraps(function)
    def with_output(*, shown: str, html: Any, users: Any, out: Any, **others: Any) -> Any:
        return function(output=Output(shown, html, users, out), **others)

    for option in reversed(_OUTPUT):
        with_output = option(with_output)
    return with_output


@dataclass(frozen=True)
class Output:
    """How a comparison is shown, and the files that it is written to: paths, or URIs as text."""

    shown: str
    html: str | Path | None = None
    users: tuple[str, str] | None = None
    out: str | Path | None = None

    def check(self, read: str | Path | None) -> None:
        """Refuse, before any work is done, options that do not fit and files that cannot be written.

        Args:
            read: The file that the comparison is read from, if it is one.

        Raises:
            DataError: A file that cannot be written, or is the one that is read.
            UsageError: Options that do not go together.
        """
        from evalplugin.files.outputs import check_table, check_writable, refuse_input

        if self.out is not None and self.users is None:
            raise click.UsageError("--out writes the table of --users A B: name two models")
        if self.users is not None and self.shown not in ("table", "json", "csv"):
            raise click.UsageError(f"--format {self.shown} is not for --users; allowed: table, json, csv")
        if self.out is not None:
            refuse_input(self.out, [read])
            check_table(self.out)
        if self.html is not None:
            refuse_input(self.html, [read])
            check_writable(self.html)

    def show(
        self,
        compared: Comparisons,
        observer: Observer,
        *,
        metrics: Sequence[str] = (),
        segment: str | None = None,
        overlap: bool = False,
    ) -> int:
        """Show the comparisons and write their files; return the exit code.

        Args:
            compared: The comparisons, with their lists where ``overlap`` is shown.
            observer: Takes notes, warnings and progress.
            metrics: Names of the metrics to show; none: the primary ones, or all in json and csv.
            segment: Groups to show too.
            overlap: Whether to show how much of the same every two models list.

        Raises:
            EvalpluginError: A metric, a segment or a model that is not there, a file that cannot be written.
            UsageError: Several metrics for two models user by user.
        """
        from evalplugin.cli.show import show_links
        from evalplugin.report.competition import warnings_on

        contests = [comparison.contest for comparison in compared]
        for note in dict.fromkeys(note for contest in contests for note in contest.notes):
            observer.report(note)
        for warning in dict.fromkeys(warning for contest in contests for warning in warnings_on(contest)):
            observer.warn(warning)
        names = compared.canonical(metrics)
        if segment is not None:
            compared.check_segment(segment)
        if self.html is not None:
            with observer.progress("write the page"):
                compared.to_html(self.html)
        if self.users is not None:
            self._show_users(compared, self.users, names)
        else:
            self._show_models(compared, names, segment, overlap)
        if compared.links is not None:
            show_links(compared.links, beside_data=self.shown != "table")
        return EXIT_DONE

    def _show_users(self, compared: Comparisons, models: tuple[str, str], names: Sequence[str]) -> None:
        from evalplugin.report import frames

        if len(names) > 1:
            raise click.UsageError("--users is by one metric: give one -m")
        rows = compared.users(*models, *names)
        if self.out is not None:
            frames.write_frame(rows, self.out)
        if self.shown == "table":
            from evalplugin.cli.show.tables import show_users

            show_users(rows, compared[0].contest)
        else:
            is_csv = self.shown == "csv"
            echo_data((frames.frame_csv if is_csv else frames.frame_json)(rows), nl=not is_csv)

    def _show_models(
        self, compared: Comparisons, names: Sequence[str], segment: str | None, overlap: bool
    ) -> None:
        from evalplugin.report import documents, frames
        from evalplugin.report.tables import overlap_table

        overlaps = [overlap_table(comparison) for comparison in compared] if overlap else []
        if self.shown == "table":
            from evalplugin.cli.show.console import show_table
            from evalplugin.cli.show.tables import show_comparisons

            show_comparisons(compared.comparisons, names, segment)
            for table in (*overlaps, *compared.tables):
                show_table(table)
            return
        texts: dict[str, Callable[..., str]] = {
            "json": partial(frames.compare_json, overlap=overlap),
            "csv": lambda *of: frames.frame_csv(frames.compare_frame(*of)),
            "markdown": partial(documents.compare_markdown, tables=(*overlaps, *compared.tables)),
            "latex": documents.compare_latex,
        }
        echo_data(texts[self.shown](compared.comparisons, names, segment), nl=False)
