"""Arrays: types by the dtype of their elements, read-only fields of dataclasses, indexing of compressed sparse rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]  # of users or items: positions in a vocabulary
Flags: TypeAlias = npt.NDArray[np.bool_]
Factors: TypeAlias = npt.NDArray[np.floating[Any]]  # rows of users or items

_BLOCK_ENTRIES = 2**16  # whose temporaries stay in the cache
NO_ITEM = -1  # the code in the places of a list that has no item there


def described(value: Any) -> str:
    """Return the repr of a dataclass, in which arrays are described by type and shape; empty fields are left out."""
    shown = []
    for name, of_field in ((field.name, getattr(value, field.name)) for field in fields(value) if field.repr):
        if isinstance(of_field, np.ndarray):
            shown.append(f"{name}={of_field.dtype} {of_field.shape}")
        elif of_field not in (None, False, "", (), {}):
            shown.append(f"{name}={of_field!r}")
    return f"{type(value).__name__}({', '.join(shown)})"


class ReadOnlyArrays:
    """A base of frozen dataclasses whose arrays are read-only views of what was given."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if isinstance(value, np.ndarray):
                array = np.asarray(value).view()  # plain, also where it is mapped from a file
                array.flags.writeable = False
                object.__setattr__(self, name, array)

    __repr__ = described

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # a pickle forgets that arrays are read-only


def on_one_thread() -> Any:
    """Return a context in which products of matrices run on one thread.

    On several, the last bit depends on their number, and they wait for each other longer than small products take.
    NumPy's library is looked up once: ``models.threads.one_blas_thread`` also finds those that are loaded later, which
    takes 2 ms each time.
    """
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def row_entries(indptr: Ints, rows: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """Return the positions of the entries of some compressed sparse rows, and the index in ``rows`` of each: int64."""
    start = indptr[rows]
    counts = indptr[rows + 1] - start
    row = np.repeat(np.arange(len(rows)), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(row)) + np.repeat(start - before, counts), row


def row_blocks(indptr: Ints) -> Iterator[tuple[int, int]]:
    """Yield the first row, and the one behind the last, of blocks of compressed sparse rows, none without entries."""
    first = np.searchsorted(indptr, np.arange(0, indptr[-1], _BLOCK_ENTRIES))
    for low, high in pairwise(np.unique([*first, len(indptr) - 1]).tolist()):
        if indptr[low] < indptr[high]:
            yield low, high


def search(known: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> tuple[Ints, Flags]:
    """Return the position of each value in ascending ones, and whether it is there: int64, bool."""
    if not len(known):
        return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
    position = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return position, known[position] == wanted


def position_in_row(row: npt.NDArray[np.integer[Any]], n_rows: int) -> Ints:
    """Return the position of each entry within its row, from 0; rows are ascending."""
    counts = np.bincount(row, minlength=n_rows)
    return np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
