"""The command ``score``: metrics of lists from any system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import click

from evalplugin.base.errors import EXIT_DONE, DataError
from evalplugin.cli import options
from evalplugin.cli.comparisons import Output
from evalplugin.cli.shared import echo, echo_data, print_diagnostic, show_warning
from evalplugin.files import Format

if TYPE_CHECKING:
    import pandas as pd

    from evalplugin.lists.job import ListJob
    from evalplugin.lists.scores import ListScores
    from evalplugin.metrics import MetricSpec


class Logging(NamedTuple):
    """Options of logging the scores: whether, and where."""

    log: bool
    name: str | None  # of the run; None: that of the lists' file
    tracking_uri: str | None
    experiment: str


def _logging(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the MLflow run, which the command takes as one ``logging``."""

    @click.option("--log", is_flag=True, help="Log an MLflow run, like a model's.")
    @click.option("--name", help="Name of that run; else that of the lists' file.")
    @click.option("--tracking-uri", help="MLflow tracking URI.")
    @click.option("--experiment", default="lists", show_default=True, help="MLflow experiment.")
    @wraps(function)
    def with_logging(*, log: bool, name: Any, tracking_uri: Any, experiment: str, **others: Any) -> Any:
        return function(logging=Logging(log, name, tracking_uri, experiment), **others)

    return with_logging


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
@click.option(
    "--truth",
    required=True,
    metavar="FILES",
    help="The held-out interactions; or a .yaml file: the dataset impressions, a log of decisions.",
)
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
    "--input-format", "format", type=options.Choice(get_args(Format)), default="auto",
    help="auto: by the names of the files; trec: a run and qrels; else the tool that wrote them.",
)  # fmt: skip
@click.option(
    "--truth-format",
    type=options.Choice([*get_args(Format), "adjacency", "recbole", "triples", "npz"]),
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
@_logging
@options.debug
def score(
    files: tuple[str, ...],
    metrics: tuple[str, ...],
    profile: str | None,
    out: str | Path | None,
    shown: str,
    logging: Logging,
    **inputs: Any,
) -> int:
    """Score lists from any system: CSV, Parquet or TREC files."""
    from evalplugin import api
    from evalplugin.lists.columns import ListColumns
    from evalplugin.lists.job import ListJob
    from evalplugin.lists.profiles import refused, score_as
    from evalplugin.lists.scores import specs_of
    from evalplugin.metrics.relevance import Relevance
    from evalplugin.report.frames import write_frame

    single = {"--as": profile, "--out": out, "--log": logging.log, "--name": logging.name}
    if len(files) > 1 and (given := [option for option, value in single.items() if value]):
        raise click.UsageError(f"{', '.join(given)}: for the lists of one system; name one --lists")
    columns = ListColumns(**{role: inputs.pop(role) for role in ListColumns.__dataclass_fields__})
    relevance = Relevance.starting_at(inputs.pop("threshold"))
    text_ids = inputs.pop("ids") == "text"
    systems = {
        system: ListJob(file, **inputs, columns=columns, relevance=relevance, text_ids=text_ids)
        for system, file in zip(_names_of(files), files, strict=True)
    }
    job = next(iter(systems.values()))
    if profile is not None:
        for option in ("--out", "--log"):
            if single[option]:
                raise refused(option)
        _show_numbers(score_as(job, profile, metrics), shown, title=f"{job.lists}, as {profile}")
        return EXIT_DONE
    specs = specs_of(metrics)
    if len(files) > 1:
        api.check_systems(systems, specs)
    if out is not None:
        _check_out(out, job)
    scores = {
        system: own.score(specs, curves=logging.log, report=print_diagnostic)
        for system, own in systems.items()
    }
    if out is not None:
        write_frame(next(iter(scores.values())).scores.to_frame().reset_index(), out)
    _warn(systems, scores, specs)
    if len(files) > 1:
        from evalplugin.cli.show import observer

        compared = api.compare_lists(scores, job.truth)
        return Output(shown).show(compared, observer(), metrics=compared[0].contest.metrics)
    ((system, of_lists),) = scores.items()
    if shown == "table":
        from evalplugin.cli.show import show_scores

        show_scores(of_lists.rows, title=job.lists, unit=job.unit, unlisted=of_lists.unlisted)
    else:
        _echo_frame(of_lists.to_frame(), shown)
    if logging.log:
        from evalplugin.bakeoff.lists_log import log_scored_lists

        links = log_scored_lists(
            job, of_lists, specs, name=logging.name or system, experiment=logging.experiment,
            tracking_uri=logging.tracking_uri,
        )  # fmt: skip
        for label, text in links.items():
            echo(f"{label:<8} {text}", err=shown != "table")
    return EXIT_DONE


def _warn(
    systems: Mapping[str, ListJob], scores: Mapping[str, ListScores], specs: Sequence[MetricSpec]
) -> None:
    """Warn of likely mistakes: a catalogue without train data, lists and truth without a user in common."""
    from evalplugin.base.units import count_text, plural

    job = next(iter(systems.values()))
    if job.train is None and (names := [s.name for s in specs if "catalogue" in s.needs]):
        show_warning(
            f"{', '.join(names)}: the catalogue is the items of the lists and the truth alone, so these differ "
            f"from those of a bake-off on the same lists; --train names the train data"
        )
    unit = job.unit
    about_truth = [spec.name for spec in specs if spec.metric.about == "truth"]
    for system, own in systems.items():
        unlisted, counts = scores[system].unlisted, scores[system].counts
        if unlisted and len(systems) > 1:
            print_diagnostic(f"{system}: {count_text(unlisted, unit)} of the truth without a list")
        if unlisted and unlisted in [counts[metric].users for metric in about_truth if metric in counts]:
            show_warning(
                f"no {unit} has both a list and a relevant truth: see that the ids in {own.lists} and in "
                f"{own.truth} name the same {plural(unit)}"
            )
    for note in dict.fromkeys(note for own in scores.values() for note in own.notes):
        show_warning(note)


def _show_numbers(values: Mapping[str, float], shown: str, *, title: str) -> None:
    from evalplugin.base.libraries import pd

    if shown == "table":
        from evalplugin.cli.show import show_numbers

        show_numbers(values, title=title)
    else:
        _echo_frame(pd.DataFrame(values.items(), columns=["metric", "value"]), shown)


def _echo_frame(frame: pd.DataFrame, shown: str) -> None:
    from evalplugin.report.frames import frame_csv, json_by_name

    echo_data(json_by_name(frame) if shown == "json" else frame_csv(frame).rstrip("\n"))


def _names_of(files: Sequence[str]) -> list[str]:
    """Return the names of lists: of their files without the suffix, or the paths where two files are called the same.

    Raises:
        DataError: A path that is given twice.
    """
    if twice := [file for file in files if files.count(file) > 1]:
        raise DataError(f"--lists: {twice[0]} is given twice: name each system's lists once")
    stems = [Path(file).stem for file in files]
    return stems if len(set(stems)) == len(stems) else list(files)


def _check_out(out: str | Path, job: ListJob) -> None:
    from evalplugin.files.outputs import check_table, refuse_input

    refuse_input(out, [job.lists, job.truth, job.train, job.pool], "*.parquet")
    check_table(out)
