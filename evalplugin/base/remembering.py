"""Results that are needed again as long as the value they were computed from lives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

_P = ParamSpec("_P")
_First = TypeVar("_First", bound=Hashable)
_T = TypeVar("_T")


def remembered(function: Callable[Concatenate[_First, _P], _T]) -> Callable[Concatenate[_First, _P], _T]:
    """Return a function that computes each result once for a first argument, which it does not keep alive.

    The first argument is compared by identity and never changes; the others are hashable.
    """
    results: WeakKeyDictionary[_First, dict[tuple[object, ...], _T]] = WeakKeyDictionary()

    @wraps(function)
    def call(first: _First, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        of_first, key = results.setdefault(first, {}), (args, *kwargs.items())
        if key not in of_first:
            of_first[key] = function(first, *args, **kwargs)
        return of_first[key]

    return call
