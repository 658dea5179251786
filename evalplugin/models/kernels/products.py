"""Products of sparse matrices: the k largest entries of each row, and dense rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from evalplugin.base.arrays import NO_ITEM, Codes, Floats, Ints
from evalplugin.data import Rows
from evalplugin.models.kernels import compiled as nb
from evalplugin.models.threads import for_ranges

_ROWS = 64  # rows at a time
_PLACES = 4  # entries, or groups of entries, from which each of the k is selected
_SHARE = 8  # a row of lists with products for this part of the columns takes less time if all are looked at


class Divisor(NamedTuple):
    """Divisor of the product p of row r and column c: own p + row_r + column_c + row_factor_r column_factor_c."""

    own: float
    row: nb.Floats  # (n,) each
    column: nb.Floats
    row_factor: nb.Floats
    column_factor: nb.Floats

    @classmethod
    def of(
        cls,
        n: int,
        own: float = 0.0,
        row: Floats | float = 0.0,
        column: Floats | float = 0.0,
        row_factor: Floats | float = 1.0,
        column_factor: Floats | float = 1.0,
    ) -> Divisor:
        """Return the divisor of numbers or arrays, of a square product of ``n`` rows; 1 if none is given."""

        def filled(value: Floats | float) -> Floats:
            return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.float64), n))

        return cls(
            float(own),
            filled(row),
            filled(column),
            filled(row_factor),
            filled(column_factor),
        )


class _Factors(NamedTuple):
    """Two matrices to multiply, by their rows."""

    left: nb.Entries
    right: nb.Entries


class _Top(NamedTuple):
    """The largest entries of some rows of a product, to be written one row behind the other."""

    counts: nb.IntsOut  # (rows,)
    column: nb.CodesOut
    value: nb.FloatsOut


class _Excluded(NamedTuple):
    """Columns that are not listed, by row."""

    indptr: nb.Ints
    column: nb.Codes


class _Ties(NamedTuple):
    """The place of each column among equal ones, and the columns in the order of their places."""

    rank: nb.Ints  # (n_columns,) each
    order: nb.Codes


class _Lists(NamedTuple):
    """The lists of some rows, to be written: (rows, n) each."""

    column: nb.CodeRowsOut
    value: nb.MatrixOut


def top_products(
    left: sparse.csr_array, right: sparse.csr_array, k: int, divisor: Divisor | None = None
) -> sparse.csr_array:
    """Return the k largest entries of each row of the square ``left @ right``, divided; of equal ones the first.

    Entries of the diagonal and zeros are left out. The whole product is never in memory. A sum runs over the columns of
    ``left`` in their order, so that no bit depends on the number of threads.
    """
    n_rows, n_columns = left.shape[0], right.shape[1]
    k = max(1, min(k, n_columns))
    divisor = Divisor.of(n_rows) if divisor is None else divisor
    factors = _Factors(nb.entries_of(left), nb.entries_of(right))
    parts: list[tuple[Codes, Floats]] = [(np.empty(0, dtype=np.int32), np.empty(0))] * -(-n_rows // _ROWS)
    indptr = np.zeros(n_rows + 1, dtype=np.int64)

    def some(start: int, stop: int) -> None:
        column, value = np.empty((stop - start) * k, dtype=np.int32), np.empty((stop - start) * k)
        counts = np.zeros(stop - start, dtype=np.int64)
        _top_rows(start, stop, factors, k, divisor, _Top(counts, column, value))
        indptr[start + 1 : stop + 1] = counts
        size = counts.sum()
        parts[start // _ROWS] = column[:size].copy(), value[:size].copy()

    for_ranges(some, n_rows, _ROWS)
    columns, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return with_small_indices(sparse.csr_array((values, columns, indptr.cumsum()), shape=(n_rows, n_columns)))


def with_small_indices(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with indices of 32 bits, if its entries are few enough: the loops need no copy of them."""
    if matrix.nnz < 2**31:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix


def dense_product(left: sparse.csr_array, rows: Codes, right: sparse.csr_array) -> Floats:
    """Return ``left[rows] @ right``: float64 (len(rows), n_columns); a row does not depend on the others."""
    product = np.empty((len(rows), right.shape[1]))

    def some(start: int, stop: int) -> None:
        product[start:stop] = (left[rows[start:stop]] @ right).toarray()

    for_ranges(some, len(rows), _ROWS)
    return product


def top_of_product(
    left: sparse.csr_array,
    rows: Codes,
    right: sparse.csr_array,
    n: int,
    excluded: Rows | None,
    ties: Ints | None,
) -> tuple[Codes, Floats]:
    """Return the n best columns of each row of ``left[rows] @ right``, as ``select_top_n`` does of ``dense_product``.

    Only the columns that a row meets are looked at, and zeros where these are fewer than n.

    Args:
        left, right: Matrices without negative entries.
        rows: Numbers of rows of ``left``.
        n: Length of the lists.
        excluded: Columns that are not listed, by row of ``left``.
        ties: int64 (n_columns,) the place of each column among equal ones; None: in order.
    """
    n_columns = right.shape[1]
    column, value = np.full((len(rows), n), NO_ITEM, dtype=np.int32), np.full((len(rows), n), np.nan)
    factors, asked = _Factors(nb.entries_of(left), nb.entries_of(right)), rows.astype(np.int64)
    rank = np.arange(n_columns) if ties is None else ties
    places = _Ties(rank, np.argsort(rank).astype(np.int32))
    skipped = (
        _Excluded(np.zeros(left.shape[0] + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        if excluded is None
        else _Excluded(excluded.indptr, excluded.item)
    )

    def some(start: int, stop: int) -> None:
        lists = _Lists(column[start:stop], value[start:stop])
        _list_rows(asked[start:stop], factors, skipped, places, lists)

    for_ranges(some, len(rows), _ROWS)
    return column, value


@numba.njit(nogil=True, error_model="numpy")
def _multiply(row: Any, turn: Any, factors: Any, left_out: Any, many: Any, work: Any) -> Any:
    """Multiply a row of one matrix by another; write columns and sums, zeros for those ``left_out``; return how many.

    The columns are all if there are more than ``many`` products to add, else those that the row meets, in the order in
    which it does. ``turn`` is another for each call.
    """
    left, right = factors
    a_indptr, a_column, a_value = left
    b_indptr, b_column, b_value = right
    sums, last, column, total = work
    n_columns, n_products = len(sums), 0
    for entry in range(a_indptr[row], a_indptr[row + 1]):
        n_products += b_indptr[a_column[entry] + 1] - b_indptr[a_column[entry]]
    if n_products > many:
        for entry in range(a_indptr[row], a_indptr[row + 1]):
            factor, middle = a_value[entry], a_column[entry]
            for other in range(b_indptr[middle], b_indptr[middle + 1]):
                sums[b_column[other]] += factor * b_value[other]
        for c in left_out:
            sums[c] = 0.0
        for c in range(n_columns):
            column[c] = c
            total[c] = sums[c]
            sums[c] = 0.0
        return n_columns
    n_met = 0
    for entry in range(a_indptr[row], a_indptr[row + 1]):
        factor, middle = a_value[entry], a_column[entry]
        for other in range(b_indptr[middle], b_indptr[middle + 1]):
            c = b_column[other]
            sums[c] += factor * b_value[other]
            if last[c] != turn:
                last[c] = turn
                column[n_met] = c
                n_met += 1
    for c in left_out:
        sums[c] = 0.0
    for place in range(n_met):
        total[place] = sums[column[place]]
        sums[column[place]] = 0.0
    return n_met


@nb.compiled
def _top_rows(
    start: int,
    stop: int,
    factors: _Factors,
    k: int,
    divisor: Divisor,
    top: _Top,
) -> None:
    counts, column, value = top
    own, row_sum, column_sum, row_factor, column_factor = divisor
    n = len(column_sum)
    met, sums = np.empty(n, dtype=np.int32), np.empty(n)
    work = np.zeros(n), np.full(n, -1, dtype=np.int32), met, sums
    found, quotient = np.empty(n, dtype=np.int32), np.empty(n)
    itself = np.empty(1, dtype=np.int32)
    size = 0
    for row in range(start, stop):
        itself[0] = row
        n_met = _multiply(row, row, factors, itself, n, work)
        low, n_found, limit = -np.inf, 0, _PLACES * k
        for place in range(n_met):
            c, total = met[place], sums[place]
            if total == 0.0:
                continue
            divided = total / (
                own * total + row_sum[row] + column_sum[c] + row_factor[row] * column_factor[c]
            )
            if divided < low:
                continue
            found[n_found] = c
            quotient[n_found] = divided
            n_found += 1
            if n_found > limit:
                low = np.partition(quotient[:n_found], n_found - k)[n_found - k]
                kept = 0
                for other in range(n_found):
                    if quotient[other] >= low:
                        found[kept] = found[other]
                        quotient[kept] = quotient[other]
                        kept += 1
                n_found, limit = kept, kept + _PLACES * k
        first = size
        if n_found > k:
            low = np.partition(quotient[:n_found], n_found - k)[n_found - k]
            lowest = np.sort(found[:n_found][quotient[:n_found] == low])
        for place in range(n_found):
            if n_found <= k or quotient[place] > low:
                column[size] = found[place]
                value[size] = quotient[place]
                size += 1
        if n_found > k:
            for place in range(k - (size - first)):
                column[size] = lowest[place]
                value[size] = low
                size += 1
        counts[row - start] = size - first


@numba.njit(nogil=True, error_model="numpy")
def _keep_best(column: Any, value: Any, size: Any, k: Any, best: Any) -> Any:
    """Move the entries above zero that can be among the k largest to the front, in order; return how many.

    The k-th largest of the maxima of disjoint groups is a bound: k entries reach it, and few others do.
    """
    low = 0.0
    if size > k:
        n_groups = min(size, _PLACES * k | 1)
        for group in range(n_groups):
            best[group] = value[group]
        for start in range(n_groups, size - n_groups + 1, n_groups):
            for group in range(n_groups):
                best[group] = max(best[group], value[start + group])
        low = np.partition(best[:n_groups], n_groups - k)[n_groups - k]
    kept = 0
    # Branchless, as branches would be unpredictable.
    for place in range(size):
        entry = value[place]
        column[kept] = column[place]
        value[kept] = entry
        kept += entry >= low and entry > 0.0
    return kept


@nb.compiled
def _list_rows(
    rows: nb.Ints,
    factors: _Factors,
    excluded: _Excluded,
    ties: _Ties,
    lists: _Lists,
) -> None:
    skipped_start, skipped = excluded
    rank, order = ties
    column, value = lists
    n_columns, n = len(rank), column.shape[1]
    found, total = np.empty(n_columns, dtype=np.int32), np.empty(n_columns)
    work = np.zeros(n_columns), np.full(n_columns, -1, dtype=np.int32), found, total
    maxima = np.empty(n_columns)
    done = np.full(n_columns, -1, dtype=np.int32)  # the last row that lists no zero of a column
    for place in range(len(rows)):
        left_out = skipped[skipped_start[rows[place]] : skipped_start[rows[place] + 1]]
        n_found = _multiply(rows[place], place, factors, left_out, n_columns // _SHARE, work)
        n_found = _keep_best(found, total, n_found, n, maxima)
        size = min(n, n_found)
        best = np.argsort(-total[:n_found])
        for position in range(min(size, n_found - 1)):
            if total[best[position]] == total[best[position + 1]]:
                in_order = np.argsort(rank[found[:n_found]])
                best = in_order[np.argsort(-total[:n_found][in_order], kind="mergesort")]
                break
        for position in range(size):
            column[place, position] = found[best[position]]
            value[place, position] = total[best[position]]
        if size == n:
            continue
        for c in left_out:
            done[c] = place
        for c in found[:size]:
            done[c] = place
        for c in order:
            if size == n:
                break
            if done[c] != place:
                column[place, size] = c
                value[place, size] = 0.0
                size += 1
