"""Components as a config names them, by a type, a name and parameters, and parameters under dotted keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from evalplugin.config.sections import Closed

_MISSING = object()


def in_one_line(name: str) -> str:
    """Return a name, which stands in lines of tables and messages."""
    if "\n" in name:
        raise ValueError(f"must be one line, not {name!r}")
    return name


def params_at(base: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's parameters with the chosen values set, whose keys may be dotted, as ``sim_options.name``."""
    params: dict[str, Any] = json.loads(json.dumps(base))
    for key, value in chosen.items():
        *outer, last = key.split(".")
        target: Any = params
        for part in outer:
            target = target.setdefault(part, {}) if isinstance(target, dict) else None
        if isinstance(target, dict):  # else the check of the parameters reports it
            target[last] = value
    return params


def parameter_at(params: Mapping[str, Any], key: str, otherwise: Any = None) -> Any:
    """Return the value under a dotted key, or ``otherwise`` where there is none."""
    value: Any = params
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return otherwise
        value = value[part]
    return value


def has_parameter(params: Mapping[str, Any], key: str) -> bool:
    """Return whether parameters hold a value under a dotted key."""
    return parameter_at(params, key, _MISSING) is not _MISSING


def is_related(key: str, other: str) -> bool:
    """Return whether two dotted keys are the same, or one is inside the other."""
    return key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.")


class ComponentSpec(Closed):
    """A component: a type, and a name in results. Plain text is short for its type alone."""

    type: str = Field(description="Registered type, see `evalplugin list`.", examples=["popularity"])
    name: Annotated[str, AfterValidator(in_one_line)] = Field(
        default="", min_length=1, description="Name in results; the type when left out.", examples=["shop"]
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_name(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = {"type": value}
        if isinstance(value, dict) and "name" not in value and isinstance(value.get("type"), str):
            value = {**value, "name": value["type"]}
        return value


class FilterSpec(Closed):
    """A filter of a dataset: a type and the type's own parameters. Plain text is short for its type alone."""

    model_config = ConfigDict(extra="allow")

    type: str = Field(description="Registered type, see `evalplugin list filters`.", examples=["k_core"])

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        return {"type": value} if isinstance(value, str) else value

    @property
    def name(self) -> str:
        """The type: a filter has no name of its own."""
        return self.type

    @property
    def params(self) -> dict[str, Any]:
        """The parameters."""
        return dict(self.model_extra or {})


class EngineSpec(FilterSpec):
    """Where tasks run: a type and the type's own parameters. Plain text is short for its type alone."""

    type: str = Field(description="Registered type, see `evalplugin list engines`.", examples=["local"])


class InlineSpec(ComponentSpec):
    """A dataset, split or segment: its parameters are inline, at the level of its type."""

    model_config = ConfigDict(extra="allow")

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the component."""
        return dict(self.model_extra or {})


class DatasetSpec(InlineSpec):
    """A dataset: a type, a name, the type's own parameters, and filters."""

    filters: list[FilterSpec] = Field(
        default_factory=list,
        description="Applied before the split, in this order.",
        examples=[[{"type": "k_core", "k": 5}]],
    )
