"""The command ``history``: models over bake-offs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data

if TYPE_CHECKING:
    from evalplugin.report.tables import TextTable

_WORDS, _NUMBERS = 32, 19  # characters of the columns of words together, and of a model's column


@options.command()
@click.option("--experiment", required=True, metavar="NAME", help="MLflow experiment.")
@click.option("-m", "--metric", metavar="NAME", help="Such as ndcg@10; else what ranked the newest models.")
@click.option(
    "--last", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="Bake-offs at most."
)
@options.shown("table", "json", "csv")
@click.option(
    "--chart",
    type=options.Output(path_type=Path, dir_okay=False),
    help="Write a picture to this file too: .html, .png or .svg.",
)
@click.option("--tracking-uri", help="MLflow tracking URI.")
@options.plugin
@options.debug
def history(
    experiment: str,
    metric: str | None,
    last: int,
    shown: str,
    chart: str | Path | None,
    tracking_uri: str | None,
) -> int:
    """Show how models did from one bake-off to the next, and what was decided."""
    from evalplugin.cli import show
    from evalplugin.cli.show.console import WIDTH, show_text_table, stdout
    from evalplugin.features.history.chart import check_picture, write_history
    from evalplugin.features.history.feature import read_past
    from evalplugin.features.history.history import history_of
    from evalplugin.files.outputs import refuse_input
    from evalplugin.report.frames import frame_csv, frame_json
    from evalplugin.tracking.location import store_file

    if chart is not None:
        refuse_input(chart, [store_file(tracking_uri)])
        check_picture(chart)
    observer = show.observer()
    with observer.progress("read the bake-offs"):
        bakeoffs = history_of(experiment, read_past(tracking_uri, experiment=experiment, last=last), metric)
    if chart is not None:
        with observer.progress("draw the picture"):
            write_history(bakeoffs, chart)
    if shown == "table":
        width = min(stdout().width, WIDTH)
        for table in bakeoffs.tables():
            for part in parts_that_fit(table, width):
                show_text_table(part)
    else:
        echo_data((frame_csv if shown == "csv" else frame_json)(bakeoffs.to_frame()), nl=shown == "json")
    return EXIT_DONE


def parts_that_fit(table: TextTable, width: int) -> Iterator[TextTable]:
    """Yield tables with some of the models each, so that they fit the width; the last one has the legend."""
    fitting = max(1, (width - _WORDS) // _NUMBERS)
    for first in range(table.words, len(table.heads), fitting):
        shown = [*range(table.words), *range(first, min(first + fitting, len(table.heads)))]
        rows = tuple(tuple(row[i] for i in shown) for row in table.rows)
        legend = table.legend if shown[-1] == len(table.heads) - 1 else ()
        yield table._replace(heads=tuple(table.heads[i] for i in shown), rows=rows, legend=legend)


COMMAND = history
