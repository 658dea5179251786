"""Dense products of sparse matrices: of their columns with each other, and of their rows with weights."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from scipy import sparse

from evalplugin.base.arrays import Factors
from evalplugin.models.kernels import compiled as nb
from evalplugin.models.kernels.products import entries_of
from evalplugin.models.threads import for_ranges

_GRAM_ROWS = 64  # a thread computes at a time
_ROWS = 256  # of sparse products, and of copies, at a time
_WIDTH = 64  # columns of weights at a time: those of a few thousand rows fit in a processor's cache
_TILES = 4  # a thread takes at a time
_READS = 4  # of each weight that make up for a copy


def gram_of(matrix: sparse.csr_array, dtype: str = "float64") -> npt.NDArray[np.floating[Any]]:
    """Return the products of all columns with all columns: (n_columns, n_columns).

    Sums are float64 and run over the rows in order. ``matrix`` has each row's columns in ascending order.
    """
    n = matrix.shape[1]
    gram = np.empty((n, n), dtype=dtype)
    columns, rows = entries_of(matrix.T.tocsr()), entries_of(matrix)

    def some(start: int, stop: int) -> None:
        products = np.zeros((stop - start, stop))
        _multiply_columns(np.arange(start, stop), columns, rows, products)
        gram[start:stop, :stop] = products

    for_ranges(some, n, _GRAM_ROWS)
    mirror(gram)
    return gram


def column_products(matrix: sparse.csr_array, which: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """Return the products of some columns with all, as ``gram_of`` has them: float32 (len(which), n_columns)."""
    whole = np.empty((len(which), matrix.shape[1]), dtype=np.float32)
    columns, rows = entries_of(matrix.T.tocsr()), entries_of(matrix)

    def some(start: int, stop: int) -> None:
        products = np.zeros((stop - start, matrix.shape[1]))
        _multiply_columns(which[start:stop], columns, rows, products)
        whole[start:stop] = products

    for_ranges(some, len(which), _GRAM_ROWS)
    return whole


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
        multiply(start, stop, indptr, other, rows.data, weights, columns, out)

    for_ranges(some_columns, weights.shape[1], _TILES * _WIDTH)


@nb.compiled
def _multiply_columns(which: nb.Ints, columns: nb.Entries, rows: nb.Entries, products: nb.MatrixOut) -> None:
    """Write the products of some columns with the first columns, as many as ``products`` has."""
    c_indptr, c_row, c_value = columns
    r_indptr, r_column, r_value = rows
    n_columns = products.shape[1]
    for place in range(len(which)):
        for entry in range(c_indptr[which[place]], c_indptr[which[place] + 1]):
            row, factor = c_row[entry], c_value[entry]
            for other in range(r_indptr[row], r_indptr[row + 1]):
                if r_column[other] >= n_columns:
                    break
                products[place, r_column[other]] += factor * r_value[other]


@numba.njit(nogil=True, error_model="numpy")
def _multiply(
    start: Any, stop: Any, indptr: Any, other: Any, value: Any, weights: Any, columns: Any, out: Any
) -> None:
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
    indptr: nb.Ints,
    other: nb.Codes,
    value: nb.Floats,
    weights: nb.Matrix,
    columns: nb.Ints,
    out: nb.MatrixOut,
) -> None:
    _multiply(start, stop, indptr, other, value, weights, columns, out)


@nb.compiled
def _multiply_rows32(
    start: int,
    stop: int,
    indptr: nb.Ints,
    other: nb.Codes,
    value: nb.Floats32,
    weights: nb.Matrix32,
    columns: nb.Ints,
    out: nb.MatrixOut32,
) -> None:
    _multiply(start, stop, indptr, other, value, weights, columns, out)
