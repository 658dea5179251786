"""The command ``validate``: checks of configs, and of their data with --data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalplugin.base.errors import EXIT_DONE, EXIT_USAGE
from evalplugin.base.units import count_text
from evalplugin.cli import options
from evalplugin.cli.shared import echo, load_all, print_diagnostic

if TYPE_CHECKING:
    from evalplugin.config import CheckedConfig


@options.command()
@options.configs
@options.set_value
@options.data_home
@click.option(
    "--data",
    "with_data",
    is_flag=True,
    help="Read and split the data too, fit the models on a small sample, and show what checks find.",
)
@options.debug
def validate(
    configs: tuple[Path, ...], overrides: tuple[str, ...], data_home: Path | None, with_data: bool
) -> int:
    """Check configs: every mistake is shown with its location. Data is not read, unless --data is given.

    With --data, the exit code is 2 where a check finds what the config calls an error (`checks.error`).
    """
    code = EXIT_DONE
    for config in load_all(configs, overrides=overrides, data_home=data_home):
        counts = {"model": len(config.models), "dataset": len(config.datasets), "split": len(config.splits)}
        sizes = " x ".join(count_text(count, kind) for kind, count in counts.items())
        echo(f"{config.name}: valid: {sizes}, {count_text(len(config.metrics), 'metric')}")
        _note_opened_files(config)
        if with_data:
            code = max(code, _check_data(config, data_home))
    return code


def _note_opened_files(config: CheckedConfig) -> None:
    """Print a note on each model of a plugin that seems to open files and names no inputs."""
    from evalplugin.models import MODELS

    plugins = [model for model in config.models if not (model.inputs or MODELS.entry(model.type).is_own)]
    if not plugins:
        return
    from evalplugin.execution.store.versions import opens_files, source_of

    for model in plugins:
        file = source_of(MODELS.entry(model.type))
        if file is not None and opens_files(file) and not any(model.all_inputs(config.folder)):
            print_diagnostic(
                f"{config.name}: note: {file} opens files, and the model {model.name} names none: results are not "
                f"computed again when they change, unless the model names them under inputs:"
            )


def _check_data(config: CheckedConfig, data_home: Path | None) -> int:
    """Print the findings in the data of a config, a line each; return the exit code."""
    from evalplugin.cli import show
    from evalplugin.execution.runner import prepare
    from evalplugin.features.checks.feature import data_findings

    observer = show.observer()
    prepared = prepare(config, data_home, observer)
    with observer.progress("check the data, and the models on a sample of it"):
        findings = data_findings(config, prepared, fit=True)
    for finding in findings:
        echo(f"{config.name}: {finding.severity}: {finding.line}")
    if not findings:
        echo(f"{config.name}: checks found nothing")
    return EXIT_USAGE if any(finding.is_error for finding in findings) else EXIT_DONE
