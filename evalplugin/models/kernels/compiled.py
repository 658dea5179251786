"""Compilation of loops: for the types of their annotations, cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import numba
import numpy as np
import numpy.typing as npt
from numba import types

__all__ = [
    "Flags",
    "Floats",
    "FloatsOut",
    "Ids",
    "IdsOut",
    "Ints",
    "IntsOut",
    "KeysOut",
    "Matrix",
    "MatrixInts",
    "MatrixOut",
    "compiled",
    "read_only",
]

F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T", bound=tuple[Any, ...])

# Contiguous arrays that a loop reads; as an argument of its own a writable one is accepted too.
Floats: TypeAlias = Annotated[npt.NDArray[np.float64], types.Array(types.float64, 1, "C", readonly=True)]
Ints: TypeAlias = Annotated[npt.NDArray[np.int64], types.Array(types.int64, 1, "C", readonly=True)]
Ids: TypeAlias = Annotated[npt.NDArray[np.int32], types.Array(types.int32, 1, "C", readonly=True)]
Matrix: TypeAlias = Annotated[npt.NDArray[np.float64], types.Array(types.float64, 2, "C", readonly=True)]
MatrixInts: TypeAlias = Annotated[npt.NDArray[np.int64], types.Array(types.int64, 2, "C", readonly=True)]
# Arrays that a loop writes. A matrix is of any layout: it may be a transposed view.
FloatsOut: TypeAlias = Annotated[npt.NDArray[np.float64], types.float64[::1]]
IntsOut: TypeAlias = Annotated[npt.NDArray[np.int64], types.int64[::1]]
IdsOut: TypeAlias = Annotated[npt.NDArray[np.int32], types.int32[::1]]
KeysOut: TypeAlias = Annotated[npt.NDArray[np.uint64], types.uint64[::1]]
Flags: TypeAlias = Annotated[npt.NDArray[np.bool_], types.boolean[::1]]
MatrixOut: TypeAlias = Annotated[npt.NDArray[np.float64], types.float64[:, :]]

_SCALARS = {bool: types.boolean, int: types.int64, float: types.float64}


def compiled(function: F) -> F:
    """Compile a function without a result; its annotations are aliases of this module, numbers or NamedTuples."""
    hints = get_type_hints(function, include_extras=True)
    signature: Any = types.void(*(_numba_type(hint) for name, hint in hints.items() if name != "return"))
    options: Any = {"nogil": True, "error_model": "numpy"}
    try:
        loop: F = numba.njit(signature, cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        loop = numba.njit(signature, **options)(function)  # there is no folder to write to
    return loop


def read_only(arguments: T) -> T:
    """Return a NamedTuple with views of its arrays that are as its annotations say: contiguous and read-only."""
    values = [np.ascontiguousarray(v).view() if isinstance(v, np.ndarray) else v for v in arguments]
    for value in values:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    return type(arguments)(*values)


def _numba_type(hint: Any) -> Any:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if hasattr(hint, "_fields"):
        fields = tuple(_numba_type(field) for field in get_type_hints(hint, include_extras=True).values())
        tuple_of: Any = types.BaseTuple.from_types
        return tuple_of(fields, hint)
    return hint.__metadata__[0]
