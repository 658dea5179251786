"""The command ``new``: a commented template of a component, with its contract test."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.shared import echo

__all__ = ["new"]

_CHECKS = {
    "model": "check_recommender",
    "metric": "check_metric",
    "dataset": "check_dataset",
    "split": "check_split",
}


@click.command()
@click.argument("kind", type=click.Choice(list(_CHECKS)))
@click.argument("name")
@click.option(
    "--out", "folder", default=".", metavar="DIRECTORY", help="Where to write both files.",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
)  # fmt: skip
@options.debug
def new(kind: str, name: str, folder: Path) -> int:
    """Write a commented template of a model, metric, dataset or split, and a test of its contract."""
    if not re.fullmatch("[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise click.BadParameter(
            f"{name!r}: must be lower-case words of letters and digits, joined by -, such as first-hit",
            param_hint="NAME",
        )
    module = name.replace("-", "_")
    words = {
        "kind": kind,
        "name": name,
        "module": module,
        "function": module,
        "cls": "".join(word.capitalize() for word in name.split("-")),
        "check": _CHECKS[kind],
    }
    written = {folder / f"{module}.py": kind, folder / f"test_{module}.py": "test"}
    for file in written:
        if file.exists():
            raise click.BadParameter(f"{file} exists: choose another name, or another folder by --out")
    templates = files("evalplugin.cli") / "templates"
    for file, template in written.items():
        file.write_text(
            Template((templates / f"{template}.txt").read_text("utf-8")).substitute(words), "utf-8"
        )
    component, test = written
    echo(f"{component}\n{test}\n\nNext: edit {component.name}, then\n")
    echo(f"  python -m pytest {test}\n  python -m evalplugin describe {kind} {name} --plugin {component}")
    return EXIT_DONE
