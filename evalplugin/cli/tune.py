"""The command ``tune``: the best parameters of a config's tuned models, as YAML to paste."""

from __future__ import annotations

from pathlib import Path

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data, load_all

__all__ = ["tune"]


@click.command()
@click.argument("config", type=click.Path(path_type=Path))
@options.set_value
@options.tracking_uri
@options.data_home
@options.workers
@options.engine
@click.option("--fresh", is_flag=True, help="Compute all anew, take nothing from the store.")
@options.debug
def tune(
    config: Path,
    overrides: tuple[str, ...],
    tracking_uri: str | None,
    data_home: Path | None,
    workers: int | None,
    engine: str | None,
    fresh: bool,
) -> int:
    """Find the best parameters of the models with a search space, and print them as YAML to paste.

    Only validation data within the train data is scored: the test data is left for `evalplugin run`, which takes every
    trial from the store. Nothing is logged to MLflow. For more trials: --set tune.budget.trials=100.
    """
    from evalplugin.cli import show
    from evalplugin.features.tuning import command
    from evalplugin.workspace import Workspace

    (checked,) = load_all([config], overrides, data_home, engine=engine)
    workspace = Workspace.open(
        checked,
        tracking_uri=tracking_uri,
        observer=show.observer(),
        mode="fresh" if fresh else "run",
        data_home=data_home,
    )
    models = command.tune(workspace, workers=workers)
    echo_data(command.tuned_yaml(models), nl=False)
    return EXIT_FAILED if any(model.tuning is None for model in models) else EXIT_DONE
