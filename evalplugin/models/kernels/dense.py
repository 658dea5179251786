"""Dense products of sparse matrices: of their columns with each other, and of their rows with weights."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy import sparse

from evalplugin.base.arrays import Factors
from evalplugin.models.kernels import compiled as nb
from evalplugin.models.threads import for_ranges

_ROWS = 256  # at a time
_WIDTH = 64  # columns of weights at a time: those of a few thousand rows fit in a processor's cache
_TILES = 4  # a thread takes at a time
_READS = 4  # of each weight that make up for a copy


def gram_of(matrix: sparse.csr_array, dtype: str = "float64") -> npt.NDArray[np.floating[Any]]:
    """Return the products of all columns with all columns, of sums in float64 over the rows: (n_columns, n_columns)."""
    columns = matrix.T.tocsr()
    gram = np.empty((len(columns.indptr) - 1,) * 2, dtype=dtype)

    def some(start: int, stop: int) -> None:
        gram[start:stop] = (columns[start:stop] @ matrix).toarray()

    for_ranges(some, len(gram), _ROWS)
    return gram


def mirror(matrix: npt.NDArray[np.floating[Any]]) -> None:
    """Copy the entries below the diagonal of a square matrix to those above it."""

    def some(start: int, stop: int) -> None:
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
        block = matrix[start:stop, start:stop]
        above = np.triu_indices(stop - start, 1)
        block[above] = block.T[above]

    for_ranges(some, len(matrix), _ROWS)


def write_weighted(
    rows: sparse.csr_array, weights: Factors, columns: npt.NDArray[np.int64], out: Factors
) -> None:
    """Write ``rows @ weights`` into the columns of ``out``, each sum in the order of the entries of its row.

    Args:
        rows: Entries of the type of the weights.
        weights: float32 or float64 (n, m), by rows.
        columns: int64 (m,) the column of ``out`` for each of the weights.
        out: (len(rows), at least m) of the type of the weights.
    """
    if rows.nnz < _READS * len(weights):

        def some_rows(start: int, stop: int) -> None:
            out[start:stop, columns] = rows[start:stop] @ weights

        for_ranges(some_rows, len(out), _ROWS)
        return
    multiply: Any = _multiply_rows if weights.dtype == np.float64 else _multiply_rows32
    indptr, other = rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False)

    def some_columns(start: int, stop: int) -> None:
        multiply(start, stop, (indptr, other, rows.data), weights, columns, out)

    for_ranges(some_columns, weights.shape[1], _TILES * _WIDTH)


@numba.njit(nogil=True, error_model="numpy")
def _multiply(start: Any, stop: Any, rows: Any, weights: Any, columns: Any, out: Any) -> None:
    indptr, other, value = rows
    # A constant width and copied columns: loops over them are unrolled, and their rows follow each other in the cache.
    # Indices are unsigned, as signed ones would be tested for Python's negative ones.
    tile, sums = np.zeros((len(weights), _WIDTH), dtype=weights.dtype), np.empty(_WIDTH, dtype=weights.dtype)
    for begin in range(start, stop, _WIDTH):
        width = min(_WIDTH, stop - begin)
        for row in range(len(weights)):
            for c in range(width):
                tile[row, c] = weights[row, begin + c]
        for row in range(len(out)):
            for c in range(_WIDTH):
                sums[c] = 0.0
            entry, end = indptr[row], indptr[row + 1]
            while entry + 3 < end:
                f0, f1, f2, f3 = value[entry], value[entry + 1], value[entry + 2], value[entry + 3]
                i0, i1 = np.uint64(other[entry]), np.uint64(other[entry + 1])
                i2, i3 = np.uint64(other[entry + 2]), np.uint64(other[entry + 3])
                for c in range(_WIDTH):
                    sums[c] = ((sums[c] + f0 * tile[i0, c]) + f1 * tile[i1, c]) + f2 * tile[i2, c]
                    sums[c] += f3 * tile[i3, c]
                entry += 4
            while entry < end:
                f0, i0 = value[entry], np.uint64(other[entry])
                for c in range(_WIDTH):
                    sums[c] += f0 * tile[i0, c]
                entry += 1
            for c in range(width):
                out[row, columns[begin + c]] = sums[c]


@nb.compiled
def _multiply_rows(
    start: int,
    stop: int,
    rows: nb.Entries,
    weights: nb.Matrix,
    columns: nb.Ints,
    out: nb.MatrixOut,
) -> None:
    _multiply(start, stop, rows, weights, columns, out)


@nb.compiled
def _multiply_rows32(
    start: int,
    stop: int,
    rows: nb.Entries32,
    weights: nb.Matrix32,
    columns: nb.Ints,
    out: nb.MatrixOut32,
) -> None:
    _multiply(start, stop, rows, weights, columns, out)
