"""The command ``list``: the components that a config can name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo

if TYPE_CHECKING:
    from evalplugin.components.registry import Registry

# Only what is asked for is imported: imports are most of the time of a command that prints text.
_PACKAGES = {
    "models": "evalplugin.models",
    "metrics": "evalplugin.metrics",
    "datasets": "evalplugin.data",
    "filters": "evalplugin.data",
    "splits": "evalplugin.data",
    "segments": "evalplugin.segments",
    "engines": "evalplugin.config.engines",
}
COMPONENT_KINDS = tuple(_PACKAGES)


@options.command("list")
@click.argument("kind", type=click.Choice([*COMPONENT_KINDS, "checks"]))
@options.plugin
@options.debug
def list_(kind: str) -> int:
    """List what a config can name: models, metrics, datasets, filters, splits, segments, engines or checks."""
    if kind == "checks":
        from evalplugin.features.checks.catalogue import CHECKS

        for code, check in sorted(CHECKS.items()):
            echo(f"{code}  {check.title}")
        return EXIT_DONE
    entries = list(registry_of(kind))
    width = max(len(entry.name) for entry in entries)
    for entry in entries:
        # The origin of built-in components is left out.
        origin = "" if entry.is_own else f"  [{entry.origin}]"
        echo(f"{entry.name:<{width}}  {entry.summary}{origin}")
    return EXIT_DONE


def registry_of(kind: str) -> Registry[Any]:
    """Return the registry of a kind of component, named in the plural."""
    registry: Registry[Any] = getattr(import_module(_PACKAGES[kind]), kind.upper())
    return registry
