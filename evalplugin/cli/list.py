"""The command ``list``: the components that a config can name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
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
@click.argument("kind", type=click.Choice([*COMPONENT_KINDS, "checks", "published"]))
@options.plugin
@options.published_folders
@options.debug
def list_(kind: str, folders: tuple[Path, ...]) -> int:
    """List what a config can name: models, metrics, datasets, filters, splits, segments, engines or checks.

    Or the published tables that `evalplugin reproduce` runs.
    """
    if kind == "published":
        from evalplugin.features.published.table import find_tables

        tables = find_tables((), folders)
        width = max(len(named.name) for named in tables)
        for named in tables:
            echo(f"{named.name:<{width}}  {named.table.title}")
        return EXIT_DONE
    if kind == "checks":
        from evalplugin.features.checks import CHECKS

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
