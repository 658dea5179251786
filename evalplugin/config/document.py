"""YAML documents: plain values, and the line and column of each."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from evalplugin.base.errors import ConfigError, KeyPath, Problem, did_you_mean_file
from evalplugin.base.secrets import redact_values
from evalplugin.base.text import escape_controls, shorten
from evalplugin.data.reading import path_text, reason_of

_INTEGERS = range(-(2**63), 2**64)  # those that other programs can read
_MAX_SHOWN = 200  # characters of an assignment in a message


class _Loader(yaml.SafeLoader):
    """The safe loader with the scalars of YAML 1.2: 1e-3 is a number; yes, on and 2026-01-01 are text."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), list(_first))


Mark = tuple[int, int]  # line and column, from 1


@dataclass(frozen=True)
class Document:
    """A config as plain values, and the location in the file, or the override, that each value came from."""

    name: str  # as the user wrote it
    text: str = field(repr=False)
    data: dict[str, Any]
    values: Mapping[KeyPath, Mark] = field(default_factory=dict, repr=False)  # none of a config from Python
    keys: Mapping[KeyPath, Mark] = field(default_factory=dict, repr=False)
    overrides: Mapping[KeyPath, str] = field(default_factory=dict)

    def locate(self, problem: Problem) -> str:
        """Return one line: the location of the problem, the path of the key, the message."""
        line, column = self.position(problem)
        # A config that is given from Python has no file to point into.
        place = f"{self.name}:{line}:{column}" if self.values else self.name
        sources = (source for path, source in self.overrides.items() if problem.path[: len(path)] == path)
        return f"{next(sources, place)}: {_prefix(problem.path)}{problem.message}"

    def position(self, problem: Problem) -> Mark:
        """Return the line and column of the nearest value in the file, for sorting."""
        marks = self.keys if problem.at_key else self.values
        for length in range(len(problem.path), -1, -1):
            path = problem.path[:length]
            if path in marks:
                return marks[path]
            if path in self.values:
                return self.values[path]
        return (1, 1)

    def error(self, problems: Sequence[Problem]) -> ConfigError:
        """Return all problems as one error, in the order of the file."""
        return ConfigError([self.locate(p) for p in sorted(problems, key=self.position)])

    def override(self, assignments: Sequence[str]) -> Document:
        """Return the document with each ``key.path=value`` set.

        Raises:
            ConfigError: An assignment that cannot be read or leads nowhere.
        """
        data = _copy(self.data)
        overrides = dict(self.overrides)
        for assignment in assignments:
            path, value = parse_override(assignment)
            if path in overrides:
                raise ConfigError(
                    [f"--set {_redacted(assignment)}: the key has a value already, by {overrides[path]}"]
                )
            overrides[path] = f"--set {_redacted(assignment)}"
            _set(data, path, value, overrides[path])
        return replace(self, data=data, overrides=overrides)

    def with_engine(self, name: str) -> Document:
        """Return the document with another engine; one of the same type keeps its parameters."""
        written = self.data.get("engine")
        if name == (written.get("type") if isinstance(written, Mapping) else written):
            return self
        overrides = {**self.overrides, ("engine",): f"--engine {name}"}
        return replace(self, data={**self.data, "engine": name}, overrides=overrides)


def read_document(path: Path) -> Document:
    """Return the YAML mapping that a file holds.

    Raises:
        ConfigError: No such file, no text, no YAML, no mapping, duplicate keys, tags; each with its location.
    """
    name = str(path)
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        near = did_you_mean_file(path.name, [beside.name for beside in path.parent.glob("*.y*ml")])
        raise ConfigError([f"{path_text(name)}: no such file{near}"]) from None
    except (OSError, ValueError) as error:
        raise ConfigError([f"{path_text(name)}: {reason_of(error)}"]) from None
    return parse_document(text, name)


def parse_document(text: str, name: str) -> Document:
    """Return the YAML mapping that a text holds; messages call it ``name``.

    Raises:
        ConfigError: As ``read_document``.
    """
    builder = _Builder()
    data: dict[str, Any] = {}
    try:
        data = builder.document(_Loader(text).get_single_node())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        context = f"{error.context}: " if error.context else ""
        builder.problems = [(place, f"{context}{error.problem}{_quoting_hint(error, text)}")]
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = before.count("\n") + 1, error.position - before.rfind("\n")
        sign = escape_controls(text[error.position : error.position + 1])
        builder.problems = [(place, f"the character {sign} is not allowed in YAML")]
    except ValueError as error:  # of an escape that is no character
        builder.problems = [((1, 1), f"cannot be read as YAML: {error}")]
    except RecursionError:
        builder.problems = [((1, 1), "is nested too deeply, or an alias stands inside of its own anchor")]
    if builder.problems:
        # The location of a duplicate key is not in the map of locations, which has one for each key.
        raise ConfigError(
            [f"{name}:{line}:{column}: {message}" for (line, column), message in builder.problems]
        )
    return Document(name, text, data, builder.values, builder.keys)


def parse_override(assignment: str) -> tuple[KeyPath, Any]:
    """Return the path and the value of ``models.0.params.k=20``; the value is read as YAML.

    Raises:
        ConfigError: There is no ``=``, no key, or no readable value.
    """
    key, equals, text = assignment.partition("=")
    parts, source = key.strip().split("."), f"--set {_redacted(assignment)}"
    if not equals or not all(parts):
        raise ConfigError([f"{source}: must look like models.0.params.k=20"])
    if text.lstrip().startswith(("*", "@")):
        # YAML would read an alias, which cannot be defined here, or refuse it.
        value: Any = text.strip()
    else:
        # The text is read inside a mapping, so that scalars, [lists] and {mappings} all work.
        value = parse_document(f"value: {text}", source).data["value"]
    # A longer number is not a position in any list.
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else part for part in parts), value


def _quoting_hint(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return a hint where a value begins with a sign that YAML reserves, such as ``*/5``."""
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and (sign := text[mark.index : mark.index + 1]) in tuple("*&@`%"):
            return f"; put a value that begins with {sign} in quotes"
    return ""


def _redacted(assignment: str) -> str:
    """Return an assignment for messages, its value hidden if the key names a secret."""
    key, equals, text = assignment.partition("=")
    return shorten(f"{key}{equals}{redact_values({key: text})[key]}", _MAX_SHOWN)


def format_path(path: KeyPath) -> str:
    """Return a path in text: ``models[1].params.k``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _prefix(path: KeyPath) -> str:
    return f"{format_path(path)}: " if path else ""


def _mark(node: yaml.Node) -> Mark:
    return node.start_mark.line + 1, node.start_mark.column + 1


class _Builder:
    """Builder of plain values from YAML nodes; it records the location of each, and every problem."""

    def __init__(self) -> None:
        self.values: dict[KeyPath, Mark] = {}
        self.keys: dict[KeyPath, Mark] = {}
        self.problems: list[tuple[Mark, str]] = []

    def document(self, node: yaml.Node | None) -> dict[str, Any]:
        """Return the mapping of a whole document."""
        if node is None:
            needed = "a config names at least experiment, datasets, models and metrics"
            self.problems.append(((1, 1), f"the file is empty; {needed}"))
        elif not isinstance(node, yaml.MappingNode):
            self._refuse(node, (), "must be a mapping of keys to values")
        elif isinstance(data := self.value(node, ()), dict):
            return data
        return {}

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self.values[path] = _mark(node)
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(child, (*path, i)) for i, child in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and kind in ("str", "int", "float", "bool", "null"):
            try:
                return _scalar(kind, node.value)
            except ValueError as error:
                self._refuse(node, path, f"{shorten(node.value, 40)!r} {error}")
                return None
        self._refuse(node, path, f"the YAML tag {node.tag!r} is not allowed; write plain values")
        return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._refuse(key_node, path, "a key must be plain text")
                continue
            key = key_node.value
            at = (*path, key)
            if key in result:
                first = self.keys[at]
                self._refuse(key_node, at, f"duplicate key {key!r}; first given in line {first[0]}")
                continue
            self.keys[at] = _mark(key_node)
            result[key] = self.value(value_node, at)
        return result

    def _refuse(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        self.problems.append((_mark(node), f"{_prefix(path)}{message}"))


def _scalar(kind: str, text: str) -> Any:
    if kind == "int":
        # In base 0, Python refuses the leading zeros that YAML's decimals may have.
        integer = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        if integer not in _INTEGERS:
            raise ValueError("is not a 64-bit integer")
        return integer
    if kind == "float":
        number = float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if math.isinf(number) and "inf" not in text.lower():
            raise ValueError("is too large for a number")
        return number
    if kind == "bool":
        return text.lower() == "true"
    return None if kind == "null" else text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _copy(v) for k, v in value.items()}
    return [_copy(v) for v in value] if isinstance(value, list) else value


def _set(data: Any, path: KeyPath, value: Any, source: str) -> None:
    for depth, part in enumerate(path):
        container = format_path(path[:depth]) or "the config"
        last = depth == len(path) - 1
        if isinstance(data, list):
            if not isinstance(part, int) or part >= len(data):
                positions = f"name a position from 0 to {len(data) - 1}, not {shorten(repr(part), 100)}"
                raise ConfigError([f"{source}: {container} is a list of {len(data)}; {positions}"])
            # The shorthand `- random` has no parameters to set: write it out first.
            if not last and isinstance(data[part], str):
                data[part] = {"type": data[part]}
        elif isinstance(data, dict):
            part = str(part)
            if not last and not isinstance(data.get(part), (dict, list)):
                data[part] = {}
        else:
            raise ConfigError([f"{source}: {container} is {data!r}, which has nothing inside"])
        if last:
            data[part] = value
        else:
            data = data[part]
