"""The keys of a config as its schema has them: path, type, default, example and description of each."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Union

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from evalplugin.components.parameters import class_in
from evalplugin.config.components import FilterSpec, InlineSpec
from evalplugin.features.config import Config

__all__ = ["ConfigKey", "as_yaml", "config_keys", "top_level_keys"]


_ENTRIES = {
    "tune": "PARAMETER"
}  # what the keys of a mapping name, where it is not what the mapping is called


class ConfigKey(NamedTuple):
    """A key of a config; default and example are YAML, empty where there is none."""

    path: str  # such as gate.guardrails.costs.COST.max or models[].name
    type: str
    default: str
    example: str
    description: str
    is_section: bool  # whether it has keys of its own, with their own examples


def top_level_keys() -> list[str]:
    """Return the top-level keys of a config."""
    return [name for name, _ in _fields(Config)]


def config_keys(top_level: str) -> Iterator[ConfigKey]:
    """Yield a top-level key of a config and all keys below it."""
    info = dict(_fields(Config))[top_level]
    yield from _keys(top_level, info, info.examples[0] if info.examples else None)


def _fields(section: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, info in section.model_fields.items():
        yield info.alias or name, info


def _keys(path: str, info: FieldInfo, example: Any) -> Iterator[ConfigKey]:
    section = class_in(info.annotation)
    description = info.description or (inspect.getdoc(section) or "" if section is not None else "")
    shown = "" if example is None else as_yaml(example)
    yield ConfigKey(
        path,
        _type_text(info.annotation),
        _default_of(info),
        shown,
        " ".join(description.split()),
        section is not None,
    )
    if section is None:
        return
    if "list" in str(info.annotation):
        below, parts = f"{path}[]", example if isinstance(example, list) else [example]
    elif "dict" in str(info.annotation):
        key = path.rpartition(".")[2]
        below = f"{path}.{_ENTRIES.get(key, key.removesuffix('s').upper())}"
        parts = list(example.values())
    else:
        below, parts = path, [example]
    for name, field in _fields(section):
        # What the example of the whole says about a key comes first: a dataset's type is no model's.
        found = [part[name] for part in parts if isinstance(part, Mapping) and name in part]
        yield from _keys(f"{below}.{name}", field, (found or field.examples or [None])[0])
    if issubclass(section, (FilterSpec, InlineSpec)):
        yield ConfigKey(f"{below}.*", "", "", "", "The parameters of the type.", is_section=True)


def _type_text(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type_text(arguments[0])
    if origin is typing.Literal:
        if len(arguments) > 12:  # codes of checks
            return f"{arguments[0]} to {arguments[-1]}"
        return " or ".join(filter(None, (", ".join(arguments[:-1]), arguments[-1])))
    if origin in (Union, types.UnionType):
        return " or ".join(_type_text(argument) for argument in arguments if argument is not types.NoneType)
    if origin is list:
        return f"list of {_type_text(arguments[0])}"
    if origin is dict and typing.get_origin(arguments[0]) is typing.Literal:
        return f"mapping of {_type_text(arguments[0])}"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "mapping"
    return {int: "integer", float: "number", str: "text", bool: "true or false"}.get(annotation, "any value")


def _default_of(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    default = info.get_default(call_default_factory=True)
    if default in (None, "") or isinstance(default, BaseModel):
        return ""
    if isinstance(default, list) and default and isinstance(default[0], BaseModel):
        return as_yaml([item.type for item in default])
    return as_yaml(default)


def as_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=float("inf"))
    return text.removesuffix("...\n").strip()
