"""The command ``list``: the components that a config can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo

if TYPE_CHECKING:
    from evalplugin.base.registry import Registry

__all__ = ["KINDS", "list_", "registry_of"]

KINDS = ("models", "metrics", "datasets", "splits", "segments")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@options.plugin
@options.debug
def list_(kind: str) -> int:
    """List what a config can name: models, metrics, datasets, splits or segments."""
    entries = list(registry_of(kind))
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        # The origin of built-in components is left out.
        origin = "" if entry.origin.startswith("evalplugin.") else f"  [{entry.origin}]"
        echo(f"{entry.name:<{width}}  {entry.summary}{origin}")
    return EXIT_DONE


def registry_of(kind: str) -> Registry[Any]:
    """Return the registry of a kind of component, named in the plural."""
    from evalplugin import data, metrics, models, segments

    registries: dict[str, Registry[Any]] = {
        "models": models.MODELS,
        "metrics": metrics.METRICS,
        "datasets": data.DATASETS,
        "splits": data.SPLITS,
        "segments": segments.SEGMENTS,
    }
    return registries[kind]
