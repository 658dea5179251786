"""The command ``score``: metrics of lists from any system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo, echo_data, print_diagnostic, show_warning

if TYPE_CHECKING:
    from evalplugin.report.notebook import Comparisons


@options.command()
@click.option(
    "--lists",
    "files",
    required=True,
    multiple=True,
    metavar="FILES",
    help="The lists: a file, a folder of Parquet files, a pattern; or a URI of one, such as s3://bucket/lists; several "
    "times for several systems, which are compared.",
)
@click.option("--truth", required=True, metavar="FILES", help="The held-out interactions.")
@click.option(
    "--train",
    metavar="FILES",
    help="The train data, for metrics of the catalogue (coverage) or of history (novelty).",
)
@click.option(
    "--pool",
    metavar="FILES",
    help="Users and items that lists were chosen from, for pool_recall: the ceiling that they leave.",
)
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Such as ndcg@10; several times."
)
@click.option(
    "--as", "profile", metavar="LIBRARY", help="Compute what a library computes under its own names."
)
@click.option("--threshold", type=float, help="Ratings from it on are relevant; else all above 0.")
@click.option(
    "--out",
    type=options.Output(path_type=Path, dir_okay=False),
    help="Write per-user scores: .parquet, .csv.",
)
@options.shown("table", "json", "csv", show_default=False, help="Of the means.")
@click.option(
    "--input-format", "format", type=click.Choice(["auto", "csv", "parquet", "trec"]), default="auto",
    help="auto: by the names of the files; trec: a run and qrels.",
)  # fmt: skip
@click.option(
    "--truth-format",
    type=click.Choice(["auto", "csv", "parquet", "trec", "adjacency", "recbole", "triples", "npz"]),
    default="auto",
    help="Of truth and train data; auto: by a name such as .inter, else as the lists.",
)
@click.option(
    "--duplicates",
    type=click.Choice(["error", "keep"]),
    default="error",
    help="A pair that stands twice in the truth or the train data; keep: each row is an event, and ratings add up.",
)
@click.option(
    "--ids",
    type=click.Choice(["auto", "text"]),
    default="auto",
    help="Ids in files of text; auto: as integers if that changes none, else as text.",
)
@click.option(
    "--memory", metavar="SIZE", help="Such as 2GB: Parquet files that need more are scored in partitions."
)
@click.option(
    "--partitioned",
    is_flag=True,
    help="Each Parquet file of the lists has all rows of its users; none is moved.",
)
@options.engine
@click.option("--user", default="user", show_default=True, metavar="COLUMN", help="User ids.")
@click.option("--query", metavar="COLUMN", help="Ids SESSION:NUMBER of queries, in place of users.")
@click.option("--item", default="item", show_default=True, metavar="COLUMN", help="Item ids.")
@click.option("--rank", metavar="COLUMN", help="Ranks 1, 2, 3 ... of the lists.")
@click.option("--score", metavar="COLUMN", help="Scores of the lists, highest first.")
@click.option("--rating", metavar="COLUMN", help="Ratings of the truth.")
@click.option("--truth-user", metavar="COLUMN", help="User ids in truth and train data, if called otherwise.")
@click.option("--truth-item", metavar="COLUMN", help="Item ids there.")
@click.option("--log", "for_log", is_flag=True, help="Log an MLflow run, like a model's.")
@click.option("--name", help="Name of that run; else that of the lists' file.")
@click.option("--tracking-uri", help="MLflow tracking URI.")
@click.option("--experiment", default="lists", show_default=True, help="MLflow experiment.")
@options.debug
def score(
    files: tuple[str, ...],
    profile: str | None,
    shown: str,
    name: str | None,
    tracking_uri: str | None,
    experiment: str,
    **inputs: Any,
) -> int:
    """Score lists from any system: CSV, Parquet or TREC files."""
    from evalplugin import api
    from evalplugin.bakeoff import score_command
    from evalplugin.base.units import count_text, plural
    from evalplugin.lists.columns import ListColumns
    from evalplugin.lists.output import csv_text, json_text, numbers_csv, numbers_json, rows_of
    from evalplugin.lists.scores import specs_of
    from evalplugin.metrics.relevance import Relevance

    single = {"--as": profile, "--out": inputs["out"], "--log": inputs["for_log"], "--name": name}
    if len(files) > 1 and (given := [option for option, value in single.items() if value]):
        raise click.UsageError(f"{', '.join(given)}: for the lists of one system; name one --lists")
    columns = ListColumns(**{role: inputs.pop(role) for role in ListColumns.__dataclass_fields__})
    relevance = Relevance.starting_at(inputs.pop("threshold"))
    inputs |= {"text_ids": inputs.pop("ids") == "text", "columns": columns, "relevance": relevance}
    systems = {
        system: score_command.Options(lists=file, **inputs)
        for system, file in zip(score_command.names_of(files), files, strict=True)
    }
    options = next(iter(systems.values()))
    if profile is not None:
        numbers = score_command.score_as(options, profile)
        if shown == "table":
            from evalplugin.cli.show import show_numbers

            show_numbers(numbers, title=f"{options.lists}, as {profile}")
        else:
            echo_data(numbers_json(numbers) if shown == "json" else numbers_csv(numbers))
        return EXIT_DONE
    specs = specs_of(options.metrics)
    if len(files) > 1:
        api.check_systems(systems, specs)
    scores = {system: score_command.score(own, specs, print_diagnostic) for system, own in systems.items()}
    if options.train is None and (names := [s.name for s in specs if "catalogue" in s.needs]):
        show_warning(
            f"{', '.join(names)}: the catalogue is the items of the lists and the truth alone, so these differ "
            f"from those of a bake-off on the same lists; --train names the train data"
        )
    about_truth = [spec.name for spec in specs if spec.metric.about == "truth"]
    for system, own in systems.items():
        unlisted, counts = scores[system].unlisted, scores[system].counts
        if unlisted and len(files) > 1:
            print_diagnostic(f"{system}: {count_text(unlisted, own.unit)} of the truth without a list")
        if unlisted and unlisted in [counts[metric].users for metric in about_truth if metric in counts]:
            show_warning(
                f"no {own.unit} has both a list and a relevant truth: see that the ids in {own.lists} and in "
                f"{own.truth} name the same {plural(own.unit)}"
            )
    for note in dict.fromkeys(note for own in scores.values() for note in own.notes):
        show_warning(note)
    if len(files) > 1:
        _show_systems(api.compare_lists(scores, options.truth), shown)
        return EXIT_DONE
    ((system, of_lists),) = scores.items()
    rows = rows_of(of_lists)
    if shown == "table":
        from evalplugin.cli.show import show_scores

        show_scores(rows, title=options.lists, unit=options.unit, unlisted=of_lists.unlisted)
    else:
        echo_data(json_text(rows) if shown == "json" else csv_text(rows))
    if options.for_log:
        links = score_command.log(
            options, of_lists, specs, name=name or system, experiment=experiment, tracking_uri=tracking_uri
        )
        for label, text in links.items():
            echo(f"{label:<8} {text}", err=shown != "table")
    return EXIT_DONE


def _show_systems(compared: Comparisons, shown: str) -> None:
    from evalplugin.cli.show.tables import show_comparisons
    from evalplugin.report.frames import compare_csv, compare_json

    contest = compared[0].contest
    for note in contest.notes:
        print_diagnostic(note)
    if shown == "table":
        show_comparisons(compared.comparisons, contest.metrics, None)
    else:
        as_text = compare_json if shown == "json" else compare_csv
        echo_data(as_text(compared.comparisons, contest.metrics), nl=False)
