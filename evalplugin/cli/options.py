"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from evalplugin.base.errors import did_you_mean
from evalplugin.files.uris import is_remote, local_path, refuse_credentials


class Command(click.Command):
    """A command that refuses a repeated option of one value, of which click takes the last value."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        _, _, given = self.make_parser(ctx).parse_args([*args])
        for option, times in Counter(given).items():
            if isinstance(option, click.Option) and times > 1 and not (option.multiple or option.is_flag):
                raise click.UsageError(f"{option.opts[-1]} is given {times} times: it takes one value", ctx)
        return super().parse_args(ctx, args)


command = partial(click.command, cls=Command)


class Choice(click.Choice[str]):
    """One of several names; the message for another has the nearest one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the message."""
        message = super().get_invalid_choice_message(value, ctx).removesuffix(".")
        return message + did_you_mean(str(value), self.choices, noun=None)


class Output(click.Path):
    """A file or folder to write: a path, or the text of a URI such as s3://bucket/page.html."""

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        """Return a Path, or the URI as text."""
        if not is_remote(value):
            return super().convert(local_path(value), param, context)
        refuse_credentials(str(value))
        return str(value)


def shown(*formats: str, **options: Any) -> Callable[..., Any]:
    """Return the option ``--format`` with its formats, the first one by default."""
    given = {"default": formats[0], "show_default": True, **options}
    return click.option("--format", "shown", type=click.Choice(formats), **given)


def _set_debug(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Make ``main`` show the traceback of an error."""
    if value:
        context.find_root().obj["debug"] = True


def _on_this_machine(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a URI: as a path it would be a new folder in the working directory."""
    if value is not None and is_remote(value):
        refuse_credentials(str(value))
        raise click.BadParameter(f"{value}: must be on this machine, not a URI")
    return value


def _can_be_written(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse a file that could not be written, or has something else in it, before any work is done."""
    _on_this_machine(context, parameter, value)
    if value is not None and not value.parent.is_dir():
        raise click.BadParameter(f"{value}: no such folder: {value.parent}")
    if value is not None and not os.access(value if value.exists() else value.parent, os.W_OK):
        raise click.BadParameter(f"{value}: cannot be written")
    if value is not None and value.is_file() and os.access(value, os.R_OK):
        with value.open("rb") as file:
            if file.read(1) not in (b"", b"{"):
                raise click.BadParameter(
                    f"{value}: is not a file of outcomes, which has lines of JSON: name another"
                )
    return value


def _load_plugins(context: click.Context, parameter: click.Parameter, files: tuple[Path, ...]) -> None:
    from evalplugin.components.registry import load_plugin_file

    for file in files:
        load_plugin_file(file)


debug = click.option(
    "--debug", is_flag=True, is_eager=True, expose_value=False, callback=_set_debug,
    help="Show the traceback of an error.",
)  # fmt: skip
set_value = click.option(
    "--set",
    "overrides",
    metavar="KEY=VALUE",
    multiple=True,
    help="Set a value of the config, such as models.0.params.k=20; may be given several times.",
)
data_home = click.option(
    "--data-home",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_on_this_machine,
    envvar="EVALPLUGIN_DATA_HOME",
    show_envvar=True,
    help="Folder of downloaded datasets.",
)
plugin = click.option(
    "--plugin",
    "plugins",
    type=click.Path(path_type=Path),
    multiple=True,
    expose_value=False,
    callback=_load_plugins,
    help="A Python file with components of your own, loaded first.",
)
configs = click.argument(
    "configs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CONFIG..."
)
if_changed = click.option(
    "--if-changed",
    is_flag=True,
    help="Do nothing where data, config and code are those of the last finished bake-off.",
)
outcome_file = click.option(
    "--outcome",
    "outcome_file",
    type=click.Path(path_type=Path, dir_okay=False),
    callback=_can_be_written,
    help="Append the outcome of each config to this file, as a line of JSON.",
)
experiment = click.option("--experiment", help="MLflow experiment; wins over the config's.")
tracking_uri = click.option("--tracking-uri", help="MLflow tracking URI; wins over the config's.")
workers = click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Tasks at a time; wins over the config's."
)
engine = click.option(
    "--engine",
    metavar="NAME",
    help="Where tasks run, see `evalplugin list engines`; wins over that of a config.",
)
store = click.option(
    "--store",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    callback=_on_this_machine,
    envvar="EVALPLUGIN_STORE",
    show_envvar=True,
    default=".evalplugin",
    show_default=True,
    help="Folder of the store; one that a config names under store.path is to be given here.",
)
runs = click.argument("runs", nargs=-1, metavar="[RUN]...")
bakeoff = click.option(
    "--bakeoff", metavar="ID", help="All models of a bake-off; latest: of the one finished last."
)
source_experiment = click.option(
    "--experiment", metavar="NAME", help="Where to look; alone: the latest run of each model there."
)
