"""The commands ``new``: a config of a bake-off, or a commented template of a component with its contract test."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

import click

from evalplugin.base.errors import EXIT_DONE
from evalplugin.cli import options
from evalplugin.cli.new_bakeoff import bakeoff
from evalplugin.cli.shared import echo


@click.group()
def new() -> None:
    """Write a config for your data, or a commented template of a model, metric, dataset or split."""


def _add_command(kind: str) -> None:
    @new.command(kind, cls=options.Command, help=f"Write a commented {kind} and its test.")
    @click.argument("name")
    @click.option(
        "--out", "folder", default=".", metavar="DIRECTORY", help="Where to write both files.",
        type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    )  # fmt: skip
    @options.debug
    def write(name: str, folder: Path, is_command: bool = False) -> int:
        return _write(kind, name, folder, is_command=is_command)

    if kind == "model":
        text = "A model that is a program of its own, in an environment of its own (type: command)."
        write.params.append(click.Option(["--command", "is_command"], is_flag=True, help=text))


new.add_command(bakeoff)
for _kind in ("model", "metric", "dataset", "split"):
    _add_command(_kind)


def _write(kind: str, name: str, folder: Path, *, is_command: bool) -> int:
    """Write the template of a component and its test."""
    from importlib.resources import files

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
        "cls": "".join(word.capitalize() for word in name.split("-")),
        "check": "check_recommender" if kind == "model" else f"check_{kind}",
    }
    templates = ("command", "command_test") if is_command else (kind, "test")
    written = dict(zip((folder / f"{module}.py", folder / f"test_{module}.py"), templates, strict=True))
    for file in written:
        if file.exists():
            raise click.BadParameter(f"{file} exists: choose another name, or another folder by --out")
    for file, template in written.items():
        text = (files("evalplugin.cli") / "templates" / f"{template}.txt").read_text("utf-8")
        file.write_text(Template(text).substitute(words), "utf-8")
    component, test = written
    described = "command" if is_command else f"{name} --plugin {component}"
    echo(f"{component}\n{test}\n\nNext: edit {component.name}, then\n")
    echo(f"  python -m pytest {test}\n  python -m evalplugin describe {kind} {described}")
    return EXIT_DONE
