"""Means of neighbours: one walk along the neighbours of an x fills all of its y."""

from __future__ import annotations

import numpy as np

from evalplugin.models.kernels.arguments import MeanOptions, NeighbourRows, SortedNeighbours
from evalplugin.models.kernels.compiled import Ints, Matrix, MatrixOut, compiled

__all__ = ["walk", "walk_with_ties"]


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
    n_y = len(capacity)
    # Similarities, terms, missing neighbours, padding of each y: two of them are a cache line. Indices are unsigned, as
    # signed ones would be tested for Python's negative indices at each step.
    sums = np.empty(4 * n_y)
    one, two, four = np.uint64(1), np.uint64(2), np.uint64(4)
    for row in range(len(xs)):
        for y in range(n_y):
            sums[4 * y] = 0.0
            sums[4 * y + 1] = 0.0
            sums[4 * y + 2] = capacity[y]
        last = n_y - 1  # every y behind it is full
        while last >= 0 and sums[4 * last + 2] == 0.0:
            last -= 1
        similarity_of = similarity[xs[row]]
        begin = order_indptr[row]
        stop = order_indptr[row + 1] if last >= 0 else begin
        for at in range(np.uint64(begin), np.uint64(stop)):
            other = np.uint64(order[at])
            sim = similarity_of[other]
            bound = np.uint64(last)
            entry = np.uint64(indptr[other])
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
            if sums[bound * four + two] == 0.0:
                while last >= 0 and sums[4 * last + 2] == 0.0:
                    last -= 1
                if last < 0:
                    break
        for y in range(n_y):
            enough = capacity[y] - sums[4 * y + 2] >= min_k
            means[row, y_of[y]] = sums[4 * y + 1] / sums[4 * y] if enough else otherwise


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
    sums = np.empty(4 * n_y)  # as in ``walk``
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
        for y in range(n_y):
            sums[4 * y] = 0.0
            sums[4 * y + 1] = 0.0
            sums[4 * y + 2] = capacity[y]
        last = n_y - 1  # every y behind it is full
        while last >= 0 and sums[4 * last + 2] == 0.0:
            last -= 1
        similarity_of = similarity[xs[row]]
        begin, stop = order_indptr[row], order_indptr[row + 1]
        while begin < stop and last >= 0:
            sim = similarity_of[np.uint64(order[begin])]
            next_sim = begin + 1
            while next_sim < stop and similarity_of[np.uint64(order[next_sim])] == sim:
                next_sim += 1
            bound = np.uint64(last)
            # Branchless, as branches would be unpredictable: zeros are added to full y, which change nothing, and the
            # entries of full y are overwritten.
            if next_sim == begin + 1:
                other = np.uint64(order[begin])
                entry = np.uint64(indptr[other])
                y_rank = np.uint64(rank[entry])
                while y_rank <= bound:
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
            else:
                number, n_touched = one, np.uint64(0)
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
            while last >= 0 and sums[4 * last + 2] == 0.0:
                last -= 1
            begin = next_sim
        for y in range(n_y):
            enough = capacity[y] - sums[4 * y + 2] >= min_k
            means[row, y_of[y]] = sums[4 * y + 1] / sums[4 * y] if enough else otherwise
