"""Grids of parameters: every combination of values is a model of its own."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

from evalplugin.config.schema import ModelSpec

_MISSING = object()


def points_of(spec: ModelSpec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the chosen values of each point of a model's grid; of a model without one the model itself."""
    for point in itertools.product(*spec.grid.values()):
        chosen = dict(zip(spec.grid, point, strict=True))
        label = ", ".join(
            f"{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in chosen.items()
        )
        yield f"{spec.name}({label})" if chosen else spec.name, chosen


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
