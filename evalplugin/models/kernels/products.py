"""Products of sparse matrices: the k largest entries of each row, and dense rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from evalplugin.base.arrays import NO_ITEM, Codes, Floats, Ints
from evalplugin.data import Rows
from evalplugin.models.kernels import compiled as nb
from evalplugin.models.threads import for_ranges

_ROWS = 64  # rows at a time
_PLACES = 4  # entries that are kept for each of the k until the best are selected


class Divisor(NamedTuple):
    """Divisor of the product p of row r and column c: own p + row_r + column_c + row_factor_r column_factor_c."""

    own: float
    row: nb.Floats  # (n_rows,)
    column: nb.Floats  # (n_columns,)
    row_factor: nb.Floats  # (n_rows,)
    column_factor: nb.Floats  # (n_columns,)

    @classmethod
    def of(
        cls,
        n_rows: int,
        n_columns: int,
        own: float = 0.0,
        row: Floats | float = 0.0,
        column: Floats | float = 0.0,
        row_factor: Floats | float = 1.0,
        column_factor: Floats | float = 1.0,
    ) -> Divisor:
        """Return the divisor of numbers or arrays; 1 if none is given."""

        def filled(value: Floats | float, n: int) -> Floats:
            return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=np.float64), n))

        return cls(
            float(own),
            filled(row, n_rows),
            filled(column, n_columns),
            filled(row_factor, n_rows),
            filled(column_factor, n_columns),
        )


def top_products(
    left: sparse.csr_array, right: sparse.csr_array, k: int, divisor: Divisor | None = None
) -> sparse.csr_array:
    """Return the k largest entries of each row of the square ``left @ right``, divided; of equal ones the first.

    Entries of the diagonal and zeros are left out. The whole product is never in memory. A sum runs over the columns of
    ``left`` in their order, so that no bit depends on the number of threads.
    """
    n_rows, n_columns = left.shape[0], right.shape[1]
    k = max(1, min(k, n_columns))
    divisor = Divisor.of(n_rows, n_columns) if divisor is None else divisor
    a, b = entries_of(left), entries_of(right)
    parts: list[tuple[Codes, Floats]] = [(np.empty(0, dtype=np.int32), np.empty(0))] * -(-n_rows // _ROWS)
    indptr = np.zeros(n_rows + 1, dtype=np.int64)

    def some(start: int, stop: int) -> None:
        column, value = np.empty((stop - start) * k, dtype=np.int32), np.empty((stop - start) * k)
        counts = np.zeros(stop - start, dtype=np.int64)
        _top_rows(start, stop, a, b, k, divisor, counts, column, value)
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
    product = np.zeros((len(rows), right.shape[1]))
    a, b, asked = entries_of(left), entries_of(right), rows.astype(np.int64)

    def some(start: int, stop: int) -> None:
        _add_rows(asked[start:stop], a, b, product[start:stop])

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
    a, b, asked = entries_of(left), entries_of(right), rows.astype(np.int64)
    rank = np.arange(n_columns) if ties is None else ties
    order = np.argsort(rank).astype(np.int32)
    skipped = (
        (np.zeros(left.shape[0] + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
        if excluded is None
        else (excluded.indptr, excluded.item)
    )

    def some(start: int, stop: int) -> None:
        _list_rows(asked[start:stop], a, b, *skipped, rank, order, column[start:stop], value[start:stop])

    for_ranges(some, len(rows), _ROWS)
    return column, value


def entries_of(matrix: sparse.csr_array) -> nb.Entries:
    """Return the entries of each row."""
    return nb.Entries(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float64, copy=False),
    )


@nb.compiled
def _top_rows(
    start: int,
    stop: int,
    left: nb.Entries,
    right: nb.Entries,
    k: int,
    divisor: Divisor,
    counts: nb.IntsOut,
    column: nb.CodesOut,
    value: nb.FloatsOut,
) -> None:
    a_indptr, a_column, a_value = left
    b_indptr, b_column, b_value = right
    own, row_sum, column_sum, row_factor, column_factor = divisor
    n = len(column_sum)
    sums = np.zeros(n)
    last = np.full(
        n, -1, dtype=np.int64
    )  # row that has met a column; not kept for rows that meet most of them
    met = np.empty(n, dtype=np.int32)
    found, quotient = np.empty(n, dtype=np.int32), np.empty(n)
    size = 0
    for row in range(start, stop):
        n_products = 0
        for entry in range(a_indptr[row], a_indptr[row + 1]):
            n_products += b_indptr[a_column[entry] + 1] - b_indptr[a_column[entry]]
        all_columns, n_met = n_products > n, 0
        for entry in range(a_indptr[row], a_indptr[row + 1]):
            factor, first, end = a_value[entry], b_indptr[a_column[entry]], b_indptr[a_column[entry] + 1]
            if all_columns:
                for other in range(first, end):
                    sums[b_column[other]] += factor * b_value[other]
                continue
            for other in range(first, end):
                c = b_column[other]
                sums[c] += factor * b_value[other]
                if last[c] != row:
                    last[c] = row
                    met[n_met] = c
                    n_met += 1
        low, n_found, limit = -np.inf, 0, _PLACES * k
        for place in range(n if all_columns else n_met):
            c = np.int32(place) if all_columns else met[place]
            total = sums[c]
            sums[c] = 0.0
            if total == 0.0 or c == row:
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


@nb.compiled
def _add_rows(rows: nb.Ints, left: nb.Entries, right: nb.Entries, product: nb.MatrixOut) -> None:
    a_indptr, a_column, a_value = left
    b_indptr, b_column, b_value = right
    for place in range(len(rows)):
        for entry in range(a_indptr[rows[place]], a_indptr[rows[place] + 1]):
            factor, middle = a_value[entry], a_column[entry]
            for other in range(b_indptr[middle], b_indptr[middle + 1]):
                product[place, b_column[other]] += factor * b_value[other]


@nb.compiled
def _list_rows(
    rows: nb.Ints,
    left: nb.Entries,
    right: nb.Entries,
    skipped_start: nb.Ints,
    skipped: nb.Codes,
    rank: nb.Ints,
    order: nb.Codes,
    column: nb.CodeRowsOut,
    value: nb.MatrixOut,
) -> None:
    a_indptr, a_column, a_value = left
    b_indptr, b_column, b_value = right
    n_columns, n = len(rank), column.shape[1]
    sums = np.zeros(n_columns)
    last = np.full(n_columns, -1, dtype=np.int32)  # the last row that has met a column
    done = np.full(
        n_columns, -1, dtype=np.int32
    )  # the last row that must not list a column, or not once more
    met = np.empty(n_columns, dtype=np.int32)
    found, total = np.empty(n_columns, dtype=np.int32), np.empty(n_columns)
    for place in range(len(rows)):
        n_products = 0
        for entry in range(a_indptr[rows[place]], a_indptr[rows[place] + 1]):
            n_products += b_indptr[a_column[entry] + 1] - b_indptr[a_column[entry]]
        all_columns, n_met = n_products > n_columns, 0
        for entry in range(a_indptr[rows[place]], a_indptr[rows[place] + 1]):
            factor, first, end = a_value[entry], b_indptr[a_column[entry]], b_indptr[a_column[entry] + 1]
            if all_columns:
                for other in range(first, end):
                    sums[b_column[other]] += factor * b_value[other]
                continue
            for other in range(first, end):
                c = b_column[other]
                sums[c] += factor * b_value[other]
                if last[c] != place:
                    last[c] = place
                    met[n_met] = c
                    n_met += 1
        for entry in range(skipped_start[rows[place]], skipped_start[rows[place] + 1]):
            done[skipped[entry]] = place
        low, n_found, limit = 0.0, 0, _PLACES * n
        for entry in range(n_columns if all_columns else n_met):
            c = np.int32(entry) if all_columns else met[entry]
            product = sums[c]
            sums[c] = 0.0
            if product == 0.0 or done[c] == place:
                continue
            done[c] = place
            if product < low:
                continue
            found[n_found] = c
            total[n_found] = product
            n_found += 1
            if n_found > limit:
                low = np.partition(total[:n_found], n_found - n)[n_found - n]
                kept = 0
                for other in range(n_found):
                    if total[other] >= low:
                        found[kept] = found[other]
                        total[kept] = total[other]
                        kept += 1
                n_found, limit = kept, kept + _PLACES * n
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
        for c in order:
            if size == n:
                break
            if done[c] != place:
                column[place, size] = c
                value[place, size] = 0.0
                size += 1
