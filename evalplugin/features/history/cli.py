"""The command ``history``: models over bake-offs."""

from __future__ import annotations

from pathlib import Path

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data


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
    """Show the means of models from one bake-off to the next, and the decisions."""
    from evalplugin.cli import show
    from evalplugin.cli.show.console import show_table
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
        for table in bakeoffs.tables():
            show_table(table)
    else:
        echo_data((frame_csv if shown == "csv" else frame_json)(bakeoffs.to_frame()), nl=shown == "json")
    return EXIT_DONE


COMMAND = history
