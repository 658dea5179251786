"""Means of neighbours: one walk along the neighbours of an x fills all of its y."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from evalplugin.models.kernels.arguments import MeanOptions, NeighbourRows, SortedNeighbours
from evalplugin.models.kernels.compiled import Ints, Matrix, MatrixOut, compiled

__all__ = ["walk", "walk_with_ties"]


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
    """Return the last y up to ``last`` that is not full, -1 if there is none."""
    while last >= 0 and sums[4 * last + 2] == 0.0:
        last -= 1
    return last


@numba.njit(nogil=True, error_model="numpy")
def _add_neighbour(
    sums: Any, sim: Any, other: Any, last: Any, indptr: Any, rank: Any, value: Any, scaled: Any, divisor: Any
) -> None:
    """Add a neighbour to each of its y up to ``last`` that is not full."""
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
    """Write the means of each x and every y into ``means`` where every list ascends by x; see ``neighbour_means``."""
    order_indptr, order = orders
    indptr, rank, value, _, capacity, y_of = rows
    scaled, divisor, min_k, otherwise = options
    sums = np.empty(4 * len(capacity))
    for row in range(len(xs)):
        last = _empty(sums, capacity)
        similarity_of = similarity[xs[row]]
        begin = order_indptr[row]
        stop = order_indptr[row + 1] if last >= 0 else begin
        for at in range(np.uint64(begin), np.uint64(stop)):
            other = np.uint64(order[at])
            _add_neighbour(sums, similarity_of[other], other, last, indptr, rank, value, scaled, divisor)
            last = _last_open(sums, last)
            if last < 0:
                break
        _write_means(sums, capacity, y_of, min_k, otherwise, means[row])


@compiled
def walk_with_ties(
    similarity: Matrix,
    xs: Ints,
    orders: SortedNeighbours,
    rows: NeighbourRows,
    options: MeanOptions,
    means: MatrixOut,
) -> None:
    """Like ``walk`` for lists in any order: of equally similar neighbours, the first in the list of y comes first."""
    order_indptr, order = orders
    indptr, rank, value, position, capacity, y_of = rows
    scaled, divisor, min_k, otherwise = options
    n_y = len(capacity)
    sums = np.empty(4 * n_y)
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    # The entries of equally similar neighbours: term, number of the one before of the same y, and position in the list
    # of y above the number of the entry itself. First comes an entry that means none.
    group_term = np.empty(len(position) + 2)
    group_before = np.empty(len(position) + 2, dtype=np.uint32)
    group_key = np.empty(len(position) + 2, dtype=np.uint64)
    latest = np.zeros(n_y, dtype=np.uint32)  # the number of the latest entry of each y
    touched = np.empty(n_y + 1, dtype=np.uint32)  # the y that have entries
    keys = np.empty(position.max() + 1, dtype=np.uint64)  # of one y
    number_bits = np.uint64(2**32 - 1)
    for row in range(len(xs)):
        last = _empty(sums, capacity)
        similarity_of = similarity[xs[row]]
        begin, stop = order_indptr[row], order_indptr[row + 1]
        while begin < stop and last >= 0:
            sim = similarity_of[np.uint64(order[begin])]
            next_sim = begin + 1
            while next_sim < stop and similarity_of[np.uint64(order[next_sim])] == sim:
                next_sim += 1
            bound = np.uint64(last)
            if next_sim == begin + 1:
                other = np.uint64(order[begin])
                _add_neighbour(sums, sim, other, last, indptr, rank, value, scaled, divisor)
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
