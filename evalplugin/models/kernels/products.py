"""Products of sparse matrices: the k largest entries of each row, and dense rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from evalplugin.base.arrays import NO_ITEM, Codes, Floats, Ints
from evalplugin.data import Rows
from evalplugin.models.kernels import compiled as nb
from evalplugin.models.selection import lowest
from evalplugin.models.threads import for_ranges, thread_count

_ROWS = 64  # rows at a time
_PLACES = 4  # entries from which each of the k is selected
_LEAST = 5e-324  # the first number above zero

# Lists are made for tiles of columns, whose sums stay in a core's cache. Segments, the entries of a row in a tile, are
# dense if they have this part of its columns: these are added several at a time, and stay in the cache for all users.
_GROUP = 64  # columns of a tile that are looked at together
_SPARSE_TILE, _DENSE_TILE = 2**15, 2**11  # columns, where most products are in sparse or in dense rows
_DENSE_SHARE = 8
_FEW = 16  # the products of a row are few if they are less than a part of the columns
_DENSE_CELLS = 2**19  # of the dense segments of a tile, at most
_KEPT = 2**19  # entries of some lists that are kept while tiles follow


class Divisor(NamedTuple):
    """Divisor of the product p of row r and column c: own p + row_r + column_c + row_factor_r column_factor_c."""

    own: float
    row: nb.Floats  # (rows,) or (columns,) each, or longer
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
        """Return the divisor of arrays, or of numbers for ``n`` rows and columns at most; 1 if none is given."""

        def filled(value: Floats | float) -> Floats:
            given = np.asarray(value, dtype=np.float64)
            return np.ascontiguousarray(given if given.ndim else np.full(n, given))

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
    """Return the k largest entries of each row of ``left @ right``, divided; of equal ones the first.

    Entries of the diagonal and zeros are left out. The whole product is never in memory. A sum runs over the columns of
    ``left`` in their order, so that no bit depends on the number of threads.
    """
    n_rows, n_columns = left.shape[0], right.shape[1]
    k = max(1, min(k, n_columns))
    divisor = Divisor.of(max(n_rows, n_columns)) if divisor is None else divisor
    factors = _Factors(nb.entries_of(left), nb.entries_of(right))
    if (factors.right.value == factors.right.value[:1]).all():
        # Fewer bytes to read; the loop takes the first value for each entry.
        factors = _Factors(factors.left, factors.right._replace(value=factors.right.value[:1]))
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
    right.sort_indices()
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
        _list_rows(asked[start:stop], factors, skipped, places, _aligned(_SPARSE_TILE + _DENSE_CELLS), lists)
        # Sorted here, as a compiled sort takes seconds to compile. Zeros, and places without a column, are in order.
        key = np.where(lists.value > 0, -lists.value, np.arange(n))
        best = lowest(key, n, rank[lists.column])
        lists.column[:], lists.value[:] = lists.column.take(best), lists.value.take(best)

    # The more rows, the more often a dense segment is used.
    for_ranges(some, len(rows), min(-(-len(rows) // thread_count()), max(1, _KEPT // _space(n, n_columns))))
    return column, value


def _aligned(size: int) -> Floats:
    """Return zeros from the start of a line of the cache on: processors add them twice as fast."""
    memory = np.zeros(size + 8)
    return memory[-memory.ctypes.data % 64 // 8 :][:size]


@numba.njit(nogil=True, error_model="numpy")
def _multiply(row: Any, factors: Any, work: Any) -> Any:
    """Multiply a row of one matrix by another; write columns and sums, zero for the row itself; return how many.

    The columns are all if there are more products to add, else those that the row meets, in the order in which it does.
    One that it meets after a sum of zero is there twice, then with a zero.
    """
    left, right = factors
    a_indptr, a_column, a_value = left
    b_indptr, b_column, b_value = right
    sums, column, total = work
    n_columns, n_products, n_met = len(sums), 0, 0
    step = np.uint64(len(b_value) > 1)
    for entry in range(a_indptr[row], a_indptr[row + 1]):
        n_products += b_indptr[a_column[entry] + 1] - b_indptr[a_column[entry]]
    # Indices are unsigned, as signed ones would be tested for Python's negative ones.
    if n_products > n_columns:
        for entry in range(a_indptr[row], a_indptr[row + 1]):
            factor, middle = a_value[entry], a_column[entry]
            for other in range(np.uint64(b_indptr[middle]), np.uint64(b_indptr[middle + 1])):
                sums[np.uint64(b_column[other])] += factor * b_value[other * step]
        sums[row] = 0.0
        for c in range(n_columns):
            column[c] = c
            total[c] = sums[c]
            sums[c] = 0.0
        return n_columns
    for entry in range(a_indptr[row], a_indptr[row + 1]):
        factor, middle = a_value[entry], a_column[entry]
        for other in range(np.uint64(b_indptr[middle]), np.uint64(b_indptr[middle + 1])):
            code = np.uint64(b_column[other])
            column[n_met] = code
            n_met += sums[code] == 0.0
            sums[code] += factor * b_value[other * step]
    sums[row] = 0.0
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
    met, sums = np.empty(n + 1, dtype=np.int32), np.empty(n)
    work = np.zeros(n), met, sums
    found, quotient = np.empty(n, dtype=np.int32), np.empty(n)
    size = 0
    for row in range(start, stop):
        n_met = _multiply(row, factors, work)
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
                low = nb.kth_largest(quotient[:n_found].copy(), k)
                kept = 0
                for other in range(n_found):
                    if quotient[other] >= low:
                        found[kept] = found[other]
                        quotient[kept] = quotient[other]
                        kept += 1
                n_found, limit = kept, kept + _PLACES * k
        first = size
        if n_found > k:
            low = nb.kth_largest(quotient[:n_found].copy(), k)
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
def _space(n: Any, n_columns: Any) -> Any:
    """Return the number of entries from which a list of n is selected at a time."""
    return _PLACES * min(n, n_columns) + 2 * _GROUP


@numba.njit(nogil=True, error_model="numpy")
def _cut(begin: Any, end: Any, right: Any, asked: Any, segments: Any, dense: Any) -> None:
    """Find the segments of the rows ``asked`` in the columns from ``begin`` to ``end``, which follow the last ones.

    ``segments`` has of each row the number of entries, the first, and the one behind them. The number is -1 for a dense
    segment, which is copied, zeros included; the first is its row in ``dense``.
    """
    indptr, column, value = right
    count, first, behind = segments
    n_dense, width = 0, dense.shape[1]
    for row in asked:
        start, stop = behind[row], indptr[row + 1]
        if start < stop and column[stop - 1] >= end:
            stop = start
            while column[stop] < end:
                stop += 1
        count[row], first[row], behind[row] = stop - start, start, stop
        if (stop - start) * _DENSE_SHARE > width and n_dense < len(dense):
            cells = dense[n_dense]
            cells[:] = 0.0
            for entry in range(start, stop):
                cells[column[entry] - begin] = value[entry]
            count[row], first[row] = -1, n_dense
            n_dense += 1


@numba.njit(nogil=True, error_model="numpy")
def _add(row: Any, begin: Any, factors: Any, tile: Any, sums: Any, met: Any) -> None:
    """Add the products of a row to the sums of a tile, and mark the groups that it has met, unless all are marked."""
    left, right = factors
    a_indptr, a_column, a_value = left
    _, b_column, b_value = right
    (count, first, _), dense = tile
    few = not met[0]
    # Indices are unsigned, as signed ones would be tested for Python's negative ones.
    for entry in range(a_indptr[row], a_indptr[row + 1]):
        middle, factor = np.uint64(a_column[entry]), a_value[entry]
        n, start = count[middle], first[middle]
        if n < 0:
            met[:] = True
            cells = dense[start]
            for c in range(len(sums)):
                sums[c] += factor * cells[c]
        else:
            for other in range(np.uint64(start), np.uint64(start + n)):
                place = np.uint64(b_column[other] - begin)
                sums[place] += factor * b_value[other]
                if few:
                    met[place // np.uint64(_GROUP)] = True


@numba.njit(nogil=True, error_model="numpy")
def _keep_best(column: Any, value: Any, size: Any, n: Any, rank: Any) -> Any:
    """Move the n best of more entries to the front, in order; return the lowest value of them."""
    low = nb.kth_largest(value[:size].copy(), n)
    n_above = 0
    for place in range(size):
        n_above += value[place] > low
    tied = rank[column[:size][value[:size] == low]]
    last = nb.kth_largest(tied, len(tied) - (n - n_above) + 1)
    kept = 0
    for place in range(size):
        if value[place] > low or (value[place] == low and rank[column[place]] <= last):
            column[kept] = column[place]
            value[kept] = value[place]
            kept += 1
    return low


@numba.njit(nogil=True, error_model="numpy")
def _collect(begin: Any, sums: Any, met: Any, found: Any, n: Any, rank: Any) -> Any:
    """Move the sums of a tile that can be among the n best behind those found before; return how many, and the lowest.

    ``found`` has the columns and values, their number, and the lowest value that can be among the n best.
    """
    column, value, size, low = found
    for first in range(0, len(sums), _GROUP):
        if not met[first // _GROUP]:
            continue
        some = sums[first : first + _GROUP]
        n_near = 0
        for place in range(_GROUP):
            n_near += some[place] >= low
        if n_near > 0:
            # Branchless, as branches would be unpredictable.
            for place in range(_GROUP):
                column[size] = begin + first + place
                value[size] = some[place]
                size += some[place] >= low
            if size + _GROUP >= len(value):
                low = _keep_best(column, value, size, n, rank)
                size = n
        some[:] = 0.0
    return size, low


@nb.compiled
def _list_rows(
    rows: nb.Ints,
    factors: _Factors,
    excluded: _Excluded,
    ties: _Ties,
    memory: nb.FloatsOut,
    lists: _Lists,
) -> None:
    left, right = factors
    skipped_start, skipped = excluded
    rank, order = ties
    column, value = lists
    n_columns, n_middle, n = len(rank), len(right[0]) - 1, column.shape[1]
    used, products, n_dense = np.zeros(n_middle, dtype=np.bool_), np.zeros(len(rows), dtype=np.int64), 0
    for place in range(len(rows)):
        for middle in left[1][left[0][rows[place]] : left[0][rows[place] + 1]]:
            used[middle] = True
            n_products = right[0][middle + 1] - right[0][middle]
            products[place] += n_products
            if n_products * _DENSE_SHARE > n_columns:
                n_dense += n_products
    asked = np.flatnonzero(used)
    width = _DENSE_TILE if 2 * n_dense > products.sum() else _SPARSE_TILE
    width = min(width, -(-n_columns // _GROUP) * _GROUP)
    sums, dense = memory[:width], memory[width:][: _DENSE_CELLS // width * width].reshape((-1, width))
    met = np.empty(width // _GROUP, dtype=np.bool_)
    segments = np.empty(n_middle, dtype=np.int64), np.empty(n_middle, dtype=np.int64), right[0][:-1].copy()
    space = _space(n, n_columns)
    found, total = np.empty((len(rows), space), dtype=np.int32), np.empty((len(rows), space))
    sizes, lows = np.zeros(len(rows), dtype=np.int64), np.full(len(rows), _LEAST)
    skip = skipped_start[rows]
    for begin in range(0, n_columns, width):
        end = min(begin + width, n_columns)
        _cut(begin, end, right, asked, segments, dense)
        for place in range(len(rows)):
            row = rows[place]
            met[:] = products[place] * _FEW >= n_columns
            _add(row, begin, factors, (segments, dense), sums, met)
            while skip[place] < skipped_start[row + 1] and skipped[skip[place]] < end:
                sums[skipped[skip[place]] - begin] = 0.0
                skip[place] += 1
            state = found[place], total[place], sizes[place], lows[place]
            sizes[place], lows[place] = _collect(begin, sums, met, state, n, rank)
    done = np.full(n_columns, -1, dtype=np.int32)  # the last row that lists no zero of a column
    for place in range(len(rows)):
        if sizes[place] > n:
            _keep_best(found[place], total[place], sizes[place], n, rank)
        size = min(n, sizes[place])
        columns = found[place, :size]
        column[place, :size] = columns
        value[place, :size] = total[place, :size]
        if size == n:
            continue
        for c in skipped[skipped_start[rows[place]] : skipped_start[rows[place] + 1]]:
            done[c] = place
        for c in columns:
            done[c] = place
        for c in order:
            if size == n:
                break
            if done[c] != place:
                column[place, size] = c
                value[place, size] = 0.0
                size += 1
