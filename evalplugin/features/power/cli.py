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
@click.argument("config", type=click.Path(path_type=Path))
@click.option("--gain", type=float, help="The true gain that is to be found; else twice min_gain.")
@click.option(
    "--experiment", metavar="NAME", help="Take the spreads of its last bake-off; else some are assumed."
)
@click.option("--power", type=float, default=0.8, show_default=True, help="Probability of finding the gain.")
@options.tracking_uri
@options.shown("table", "json")
@options.set_value
@options.data_home
@options.debug
def power(
    config: Path,
    gain: float | None,
    experiment: str | None,
    power: float,
    shown: str,
    overrides: tuple[str, ...],
    **where: Any,
) -> int:
    """Tell how many users it takes to find a gain, and what gain the users of a config's data would find.

    The test is that of the config's gate, or else of its comparison. The data is read and split; nothing is fitted.
    """
    from evalplugin.cli import show
    from evalplugin.features.power import power as power_of

    (workspace,) = open_all([config], overrides, show.observer(), experiment=experiment, **where)
    prepared = workspace.prepare()
    report = power_of.power_of_config(workspace, prepared, power=power, gain=gain, experiment=experiment)
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
