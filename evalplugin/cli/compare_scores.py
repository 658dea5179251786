"""The command ``compare-scores``: models by a table of scores, or by MLflow's own evaluation runs."""

from __future__ import annotations

from typing import Any

import click

from evalplugin.cli import comparisons, options


@options.command("compare-scores")
@click.argument("scores", required=False, metavar="[FILE]")
@click.option(
    "--runs", multiple=True, metavar="ID",
    help="In place of a table: MLflow's evaluation runs, row by row, a run each model: of mlflow.genai.evaluate, or "
    "with --unit of mlflow.models.evaluate.",
)  # fmt: skip
@click.option("--unit", metavar="COLUMN", help="Column of the ids of scored units, such as questions.")
@click.option("--model", metavar="COLUMN", help="Names of the models, in one column.")
@click.option("-m", "--metric", metavar="COLUMN", help="Names of the metrics, in one column.")
@click.option(
    "--value", multiple=True, metavar="COLUMN",
    help="Scores, several times for several metrics; else the column score, or value.",
)  # fmt: skip
@click.option("--wide", is_flag=True, help="Every column not named here has a model's scores.")
@click.option(
    "--cluster", metavar="COLUMN",
    help="Units with the same value depend on each other, such as questions on one text.",
)  # fmt: skip
@click.option(
    "--segment", "segments", multiple=True, metavar="COLUMN",
    help="Groups of units, several times; the first is shown, the page has all.",
)  # fmt: skip
@click.option(
    "--lower-is-better", multiple=True, metavar="METRIC",
    help="A metric of which lower is better, several times; rmse and the like are known.",
)  # fmt: skip
@comparisons.choices
@click.option("--log", is_flag=True, help="Log a bake-off to MLflow, a run for each model.")
@click.option("--experiment", metavar="NAME", help="Where --log logs. [default: scores]")
@click.option("--tracking-uri", help="MLflow tracking URI, of --runs and --log.")
@comparisons.output
@options.plugin
@options.debug
def compare_scores(scores: str | None, output: comparisons.Output, **choices: Any) -> int:
    """Compare models by scores from any evaluation: a table, or MLflow's evaluation runs.

    FILE is a Parquet or CSV file with a score of each unit for each model.
    """
    log, runs = choices["log"], choices["runs"]
    if choices["experiment"] is not None and not log:
        raise click.UsageError("--experiment goes with --log: give it too")
    if choices["tracking_uri"] is not None and not (log or runs):
        raise click.UsageError("--tracking-uri goes with --runs or --log: give one of them too")
    if choices["unit"] is None and not runs:
        raise click.UsageError("name the column of ids of what was scored: --unit COLUMN")
    from evalplugin import api
    from evalplugin.cli.show import observer as new_observer
    from evalplugin.tracking.location import store_file

    output.check(store_file(choices["tracking_uri"]) if scores is None else scores)
    observer = new_observer()
    with observer.progress("read and compare the scores"):
        compared = api.compare_scores(scores, **choices)
    every = compared[0].contest.metrics if len(choices["value"]) > 1 and output.users is None else ()
    return output.show(compared, observer, metrics=every, segment=next(iter(choices["segments"]), None))
