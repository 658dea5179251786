"""Means of neighbours: one walk along the neighbours of an x fills all of its y."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from evalplugin.models.kernels.compiled import Codes, Floats, Ints, Matrix, MatrixOut, compiled

Number = TypeVar("Number", bound=np.number[Any])


class SortedNeighbours(NamedTuple):
    """The neighbours of some x: all x of positive similarity, most similar first, ties ascending by x."""

    indptr: Ints  # (number of x + 1,)
    other: Codes


class NeighbourRows(NamedTuple):
    """The ratings (entries) of each x, laid out for the walk along its neighbours.

    The x are the users or the items, whichever have similarities, the y the others. A row lists its y by their rank in
    ascending order of popularity (number of entries), so that a walk can stop where only y with k neighbours follow.
    Behind each row is an entry of rank n_y, where every walk stops: it is cheaper than a search for the end.
    """

    indptr: Ints  # (n_x + 1,)
    rank: Codes  # (m + n_x,)
    value: Floats  # (m + n_x,)
    position: Codes  # (m + n_x,) index of the entry in the list of its y; empty if every list ascends by x
    capacity: Ints  # (n_y,) by rank: the most neighbours that the y can have
    y_of: Ints  # (n_y,) by rank

    @classmethod
    def of(
        cls,
        x: npt.NDArray[np.int32],
        y: npt.NDArray[np.int64],
        value: npt.NDArray[np.float64],
        position: npt.NDArray[np.int32] | None,
        shape: tuple[int, int],
        k: int,
    ) -> NeighbourRows:
        """Return the rows of entries in any order.

        Args:
            x, y, value: (m,) the entries.
            position: (m,) index of each entry in the list of its y; None if every list ascends by x.
            shape: Numbers of x and of y.
            k: Most neighbours of a mean.
        """
        n_x, n_y = shape
        counts = np.bincount(y, minlength=n_y)
        y_of = np.argsort(counts, kind="stable")
        rank_of = np.empty(n_y, dtype=np.int32)
        rank_of[y_of] = np.arange(n_y, dtype=np.int32)
        order = np.argsort(x.astype(np.int64) * n_y + rank_of[y])
        indptr = np.zeros(n_x + 1, dtype=np.int64)
        np.cumsum(np.bincount(x, minlength=n_x) + 1, out=indptr[1:])
        slot = np.arange(len(x)) + x[order]  # the x before it have an entry more each

        def laid_out(of: npt.NDArray[Number], at_end: int) -> npt.NDArray[Number]:
            array = np.full(len(x) + n_x, at_end, dtype=of.dtype)
            array[slot] = of[order]
            return array

        return cls(
            indptr,
            laid_out(rank_of[y], n_y),
            laid_out(value, 0),
            np.empty(0, dtype=np.int32) if position is None else laid_out(position, 0),
            np.minimum(counts[y_of], max(k, 0)),
            y_of,
        )


class MeanOptions(NamedTuple):
    """Numbers of neighbours, scaling of their terms, and the fallback for too few neighbours."""

    k: int  # most neighbours of a mean
    scaled: bool  # whether each neighbour's term is divided
    divisor: Floats  # (n_x,) the divisors; unused unless scaled
    min_k: int  # fewest neighbours of a mean, at least 1
    otherwise: float  # the value with fewer neighbours


# The functions below work on ``sums``, float64 (4 * n_y,): similarities, terms, missing neighbours and padding of each
# y, so that two y are a cache line. Indices are unsigned, as signed ones would be tested for Python's negative ones.


@numba.njit(nogil=True, error_model="numpy")
def _empty(sums: Any, capacity: Any) -> Any:
    """Empty the sums of every y; return the last y that is not full."""
    for y in range(len(capacity)):
        sums[4 * y] = 0.0
        sums[4 * y + 1] = 0.0
        sums[4 * y + 2] = capacity[y]
    return _last_open(sums, len(capacity) - 1)


@numba.njit(nogil=True, error_model="numpy")
def _last_open(sums: Any, last: Any) -> Any:
    """Return the last y up to ``last`` that is not full; -1 if all are full."""
    while last >= 0 and sums[4 * last + 2] == 0.0:
        last -= 1
    return last


@numba.njit(nogil=True, error_model="numpy")
def _add_neighbour(sums: Any, sim: Any, other: Any, last: Any, rows: Any, options: Any) -> None:
    """Add a neighbour to each of its y up to ``last`` that is not full."""
    indptr, rank, value, _, _, _ = rows
    _, scaled, divisor, _, _ = options
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    bound, entry = np.uint64(last), np.uint64(indptr[other])
    y_rank = np.uint64(rank[entry])
    while y_rank <= bound:
        # Branchless, as branches would be unpredictable: zeros are added to full y, which change nothing.
        place = y_rank * four
        missing = sums[place + two]
        taken = 1.0 if missing > 0.0 else 0.0
        weight = sim * taken
        term = weight * value[entry]
        if scaled:
            term /= divisor[other]
        sums[place] += weight
        sums[place + one] += term
        sums[place + two] = missing - taken
        entry += one
        y_rank = np.uint64(rank[entry])


@numba.njit(nogil=True, error_model="numpy")
def _write_means(sums: Any, capacity: Any, y_of: Any, min_k: Any, otherwise: Any, means: Any) -> None:
    """Write the mean of each y with enough neighbours, and ``otherwise`` for the others."""
    for y in range(len(capacity)):
        enough = capacity[y] - sums[4 * y + 2] >= min_k
        means[y_of[y]] = sums[4 * y + 1] / sums[4 * y] if enough else otherwise


@compiled
def walk(
    similarity: Matrix,
    xs: Ints,
    orders: SortedNeighbours,
    rows: NeighbourRows,
    options: MeanOptions,
    means: MatrixOut,
) -> None:
    """Write the means of each x and every y into ``means``; see ``neighbour_means``.

    Of equally similar neighbours, the first in the list of y comes first. Where every list ascends by x, they are in
    this order already.

    Args:
        similarity: (n_x, n_x).
        xs: The x to compute.
        orders: The neighbours of each of ``xs``.
        rows: The entries of each x.
        options: Numbers of neighbours, scaling and fallback.
        means: (len(xs), n_y), the output.
    """
    order_indptr, order = orders
    indptr, rank, value, position, capacity, y_of = rows
    _, scaled, divisor, min_k, otherwise = options
    n_y, ascending, longest = len(capacity), len(position) == 0, 1
    for place_in_list in position:
        longest = max(longest, place_in_list + 1)
    sums = np.empty(4 * n_y)
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    # The entries of equally similar neighbours: term, number of the one before of the same y, and position in the list
    # of y above the number of the entry itself. First comes an entry that means none.
    group_term = np.empty(len(position) + 2)
    group_before = np.empty(len(position) + 2, dtype=np.uint32)
    group_key = np.empty(len(position) + 2, dtype=np.uint64)
    latest = np.zeros(n_y, dtype=np.uint32)  # the number of the latest entry of each y
    touched = np.empty(n_y + 1, dtype=np.uint32)  # the y that have entries
    keys = np.empty(longest, dtype=np.uint64)  # of one y
    number_bits = np.uint64(2**32 - 1)
    for row in range(len(xs)):
        last = _empty(sums, capacity)
        similarity_of = similarity[xs[row]]
        begin, stop = order_indptr[row], order_indptr[row + 1]
        while begin < stop and last >= 0:
            sim = similarity_of[np.uint64(order[begin])]
            next_sim = begin + 1
            while not ascending and next_sim < stop and similarity_of[np.uint64(order[next_sim])] == sim:
                next_sim += 1
            bound = np.uint64(last)
            if next_sim == begin + 1:
                other = np.uint64(order[begin])
                _add_neighbour(sums, sim, other, last, rows, options)
            else:
                number, n_touched = one, np.uint64(0)
                # Branchless like ``_add_neighbour``: the entries of full y are overwritten.
                for at in range(np.uint64(begin), np.uint64(next_sim)):
                    other = np.uint64(order[at])
                    entry = np.uint64(indptr[other])
                    y_rank = np.uint64(rank[entry])
                    while y_rank <= bound:
                        term = sim * value[entry]
                        if scaled:
                            term /= divisor[other]
                        before = latest[y_rank]
                        is_open = np.uint64(sums[y_rank * four + two] > 0.0)
                        group_term[number] = term
                        group_before[number] = before
                        group_key[number] = np.uint64(position[entry]) << np.uint64(32) | number
                        latest[y_rank] = number * is_open
                        touched[n_touched] = y_rank
                        n_touched += is_open & np.uint64(before == 0)
                        number += is_open
                        entry += one
                        y_rank = np.uint64(rank[entry])
                for turn in range(n_touched):
                    y_rank = np.uint64(touched[turn])
                    place = y_rank * four
                    link = np.uint64(latest[y_rank])
                    latest[y_rank] = 0
                    if group_before[link] == 0:
                        sums[place] += sim
                        sums[place + one] += group_term[link]
                        sums[place + two] -= 1.0
                        continue
                    size = 0
                    while link > np.uint64(0):
                        key = group_key[link]
                        slot = size
                        while size < 24 and slot > 0 and keys[slot - 1] > key:
                            keys[slot] = keys[slot - 1]
                            slot -= 1
                        keys[slot] = key
                        size += 1
                        link = np.uint64(group_before[link])
                    if size > 24:
                        keys[:size].sort()
                    for nth in range(min(size, int(sums[place + two]))):
                        sums[place] += sim
                        sums[place + one] += group_term[keys[nth] & number_bits]
                        sums[place + two] -= 1.0
            last = _last_open(sums, last)
            begin = next_sim
        _write_means(sums, capacity, y_of, min_k, otherwise, means[row])
