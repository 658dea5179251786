"""The command ``open``: the page of a bake-off in the browser."""

from __future__ import annotations

import webbrowser

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo


@options.command("open")
@click.argument("bakeoff", required=False)
@options.source_experiment
@click.option("--tracking-uri", help="MLflow tracking URI.")
@options.debug
def open_(bakeoff: str | None, experiment: str | None, tracking_uri: str | None) -> int:
    """Open the page of a bake-off in the browser, without a server: the latest one, or that of an id.

    Prints the path of the page, which is all where there is no browser.
    """
    from evalplugin.cli import show
    from evalplugin.tracking.connection import existing_store
    from evalplugin.tracking.location import resolve_uri
    from evalplugin.tracking.read.runs import find_summary
    from evalplugin.tracking.write.board import PAGE

    step = "look for the page"
    with show.observer().progress(step), existing_store(resolve_uri(tracking_uri), step) as client:
        page = find_summary(client, bakeoff, experiment).local_file(PAGE)
    webbrowser.open(page.as_uri())
    echo(str(page))
    return EXIT_DONE
