"""The commands ``list``, ``describe`` and ``schema``: what a config can name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options

if TYPE_CHECKING:
    from evalplugin.base.registry import Registry

__all__ = ["describe", "list_", "schema"]

KINDS = ("models", "metrics", "datasets", "splits", "segments")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@options.plugin
@options.debug
def list_(kind: str, plugins: tuple[Path, ...]) -> int:
    """List what a config can name: models, metrics, datasets, splits or segments."""
    registry = _registry(kind, plugins)
    entries = list(registry)
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        # What is built in needs no word on where it came from.
        origin = "" if entry.origin.startswith("evalplugin.") else f"  [{entry.origin}]"
        click.echo(f"{entry.name:<{width}}  {entry.summary}{origin}")
    return EXIT_DONE


@click.command()
@click.argument("kind", type=click.Choice([kind.removesuffix("s") for kind in KINDS]))
@click.argument("name")
@options.plugin
@options.debug
def describe(kind: str, name: str, plugins: tuple[Path, ...]) -> int:
    """Describe a model, metric, dataset, split or segment: definition, parameters, source."""
    from inspect import cleandoc

    from evalplugin.base.parameters import parameters_of

    entry = _registry(f"{kind}s", plugins).entry(name)
    click.echo(f"{kind} {click.style(entry.name, bold=True)}  ({entry.origin})\n")
    if entry.summary:
        click.echo(f"{cleandoc(entry.cls.__doc__ or '')}\n")
    parameters = parameters_of(entry.cls)
    click.echo("Parameters:" if parameters else "It takes no parameters.")
    for parameter in parameters:
        default = "required" if parameter.required else f"default {json.dumps(parameter.default)}"
        kind_of = parameter.type if parameter.type == "mapping" else f"{parameter.type}; {default}"
        click.echo(f"  {click.style(parameter.name, bold=True)}: {kind_of}")
        if parameter.description:
            click.echo(f"      {parameter.description}")
    return EXIT_DONE


@click.command()
@options.debug
def schema() -> int:
    """Print the JSON Schema of configs, for editors."""
    from evalplugin.config.json_schema import json_schema

    click.echo(json.dumps(json_schema(), indent=2))
    return EXIT_DONE


def _registry(kind: str, plugins: Sequence[Path]) -> Registry[Any]:
    from evalplugin import data, metrics, models, segments
    from evalplugin.base.registry import load_plugin_file

    for path in plugins:
        load_plugin_file(path)
    registries: dict[str, Registry[Any]] = {
        "models": models.MODELS,
        "metrics": metrics.METRICS,
        "datasets": data.DATASETS,
        "splits": data.SPLITS,
        "segments": segments.SEGMENTS,
    }
    return registries[kind]
