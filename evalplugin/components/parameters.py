"""Parameters of components, which are the fields of their dataclasses: described, checked and set."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from evalplugin.base.errors import KeyPath, ParameterError, Problem, did_you_mean
from evalplugin.base.secrets import redact_values

T = TypeVar("T")

_MAPPING_KINDS = ("model_type", "model_attributes_type", "dataclass_type", "dict_type")
_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "min_length": "length >="}


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One parameter as shown to users: dotted name, type, default (``None`` with ``required``), description."""

    name: str
    type: str
    default: object
    required: bool
    description: str


def build(cls: type[T], params: Mapping[str, Any], *, owner: str) -> T:
    """Return an instance of the dataclass ``cls`` made from ``params``.

    Types are strict, as in JSON: ``"3"`` is not an integer and ``true`` is not a number, but ``1`` is a float.
    An ``InitVar`` of the class takes an object from Python, handed on as it is.

    Raises:
        ParameterError: Unknown, missing or wrong parameters; every one of them is listed.
    """
    objects = {name: params[name] for name in _object_names(cast(type, cls)) if name in params}
    try:
        text = to_json({name: value for name, value in params.items() if name not in objects})
    except PydanticSerializationError as error:
        raise ParameterError([Problem((), f"parameters of {owner} must be plain values: {error}")]) from None
    try:
        checked = _model_of(cast(type, cls)).model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ParameterError(problems_of(error, cls, params, noun="parameter", owner=owner)) from None
    try:
        return cls(**{f.name: getattr(checked, _name(f)) for f in _init_fields(cls)}, **objects)
    except ValueError as error:  # a check across parameters in the component's own __post_init__
        raise ParameterError([Problem((), str(error))]) from None


def as_mapping(component: object) -> dict[str, Any]:
    """Return all parameters of a component as plain JSON values, nested dataclasses as mappings.

    A default that is written out is the default to the last character, as random streams are named by the parameters.
    """
    fields = _init_fields(type(component))
    values = {f: getattr(component, f.name) for f in fields}
    return {
        _name(f): to_jsonable_python(f.default if isinstance(value, float) and value == f.default else value)
        for f, value in values.items()
    }


def parameters_of(cls: type, prefix: str = "") -> list[Parameter]:
    """Return the parameters of a component in the order of its fields, each followed by its nested options."""
    parameters = []
    for name, info in _model_of(cls).model_fields.items():
        is_nested = dataclasses.is_dataclass(info.annotation)
        parameter = Parameter(
            name=f"{prefix}{name}",
            type="mapping" if is_nested else _type_text(info),
            default=""
            if is_nested
            else None
            if info.is_required()
            else info.get_default(call_default_factory=True),
            required=info.is_required(),
            description=info.description or "",
        )
        parameters.append(parameter)
        if is_nested:
            parameters += parameters_of(cast(type, info.annotation), f"{prefix}{name}.")
    return parameters


def schema_of(cls: type) -> dict[str, Any]:
    """Return the JSON Schema of a component's parameters, closed to unknown names."""
    return _model_of(cls).model_json_schema()


def problems_of(
    error: ValidationError, cls: type, value: object, *, noun: str, owner: str = ""
) -> list[Problem]:
    """Translate pydantic's errors into problems with the allowed values or the nearest match.

    Args:
        error: The errors of a value.
        cls: The class that the value was checked by.
        value: The value.
        noun: ``parameter`` or ``key``.
        owner: The component that has the parameters.
    """
    of = f" of {owner}" if owner else ""
    problems: dict[KeyPath, list[Problem]] = {}
    for item in error.errors(include_url=False):
        path = _path_into(value, item["loc"])
        kind = item["type"]
        key = str(path[-1]) if path else ""
        given = redact_values({key: item["input"]})[key]  # no message shows a password
        at_key = False
        if kind in ("extra_forbidden", "unexpected_keyword_argument"):
            allowed = list(_fields(class_in(_annotation_at(cls, path[:-1])) or cls) or ())
            near = did_you_mean(str(path[-1]), allowed) or f"; it takes no {noun}s"
            message = f"unknown {noun} {path[-1]!r}{of}{near}"
            at_key = True
        elif kind in ("missing", "missing_argument"):
            path = (*path, str(item["loc"][-1])) if not path or path[-1] != item["loc"][-1] else path
            message = f"missing {noun} {path[-1]!r}{of}"
        elif kind == "literal_error":
            at_key = item["loc"][-1] == "[key]"
            expected = item["ctx"]["expected"]
            near = did_you_mean(str(given), re.findall(r"'([^']*)'", expected), noun=None)
            message = f"must be {expected}, not {given!r}{near}"
        elif kind in ("value_error", "assertion_error"):
            message = item["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
        elif kind in ("too_short", "string_too_short"):
            message = "must not be empty"
        else:
            keys = _keys_text(_annotation_at(cls, path)) if kind in _MAPPING_KINDS else ""
            message = f"{_yaml_wording(item['msg'])}{keys}, not {given!r}"
        problems.setdefault(path, []).append(Problem(path, message, at_key))
    # A union reports an error for each alternative: errors at one path make one problem. Where the value has the form
    # of one alternative, the error lies further inside, and errors of the other forms are left out.
    return [
        same[0] if len(same) == 1 else Problem(path, _join([p.message for p in same]), same[0].at_key)
        for path, same in problems.items()
        if not any(len(other) > len(path) and other[: len(path)] == path for other in problems)
    ]


def _yaml_wording(message: str) -> str:
    for theirs, ours in (
        ("Input should be", "must be"),
        ("a valid integer", "an integer"),
        ("a valid dictionary", "a mapping"),
        ("an object", "a mapping"),
        ("a valid array", "a list"),
        ("a valid boolean", "true or false"),
        ("a valid string", "text"),
        ("a valid ", "a "),
    ):
        message = message.replace(theirs, ours, 1)
    return re.sub(r" or instance of \w+", "", message)


def _join(messages: list[str]) -> str:
    # A validator of ours runs where the form is right: errors of the other forms are then left out.
    if own := [message for message in messages if ", not " not in message]:
        return own[0]
    heads = [m.rsplit(", not ", 1)[0] for m in messages]
    tail = messages[-1].rsplit(", not ", 1)[-1]
    heads = [heads[0], *(h.removeprefix("must be ") for h in heads[1:])]
    return f"{' or '.join(dict.fromkeys(heads))}, not {tail}"


def _fields(cls: object) -> dict[str, Any] | None:
    """Return the annotations of a class by the names that users write; None for what has no fields."""
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        cls = _model_of(cls)
    if not (isinstance(cls, type) and issubclass(cls, BaseModel)):
        return None
    return {info.alias or name: info.annotation for name, info in cls.model_fields.items()}


def _name(field: dataclasses.Field[Any]) -> str:
    """Return the parameter of a field: ``from_`` is called ``from``, as Python keeps that word for itself."""
    return field.name.removesuffix("_")


def _init_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(cls) if f.init]


@functools.cache
def _object_names(cls: Any) -> list[str]:
    return [
        name for name, hint in typing.get_type_hints(cls).items() if isinstance(hint, dataclasses.InitVar)
    ]


@functools.cache
def _model_of(cls: Any) -> type[BaseModel]:
    """Return pydantic's model of the parameters of a dataclass."""
    hints = typing.get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {}
    for field in _init_fields(cls):
        default: Any = ... if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = Field(default_factory=field.default_factory)
        fields[_name(field)] = (hints[field.name], default)
    config = ConfigDict(
        extra="forbid",
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,  # to describe parameters takes no validator
    )
    return create_model(cls.__name__, __config__=config, **fields)


def _type_text(info: FieldInfo) -> str:
    text = _annotation_text(info.annotation)
    stated: dict[str, object] = {}
    for item in filter(dataclasses.is_dataclass, info.metadata):
        stated |= dataclasses.asdict(cast(Any, item))
    bounds = [f"{sign} {stated[name]}" for name, sign in _BOUNDS.items() if name in stated]
    return f"{text} {', '.join(bounds)}" if bounds else text


def _annotation_text(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return " | ".join(json.dumps(a) if isinstance(a, str) else str(a) for a in arguments)
    if origin is typing.Annotated:
        return _type_text(FieldInfo.from_annotation(annotation))
    if origin is dict:
        key, value = arguments
        return f"mapping of {_annotation_text(key)} to {_annotation_text(value)}"
    if origin in (typing.Union, type(int | str)):
        return " | ".join("null" if a is type(None) else _annotation_text(a) for a in arguments)
    if annotation in (int, float, str, bool):
        return {int: "integer", float: "number", str: "text", bool: "true | false"}[annotation]
    if arguments:
        return str(annotation).replace("typing.", "")
    if dataclasses.is_dataclass(annotation):
        return "mapping"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _path_into(value: object, loc: KeyPath) -> KeyPath:
    """Return the part of pydantic's location that leads into the value (unions and tags add parts of their own)."""
    path: list[str | int] = []
    for part in loc:
        try:
            value = value[part]  # type: ignore[index]
        except (KeyError, IndexError, TypeError):
            continue
        path.append(part)
    return tuple(path)


def _annotation_at(cls: Any, path: KeyPath) -> Any:
    """Return the annotation of the field that a path leads to, looking through unions, lists and mappings."""
    annotation: Any = cls
    for part in path:
        annotation = next(_step(annotation, part), None)
    return annotation


def _step(annotation: Any, part: str | int) -> Iterator[Any]:
    if (fields := _fields(annotation)) is not None:
        if part in fields:
            yield fields[str(part)]
    elif typing.get_origin(annotation) is dict:
        yield typing.get_args(annotation)[1]
    else:
        for argument in typing.get_args(annotation):
            yield argument if isinstance(part, int) else next(_step(argument, part), None)


def class_in(annotation: Any) -> type | None:
    """Return the class with fields that an annotation is, or has among its alternatives."""
    if _fields(annotation) is not None:
        return cast(type, annotation)
    return next(filter(None, map(class_in, typing.get_args(annotation))), None)


def _keys_text(annotation: Any) -> str:
    """Return the keys of the mapping that an annotation asks for, as the end of a message; empty if they are free."""
    is_named = typing.get_origin(annotation) is dict
    cls = class_in(typing.get_args(annotation)[1] if is_named else annotation)
    if cls is None:
        return ""
    is_open = issubclass(cls, BaseModel) and cls.model_config.get("extra") == "allow"
    keys = ", ".join([*(_fields(cls) or ()), *(["..."] if is_open else [])])
    return f" of names, each with the keys {keys}" if is_named else f" with the keys {keys}"
