"""The command ``compare``: models that were logged, compared again."""

from __future__ import annotations

from typing import Any

import click

from evalplugin.cli import comparisons, options


@options.command()
@options.runs
@options.bakeoff
@options.source_experiment
@click.option("--tracking-uri", help="MLflow tracking URI.")
@click.option("--dataset", metavar="NAME", help="The only dataset to compare on; else all.")
@click.option("--split", metavar="NAME", help="The only split to compare on; else all.")
@comparisons.choices
@click.option("--segment", metavar="NAME", help="Show groups of users too, such as activity.")
@click.option("--overlap", is_flag=True, help="Show how much of the same every two models list.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME",
    help="What to show, several times; else the primary metric, or all in json and csv.",
)  # fmt: skip
@comparisons.output
@options.plugin
@options.debug
def compare(
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    segment: str | None,
    overlap: bool,
    output: comparisons.Output,
    **choices: Any,
) -> int:
    """Compare models that were logged: who won, for whom, and is it real.

    RUN is the id or the name of a run, or the name of a model. Without any: the latest bake-off. For scores from any
    other evaluation, see compare-scores.
    """
    if overlap and (output.users is not None or output.shown not in ("table", "json", "markdown")):
        raise click.UsageError("--overlap is for --format table, json or markdown, without --users")
    from evalplugin import api
    from evalplugin.cli.show import observer as new_observer
    from evalplugin.tracking.location import store_file

    output.check(store_file(choices["tracking_uri"]))
    observer = new_observer()
    with observer.progress("read and compare the runs"):
        compared = api.compare(*runs, **choices)
        if overlap:
            compared = compared.with_lists()
    return output.show(compared, observer, metrics=metrics, segment=segment, overlap=overlap)
