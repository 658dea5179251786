"""The command ``power``: the number of users that finds a gain, and the gain that the users at hand find."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data, open_all

if TYPE_CHECKING:
    from evalplugin.features.power.power import PowerReport


@options.command()
@click.argument("config", type=click.Path(path_type=Path), required=False)
@click.option("--sd", type=float, help="Standard deviation of users' differences; else the logged one.")
@click.option("--users", type=int, help="How many there are; else those of the data or of the bake-off.")
@click.option("--gain", type=float, help="The true gain that is to be found; else twice min_gain.")
@click.option("--experiment", metavar="NAME", help="Take the spreads of its last bake-off.")
@click.option("--bakeoff", metavar="ID", help="Take the spreads of this one; latest: the last one.")
@click.option(
    "-m", "--metric", "metrics", multiple=True, metavar="NAME", help="Such as ndcg@10, several times."
)
@click.option("--level", type=float, help="Confidence of the test.  [default: 0.95]")
@click.option("--one-sided", is_flag=True, help="Test for a gain alone, as a gate does.")
@click.option(
    "--comparisons",
    type=click.IntRange(1),
    metavar="N",
    help="Models compared with one, which share the error.",
)
@click.option(
    "--decisions", type=click.IntRange(1), metavar="N", help="Decisions of a gate, which share it too."
)
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of finding the gain.")
@click.option("--tracking-uri", help="MLflow tracking URI.")
@options.shown("table", "json")
@options.set_value
@options.data_home
@options.plugin
@options.debug
def power(
    config: Path | None,
    sd: float | None,
    users: int | None,
    gain: float | None,
    experiment: str | None,
    bakeoff: str | None,
    metrics: tuple[str, ...],
    tracking_uri: str | None,
    shown: str,
    overrides: tuple[str, ...],
    data_home: Path | None,
    **test: Any,
) -> int:
    """Tell how many users it takes to find a gain, and what gain the users at hand would find.

    From a spread that is given (--sd), from the last bake-off that was logged (--experiment, --bakeoff), or for a
    CONFIG: with the users of its data and the test of its gate. For a CONFIG without --experiment, spreads are assumed.
    """
    from evalplugin.cli import show
    from evalplugin.features.power import power as power_of
    from evalplugin.tracking.read.contests import read_contests

    observer = show.observer()
    asked = power_of.PowerTest(**{name: value for name, value in test.items() if value is not None})
    if config is not None:
        own = {"--level": test["level"], "--comparisons": test["comparisons"], "--decisions": test["decisions"],
               "--users": users, "--sd": sd, "--bakeoff": bakeoff, "--metric": metrics or None,
               "--one-sided": test["one_sided"] or None}  # fmt: skip
        if given := [name for name, value in own.items() if value is not None]:
            raise click.UsageError(
                f"{', '.join(given)}: the config says it; --set changes a value of the config"
            )
        (workspace,) = open_all(
            [config],
            overrides,
            observer,
            tracking_uri=tracking_uri,
            experiment=experiment,
            data_home=data_home,
        )
        prepared = workspace.prepare(cached=False)
        report = power_of.power_of_config(
            workspace, prepared, power=asked.power, gain=gain, experiment=experiment
        )
    elif sd is not None:
        if experiment or bakeoff or metrics:
            raise click.UsageError(
                "--sd is a spread, and a bake-off or metric has one of its own: give one of them"
            )
        report = power_of.power_of_spread(asked, sd, users=users, gain=gain)
    else:
        if overrides:
            raise click.UsageError("--set sets a value of a CONFIG: give one")
        with observer.progress("read the bake-off"):
            contests = read_contests(tracking_uri, bakeoff=bakeoff or "latest", experiment=experiment)
            report = power_of.power_of_runs(asked, contests, metrics=metrics, users=users, gain=gain)
    if shown == "json":
        echo_data(power_of.power_json(report))
    else:
        show_power(report)
    return EXIT_DONE


def show_power(report: PowerReport) -> None:
    """Print the tables of a report on power, and its sentences below them."""
    from evalplugin.cli.show.console import show_lines, show_table
    from evalplugin.features.power.report import power_lines, power_tables

    for table in power_tables(report):
        show_table(table)
    show_lines(power_lines(report))


COMMAND = power
