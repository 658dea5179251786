"""The command ``compare``: models that were logged, compared again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data

# By parameter: options of a table of scores, as ``compare_scores`` takes them, and of logged runs.
_OF_TABLE = {
    "unit": "--unit", "model": "--model", "value": "--value", "wide": "--wide", "cluster": "--cluster",
    "lower_is_better": "--lower-is-better",
}  # fmt: skip
_OF_RUNS = {
    "bakeoff": "--bakeoff", "experiment": "--experiment", "tracking_uri": "--tracking-uri",
    "intersect": "--intersect", "dataset": "--dataset", "split": "--split",
}  # fmt: skip


@options.command()
@options.runs
@options.bakeoff
@options.source_experiment
@click.option("--tracking-uri", help="MLflow tracking URI.")
@click.option("--dataset", metavar="NAME", help="The only dataset to compare on; else all.")
@click.option("--split", metavar="NAME", help="The only split to compare on; else all.")
@click.option("--baseline", metavar="MODEL", help="What the others are compared with; else the bake-off's.")
@click.option("--primary", metavar="METRIC", help="What ranks the models; else the bake-off's.")
@click.option(
    "--pairs", type=click.Choice(["baseline", "all"]),
    help="Compare models with the baseline, or all with each other; else with the baseline, if there is one.",
)  # fmt: skip
@click.option(
    "--test", "tests", type=click.Choice(["wilcoxon", "t"]), multiple=True,
    help="A test beside the permutation test; several times.",
)  # fmt: skip
@click.option("--level", type=float, default=0.95, show_default=True, help="Of intervals and marks.")
@click.option(
    "--intervals", type=click.Choice(["t", "bootstrap"]), default="t", show_default=True,
    help="Of differences: Student's t, or BCa bootstrap.",
)  # fmt: skip
@click.option(
    "--segment", "segments", multiple=True, metavar="NAME",
    help="Show groups of users too, such as activity. Of --scores and --runs: a column to group by, several times; the "
    "first is shown, the page has all.",
)  # fmt: skip
@click.option("--overlap", is_flag=True, help="Show how much of the same every two models list.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME",
    help="What to show, several times; else the primary metric, or all in json and csv. Of --scores: the column of "
    "metrics' names.",
)  # fmt: skip
@options.intersect
@click.option("--scores", metavar="FILE", help="Compare the models of a table of scores: Parquet or CSV.")
@click.option(
    "--runs", "evaluations", multiple=True, metavar="ID",
    help="Compare MLflow's evaluation runs row by row, a run each model: of mlflow.genai.evaluate, or with --unit of "
    "mlflow.models.evaluate.",
)  # fmt: skip
@click.option("--unit", metavar="COLUMN", help="Of --scores: ids of what was scored, such as questions.")
@click.option("--model", metavar="COLUMN", help="Of --scores: names of the models, in one column.")
@click.option(
    "--value", multiple=True, metavar="COLUMN",
    help="Of --scores: scores, several times for several metrics; else the column score, or value.",
)  # fmt: skip
@click.option("--wide", is_flag=True, help="Of --scores: every column not named here has a model's scores.")
@click.option(
    "--cluster", metavar="COLUMN",
    help="Of --scores and --runs: units with the same value depend on each other, such as questions on one text.",
)  # fmt: skip
@click.option(
    "--lower-is-better", multiple=True, metavar="METRIC",
    help="Of --scores: a metric of which lower is better, several times; rmse and the like are known.",
)  # fmt: skip
@click.option(
    "--log", is_flag=True,
    help="Of --scores and --runs: log a bake-off to MLflow, a run for each model, in --experiment (default: scores).",
)  # fmt: skip
@options.shown("table", "json", "markdown", "csv", "latex")
@click.option(
    "--html", type=options.Output(path_type=Path, dir_okay=False), help="Write the page to this file."
)
@click.option(
    "--users", nargs=2, metavar="A B",
    help="Two models user by user, those whom A serves worst against B first: scores, history, groups.",
)  # fmt: skip
@click.option(
    "--out",
    type=options.Output(path_type=Path, dir_okay=False),
    help="Write the table of --users: .parquet, .csv.",
)
@options.plugin
@options.debug
def compare(
    runs: tuple[str, ...],
    metrics: tuple[str, ...],
    segments: tuple[str, ...],
    overlap: bool,
    shown: str,
    html: str | Path | None,
    users: tuple[str, str] | None,
    out: str | Path | None,
    scores: str | None,
    evaluations: tuple[str, ...],
    log: bool,
    **choices: Any,
) -> int:
    """Compare models that were logged: who won, for whom, and is it real.

    RUN is the id or the name of a run, or the name of a model. Without any: the latest bake-off. With --scores FILE:
    the models of a table of scores from any evaluation; with --runs ID: MLflow's own evaluation runs.
    """
    of_table = {name: choices.pop(name) for name in _OF_TABLE}
    is_table = scores is not None or bool(evaluations)
    where: dict[str, Any] = {}
    if not is_table:
        if log:
            raise click.UsageError("--log: for a table of scores; runs of a bake-off are logged already")
        if given := [option for name, option in _OF_TABLE.items() if of_table[name]]:
            raise click.UsageError(f"{', '.join(given)}: for a table of scores; name it with --scores FILE")
        if len(segments) > 1:
            raise click.UsageError("one --segment at a time")
    else:
        if scores is not None and evaluations:
            raise click.UsageError("--scores is a table, --runs are runs with tables: name one of them")
        of_runs = {name: choices.pop(name) for name in _OF_RUNS}
        if log or evaluations:
            where["tracking_uri"] = of_runs.pop("tracking_uri")
        if log:
            where["experiment"] = of_runs.pop("experiment")
        given = ["RUN"] * bool(runs) + [_OF_RUNS[name] for name, value in of_runs.items() if value]
        if given:
            hint = "; --log logs it there" if {"--experiment", "--tracking-uri"} & {*given} else ""
            raise click.UsageError(
                f"{', '.join(given)}: for logged bake-offs, not for a table of scores{hint}"
            )
        if of_table["unit"] is None and not evaluations:
            raise click.UsageError("--scores: name the column of ids of what was scored: --unit COLUMN")
        if len(metrics) > 1:
            raise click.UsageError("--metric: a table of --scores has one column of metrics' names")
    segment = segments[0] if segments else None
    if out is not None and users is None:
        raise click.UsageError("--out writes the table of --users A B: name two models")
    if users is not None and shown not in ("table", "json", "csv"):
        raise click.UsageError(f"--format {shown} is not for --users; allowed: table, json, csv")
    if overlap and (is_table or users is not None or shown not in ("table", "json", "markdown")):
        raise click.UsageError(
            "--overlap is for --format table, json or markdown, without --scores, --runs and --users"
        )
    from evalplugin import api
    from evalplugin.cli import show
    from evalplugin.files.outputs import check_writable, refuse_input
    from evalplugin.lists.output import check_output
    from evalplugin.report import documents, frames
    from evalplugin.report.tables import overlap_table
    from evalplugin.tracking.location import store_file

    read = scores if scores is not None else store_file((where if is_table else choices).get("tracking_uri"))
    if out is not None:
        refuse_input(out, [read])
        check_output(out)
    if html is not None:
        refuse_input(html, [read])
        check_writable(html)
    observer = show.observer()
    if not is_table:
        with observer.progress("read and compare the runs"):
            compared = api.compare(*runs, **choices)
            if overlap:
                compared = compared.with_lists()
    else:
        with observer.progress("read and compare the scores"):
            compared = api.compare_scores(
                scores,
                runs=evaluations,
                log=log,
                metric=metrics[0] if metrics else None,
                segments=segments,
                **of_table,
                **where,
                **choices,
            )
        metrics = ()
    contests = [comparison.contest for comparison in compared]
    for note in dict.fromkeys(note for contest in contests for note in contest.notes):
        observer.report(note)
    for warning in dict.fromkeys(warning for contest in contests for warning in contest.all_warnings):
        observer.warn(warning)
    if len(of_table["value"]) > 1 and users is None:
        metrics = contests[0].metrics
    names = compared.canonical(metrics)
    if segment is not None:
        compared.check_segment(segment)
    if html is not None:
        with observer.progress("write the page"):
            compared.to_html(html)
    if users is not None:
        if len(names) > 1:
            raise click.UsageError("--users is by one metric: give one -m")
        rows = compared.users(*users, *names)
        if out is not None:
            frames.write_frame(rows, out)
        if shown == "table":
            from evalplugin.cli.show.tables import show_users

            show_users(rows, contests[0])
        else:
            echo_data((frames.frame_csv if shown == "csv" else frames.frame_json)(rows), nl=shown == "json")
    else:
        overlaps = [overlap_table(comparison) for comparison in compared] if overlap else []
        if shown == "table":
            from evalplugin.cli.show.console import show_table
            from evalplugin.cli.show.tables import show_comparisons

            show_comparisons(compared.comparisons, names, segment)
            for table in (*overlaps, *compared.tables):
                show_table(table)
        else:
            texts: dict[str, Callable[..., str]] = {
                "json": partial(frames.compare_json, overlap=overlap),
                "csv": frames.compare_csv,
                "markdown": partial(documents.compare_markdown, tables=(*overlaps, *compared.tables)),
                "latex": documents.compare_latex,
            }
            echo_data(texts[shown](compared.comparisons, names, segment), nl=False)
    if compared.links is not None:
        show.show_links(compared.links, beside_data=shown != "table")
    return EXIT_DONE
