"""How loops are compiled: for the given types at once, kept on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba import types

__all__ = [
    "FLOATS",
    "FLOATS_2D",
    "IDS",
    "INTS",
    "INTS_2D",
    "OUT_2D",
    "OUT_FLAGS",
    "OUT_FLOATS",
    "OUT_IDS",
    "OUT_INTS",
    "OUT_KEYS",
    "WALK",
    "compiled",
]

F = TypeVar("F", bound=Callable[..., object])

# Read-only contiguous arrays, which writable ones are accepted for.
FLOATS = types.Array(types.float64, 1, "C", readonly=True)
FLOATS_2D = types.Array(types.float64, 2, "C", readonly=True)
INTS = types.Array(types.int64, 1, "C", readonly=True)
INTS_2D = types.Array(types.int64, 2, "C", readonly=True)
IDS = types.Array(types.int32, 1, "C", readonly=True)
OUT_FLOATS = types.float64[::1]
OUT_FLAGS = types.boolean[::1]
OUT_IDS = types.int32[::1]
OUT_INTS = types.int64[::1]
OUT_KEYS = types.uint64[::1]
OUT_2D = types.float64[:, :]  # of any layout: what is written may be a transposed view
# Of a walk along the neighbours: similarity, xs, their neighbours in order (indptr, other), the entries by x (indptr,
# rank, value, place), capacity, y_of, whether terms are divided, by what, min_k, what stands in otherwise, the means.
WALK = (
    FLOATS_2D,
    INTS,
    INTS,
    IDS,
    INTS,
    IDS,
    FLOATS,
    IDS,
    INTS,
    INTS,
    types.boolean,
    FLOATS,
    types.int64,
    types.float64,
    OUT_2D,
)


def compiled(*signature: object) -> Callable[[F], F]:
    """Return a decorator that compiles a function without a result for arguments of these types."""

    def decorate(function: F) -> F:
        options: Any = {"nogil": True, "error_model": "numpy"}
        signed: Any = types.void(*signature)
        try:
            loop: F = numba.njit(signed, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            loop = numba.njit(signed, **options)(function)  # there is no folder to write to
        return loop

    return decorate
