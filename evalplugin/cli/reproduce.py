"""The command ``reproduce``: published tables, run again."""

from __future__ import annotations

import json
from pathlib import Path

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data


@options.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--all", "every", is_flag=True, help="Reproduce all tables.")
@options.published_folders
@options.tracking_uri
@options.experiment
@options.data_home
@options.workers
@options.shown("text", "markdown", "json")
@options.debug
def reproduce(
    names: tuple[str, ...],
    every: bool,
    folders: tuple[Path, ...],
    tracking_uri: str | None,
    experiment: str | None,
    data_home: Path | None,
    workers: int | None,
    shown: str,
) -> int:
    """Reproduce published tables: run their bake-offs and show published beside measured values.

    NAME is a table that `evalplugin list published` lists, or the path of a YAML file. The exit code is 0 only if each
    value agrees to the printed digit, is within the range of the seeds, or differs for a reason that the table gives.
    """
    if bool(names) == every:
        raise click.UsageError("name tables, as `evalplugin list published` lists them, or give --all")
    from evalplugin.bakeoff.reproduce import reproduce as reproduced
    from evalplugin.cli import show
    from evalplugin.cli.show.console import show_text_table
    from evalplugin.features.published.table import find_tables
    from evalplugin.report.markdown import compare_markdown

    tables = find_tables(names, folders)
    observer = show.observer()
    agree = True
    for named in tables:
        found = reproduced(
            named,
            data_home=data_home,
            tracking_uri=tracking_uri,
            experiment=experiment,
            observer=observer,
            workers=workers,
        )
        if shown == "json":
            echo_data(json.dumps(found.as_mapping(), ensure_ascii=False))
        elif shown == "markdown":
            echo_data(compare_markdown([], tables=[found.text_table]))
        else:
            show_text_table(found.text_table)
        agree = agree and found.agrees
    return EXIT_DONE if agree else EXIT_FAILED
