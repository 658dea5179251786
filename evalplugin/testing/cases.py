"""Assertions, components and small data for the contract suites."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import is_dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Ints
from evalplugin.components.parameters import as_mapping, build
from evalplugin.components.registry import Component, Registry
from evalplugin.data import Interactions

N_USERS, N_ITEMS = 60, 25

T = TypeVar("T", bound=Component)


def require(holds: bool | np.bool_, message: str) -> None:
    """Raise AssertionError with the message unless a rule holds."""
    if not holds:
        raise AssertionError(message)


def created(registry: Registry[T], component: str | Callable[..., T], params: Mapping[str, Any]) -> T:
    """Return a new component, given its registered name, its class, or any callable that returns it."""
    if isinstance(component, str):
        return registry.create(component, params)
    made = component(**params)
    registry.adopt(type(made))
    return made


def require_plain(component: object, params: Collection[str] = ()) -> None:
    """Raise AssertionError unless the parameters survive serialisation; not where one of ``params`` has no field."""
    if is_dataclass(component):
        written = as_mapping(component)
        if written.keys() >= set(params):  # Python objects cannot be serialised
            again = as_mapping(build(type(component), written, owner=type(component).__name__))
            require(again == written, "its parameters change when serialised and read back")


def interactions(
    user: npt.NDArray[Any], item: npt.NDArray[Any], rating: npt.NDArray[Any], timestamp: Ints | None = None
) -> Interactions:
    """Return interactions of ``N_USERS`` users with ``N_ITEMS`` items, whose raw ids are their codes.

    Args:
        user: Codes (m,).
        item: Codes (m,).
        rating: Ratings (m,).
        timestamp: Times (m,); None: no times.
    """
    return Interactions(
        user=user.astype(np.int32),
        item=item.astype(np.int32),
        rating=rating.astype(np.float32),
        timestamp=timestamp,
        users=np.arange(N_USERS),
        items=np.arange(N_ITEMS),
    )
