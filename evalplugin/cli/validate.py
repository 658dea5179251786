"""The command ``validate``: configs checked without reading data."""

from __future__ import annotations

from pathlib import Path

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.base.units import count_text
from evalplugin.cli import options
from evalplugin.cli.shared import echo, load_all

__all__ = ["validate"]


@click.command()
@options.configs
@options.set_value
@options.data_home
@options.debug
def validate(configs: tuple[Path, ...], overrides: tuple[str, ...], data_home: Path | None) -> int:
    """Check configs without reading data: every mistake is shown with its location."""
    for config in load_all(configs, overrides, data_home):
        sizes = " x ".join(
            count_text(len(parts), kind)
            for parts, kind in (
                (config.models, "model"),
                (config.datasets, "dataset"),
                (config.splits, "split"),
            )
        )
        echo(f"{config.name}: valid: {sizes}, {count_text(len(config.metrics), 'metric')}")
    return EXIT_DONE
