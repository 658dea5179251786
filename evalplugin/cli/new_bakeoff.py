"""The command ``new bakeoff``: a config for one's own data, by three questions or by options."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from evalplugin.base.errors import EXIT_DONE, DataError, EvalpluginError, ParameterError
from evalplugin.cli import options
from evalplugin.cli.shared import echo, load_all, print_diagnostic

if TYPE_CHECKING:
    from evalplugin.cli.new_config import Source

T = TypeVar("T")

_MODELS = "random, popularity, neighbours.item, sklearn.TruncatedSVD"  # they take any data


@options.command("bakeoff")
@click.argument("name", required=False)
@click.option(
    "--data", metavar="FILE", help="Interactions: CSV, Parquet or JSON lines; a pattern or a URI too."
)
@click.option(
    "--user", metavar="COLUMN", help="User ids. Columns that are not named are guessed by their names."
)
@click.option("--item", metavar="COLUMN", help="Item ids.")
@click.option("--rating", metavar="COLUMN", help="Ratings.")
@click.option("--timestamp", metavar="COLUMN", help="Times.")
@click.option("--models", metavar="NAMES", help="By commas, see `evalplugin list models`.")
@options.debug
def bakeoff(name: str | None, data: str | None, models: str | None, **columns: str | None) -> int:
    """Write a config of a bake-off on your data, and check it.

    In a terminal, it asks for what no option says. NAME is the config's and its experiment's; else the data file's.
    """
    from evalplugin.cli.new_config import config_text, source_of
    from evalplugin.cli.show import observer

    asks = sys.stdin.isatty() and sys.stderr.isatty()
    if data is None and not asks:
        raise click.UsageError("name the file with your interactions: --data FILE")
    source = _answer("File with your interactions", data, source_of)
    given = {role: column for role, column in columns.items() if column is not None}
    roles = _asked_roles(source) if asks and not given else _roles(source, given)
    chosen = _answer("Models, by commas", models or (None if asks else _MODELS), _models, _MODELS)
    stem = re.sub(r"[^\w-]+", "-", name or Path(source.keys["path"]).name.partition(".")[0]).strip("-")
    file = Path(f"{stem or 'bakeoff'}.yaml")
    if file.exists():
        raise click.BadParameter(f"{file} exists: give another NAME")
    with observer().progress(f"read {source.keys['path']}"):
        text = config_text(file, replace(source, roles=roles), chosen)
    file.write_text(text, "utf-8")
    load_all([file])
    echo(f"{file}\n\nNext: look at it, then\n\n  python -m evalplugin run {file}")
    return EXIT_DONE


def _answer(question: str, given: str | None, read: Callable[[str], T], default: str | None = None) -> T:
    """Return what an option or else the answer to a question means; a wrong answer is asked anew."""
    if given is not None:
        return read(given)

    def read_answer(text: str) -> T:
        try:
            return read(text)
        except EvalpluginError as error:
            raise click.UsageError(str(error)) from None

    answer: T = click.prompt(question, default, value_proc=read_answer, err=True)
    return answer


def _roles(source: Source, given: dict[str, str]) -> dict[str, str]:
    """Return the columns by role: those given, and guesses for the others.

    Raises:
        DataError: No column of users or of items is given or guessed.
    """
    roles = {role: name for role, name in source.roles.items() if name not in given.values()} | given
    for role in {"user", "item"} - roles.keys():
        shown = ", ".join(source.names)
        raise DataError(
            f"{source.keys['path']}: no column looks like that of the {role}s: say --{role} COLUMN; columns: {shown}"
        )
    return roles


def _asked_roles(source: Source) -> dict[str, str]:
    """Return the columns by role: the guesses if they are confirmed, else the answers."""
    print_diagnostic(f"Columns: {', '.join(source.names)}")
    for role, name in source.roles.items():
        print_diagnostic(f"  {role:<10} {name}")
    if source.roles.keys() >= {"user", "item"} and click.confirm("Are these right?", default=True, err=True):
        return source.roles
    answers = {
        role: _answer(
            f"Column of {role}s", None, partial(source.column, role), source.roles.get(role, default)
        )
        for role, default in {"user": None, "item": None, "rating": "-", "timestamp": "-"}.items()
    }
    return {role: name for role, name in answers.items() if name}


def _models(text: str) -> list[str]:
    """Return the names of models.

    Raises:
        EvalpluginError: An unknown name, a package that is not installed, or a model that needs parameters.
    """
    from evalplugin.models import MODELS

    names = [*dict.fromkeys(name.strip() for name in text.split(",") if name.strip())]
    for name in names:
        try:
            MODELS.create(name)
        except ParameterError as error:
            raise DataError(
                f"{name}: {error}: leave it out, and add it to the config with its parameters"
            ) from None
    if not names:
        raise DataError(f"name a model or several, such as {_MODELS}")
    return names
