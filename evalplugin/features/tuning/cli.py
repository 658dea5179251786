"""The command ``tune``: the best parameters of a config's tuned models, as YAML to paste."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED
from evalplugin.cli import options
from evalplugin.cli.shared import echo_data, open_all


@options.command()
@click.argument("config", type=click.Path(path_type=Path))
@options.set_value
@options.tracking_uri
@options.data_home
@options.workers
@options.engine
@click.option("--fresh", is_flag=True, help="Compute all anew, take nothing from the store.")
@options.debug
def tune(config: Path, overrides: tuple[str, ...], workers: int | None, fresh: bool, **where: Any) -> int:
    """Find the best parameters of the models with a search space, and print them as YAML to paste.

    Only validation data within the train data is scored: the test data is left for `evalplugin run`, which takes every
    trial from the store. Nothing is logged to MLflow. For more trials: --set tune.budget.trials=100.
    """
    from evalplugin.cli import show
    from evalplugin.features.tuning.alone import tune as find_best
    from evalplugin.features.tuning.alone import tuned_yaml

    mode = "fresh" if fresh else "run"
    (workspace,) = open_all([config], overrides, show.observer(), mode=mode, **where)
    jobs = find_best(workspace, workers=workers)
    echo_data(tuned_yaml(workspace.config, jobs), nl=False)
    return EXIT_FAILED if any(job.tuning is None for job in jobs) else EXIT_DONE


COMMAND = tune
