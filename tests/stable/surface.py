"""What stays the same in all versions 1.x, as mappings from names to what they take.

`python tests/stable/surface.py` writes them to the JSON files beside it.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pandas as pd

import evalplugin
from evalplugin.base import errors
from evalplugin.cli.list import COMPONENT_KINDS, registry_of
from evalplugin.cli.program import cli
from evalplugin.components.parameters import parameters_of
from evalplugin.features.checks.catalogue import CHECKS
from evalplugin.features.notifications.feature import ConfigHeader, payload_with

FOLDER = Path(__file__).parent
DOCS = FOLDER.parents[1] / "docs"

sys.path.insert(0, str(DOCS))
from config_keys import as_yaml, config_keys, top_level_keys  # noqa: E402 - of the folder above

Named = Iterator[tuple[str, str]]


def python_names() -> Named:
    """Yield what the page on Python documents: functions, parameters with their positions, members of classes."""
    page = (DOCS / "reference" / "python.md").read_text()
    for marker in re.findall(r"^<!-- generated: python\n(.*?)\n-->", page, re.MULTILINE | re.DOTALL):
        for path, *members in map(str.split, marker.splitlines()):
            value = pkgutil.resolve_name(path)
            if "*" in members:
                members = list(getattr(value, "__all__", ())) or _documented(value)
            if callable(value) and "-" not in members:
                yield from _call(path, value)
            for name in [*members, *_attributes(value)]:
                if name != "-":
                    yield from _call(f"{path}.{name}", getattr(value, name, None))


def _documented(cls: type) -> list[str]:
    return [name for name, member in vars(cls).items() if name[0] != "_" and inspect.getdoc(member)]


def _attributes(value: Any) -> list[str]:
    """Return the attributes of a class that its docstring names."""
    fields = inspect.get_annotations(value) if inspect.isclass(value) else {}
    return [name for name in fields if re.search(rf"``{name}``|^ +{name}: ", value.__doc__, re.MULTILINE)]


def _call(path: str, value: Any) -> Named:
    if getattr(value, "_is_protocol", False) or not callable(value):
        yield path, ""
        return
    signature = inspect.signature(value)
    returned = "" if signature.return_annotation is signature.empty else f"-> {signature.return_annotation}"
    yield path, "class" if inspect.isclass(value) else returned
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    for position, parameter in enumerate(parameters, 1):
        name = str(parameter.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty))
        annotation = str(parameter.annotation).strip('"')
        default = "required" if parameter.default is parameter.empty else repr(parameter.default)
        # A default that is an object is shown with its address in memory.
        default = re.sub(r"<(function|object) .*>", "...", default)
        by_position = f", position {position}" if parameter.kind <= parameter.POSITIONAL_OR_KEYWORD else ""
        yield f"{path}({name})", f"{annotation} = {default}{by_position}"


def config_names() -> Named:
    """Yield the keys of a config."""
    for section in top_level_keys():
        for key in config_keys(section):
            kind = re.sub("EV.* to EV.*", "code of a check", key.type)
            yield key.path, f"{kind} = {key.default}".strip(" =")


def component_names() -> Named:
    """Yield the components that a config can name, their parameters, and the version of each metric's definition."""
    for kind in COMPONENT_KINDS:
        for entry in registry_of(kind):
            if entry.is_own:
                is_metric = kind == "metrics"
                definition = f"version {entry.cls.version}{', @k' * entry.cls.takes_k}" if is_metric else ""
                yield f"{kind}: {entry.name}", definition
                for each in parameters_of(entry.cls):
                    default = "required" if each.required else as_yaml(each.default)
                    yield f"{kind}: {entry.name}({each.name})", f"{each.type} = {default}"
    yield from ((f"checks: {code}", check.kind) for code, check in CHECKS.items())


def mlflow_names() -> Named:
    """Yield what the page on MLflow names, which a test compares with a bake-off; but its own data."""
    page = (DOCS / "reference" / "mlflow.md").read_text()
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title = section.splitlines()[0]
        for cell in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
            for name in re.findall("`([^`]+)`", cell):
                if title != "Data for programs" and not name.startswith("mlflow."):
                    yield f"{title}: {name}", ""


def command_names() -> Named:
    """Yield commands and options, exit codes, variables of the environment, keys of outcomes, columns of tables."""
    yield from _commands(click.Context(cli, info_name="evalplugin", **cli.context_settings))
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.EvalpluginError):
            yield f"exit code of {name}", str(value.exit_code)
        elif name.startswith("EXIT_"):
            yield f"exit code {value}", name.removeprefix("EXIT_").lower()
    page = (DOCS / "reference" / "exit_codes.md").read_text()
    yield from ((f"environment: {name}", "") for name in re.findall(r"`(EVALPLUGIN_\w+)`", page))
    yield from ((f"--outcome: {key}", "") for key in payload_with(ConfigHeader("", Path())))
    table = pd.DataFrame({"unit": [0, 1, 2], "a": [0.0, 1.0, 0.5], "b": 0.5})
    compared = evalplugin.compare_scores(table, unit="unit", wide=True, name="table", baseline="a")
    yield from ((f"to_frame(): {column}", "") for column in compared.to_frame())


def _commands(context: click.Context) -> Named:
    command = context.command
    yield context.command_path, " ".join(command.collect_usage_pieces(context)[1:])
    for option in command.get_params(context):
        if isinstance(option, click.Option) and (record := option.get_help_record(context)):
            yield f"{context.command_path} {max(option.opts, key=len)}", record[0]
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _commands(click.Context(below, info_name=name, parent=context))


SURFACES: dict[str, Callable[[], Named]] = {
    "commands": command_names,
    "components": component_names,
    "config": config_names,
    "mlflow": mlflow_names,
    "python": python_names,
}

if __name__ == "__main__":
    for kind, names in SURFACES.items():
        text = json.dumps(dict(names()), ensure_ascii=False, indent=0, sort_keys=True)
        (FOLDER / f"{kind}.json").write_text(f"{text}\n")
