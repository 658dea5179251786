"""Eager compilation of loops: typed by their annotations, cached on disk, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeVar, get_type_hints

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from scipy import sparse

F = TypeVar("F", bound=Callable[..., object])

# Contiguous arrays that a loop reads; writable ones are accepted too.
Floats: TypeAlias = Annotated[npt.NDArray[np.float64], types.Array(types.float64, 1, "C", readonly=True)]
Floats32: TypeAlias = Annotated[npt.NDArray[np.float32], types.Array(types.float32, 1, "C", readonly=True)]
Ints: TypeAlias = Annotated[npt.NDArray[np.int64], types.Array(types.int64, 1, "C", readonly=True)]
Codes: TypeAlias = Annotated[npt.NDArray[np.int32], types.Array(types.int32, 1, "C", readonly=True)]
Matrix: TypeAlias = Annotated[npt.NDArray[np.float64], types.Array(types.float64, 2, "C", readonly=True)]
Matrix32: TypeAlias = Annotated[npt.NDArray[np.float32], types.Array(types.float32, 2, "C", readonly=True)]
MatrixInts: TypeAlias = Annotated[npt.NDArray[np.int64], types.Array(types.int64, 2, "C", readonly=True)]
# Arrays that a loop writes. A matrix is of any layout: it may be a transposed view.
FloatsOut: TypeAlias = Annotated[npt.NDArray[np.float64], types.float64[::1]]
IntsOut: TypeAlias = Annotated[npt.NDArray[np.int64], types.int64[::1]]
CodesOut: TypeAlias = Annotated[npt.NDArray[np.int32], types.int32[::1]]
Flags: TypeAlias = Annotated[npt.NDArray[np.bool_], types.boolean[::1]]
CodeRowsOut: TypeAlias = Annotated[npt.NDArray[np.int32], types.int32[:, :]]
MatrixOut: TypeAlias = Annotated[npt.NDArray[np.float64], types.float64[:, :]]
MatrixOut32: TypeAlias = Annotated[npt.NDArray[np.float32], types.float32[:, :]]


class Entries(NamedTuple):
    """A list of (id, value) entries for each user, or for each item."""

    indptr: Ints  # (n + 1,)
    other: Codes  # (m,) the ids
    value: Floats  # (m,)


class Entries32(NamedTuple):
    """``Entries`` with values of 32 bits."""

    indptr: Ints
    other: Codes
    value: Floats32


def entries_of(matrix: sparse.csr_array) -> Entries:
    """Return the entries of each row."""
    return Entries(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float64, copy=False),
    )


_SCALARS = {bool: types.boolean, int: types.int64, float: types.float64}


def compiled(function: F) -> F:
    """Compile a function without a result.

    Annotations are the aliases of this module, numbers, or NamedTuples of these. The function must unpack a NamedTuple
    by position: it receives a plain tuple, since the files of numba's cache would refer to the class by name, and could
    not be read once a new version has renamed it.
    """
    hints = get_type_hints(function, include_extras=True)
    signature: Any = types.void(*(_numba_type(hint) for name, hint in hints.items() if name != "return"))
    options: Any = {"nogil": True, "error_model": "numpy"}
    try:
        loop = numba.njit(signature, cache=True, **options)(function)
    except RuntimeError as error:
        if "cannot cache" not in str(error):
            raise
        loop = numba.njit(signature, **options)(function)  # no writable folder

    @wraps(function)
    def call(*arguments: object) -> None:
        loop(*map(_plain, arguments))

    return call  # type: ignore[return-value]


@numba.njit(nogil=True, error_model="numpy")
def kth_largest(values: Any, k: Any) -> Any:
    """Return the k-th largest value, by Hoare's quickselect; the values are reordered.

    NumPy's ``partition`` would be compiled for four seconds.
    """
    low, high, wanted = 0, len(values) - 1, len(values) - k
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            break
    return values[wanted]


def _plain(argument: object) -> object:
    """Return a NamedTuple, and those in it, as plain tuples."""
    return tuple(map(_plain, argument)) if isinstance(argument, tuple) else argument


def _numba_type(hint: Any) -> Any:
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, tuple):  # a NamedTuple
        tuple_of: Any = types.BaseTuple.from_types
        return tuple_of([_numba_type(field) for field in get_type_hints(hint, include_extras=True).values()])
    return hint.__metadata__[0]
