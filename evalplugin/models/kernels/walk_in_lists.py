"""Means of neighbours where the lists of the y are in any order, which breaks ties between equal similarities."""

from __future__ import annotations

import numpy as np

from evalplugin.models.kernels.arguments import MeanOptions, NeighbourRows, SortedNeighbours
from evalplugin.models.kernels.compiled import Ints, Matrix, MatrixOut, compiled

__all__ = ["walk_in_lists"]


@compiled
def walk_in_lists(
    similarity: Matrix,
    xs: Ints,
    orders: SortedNeighbours,
    rows: NeighbourRows,
    options: MeanOptions,
    means: MatrixOut,
) -> None:
    """Write the same means as ``walk`` for lists in any order; equally similar neighbours are one group."""
    order_indptr, order = orders
    indptr, rank, value, position_of, capacity, y_of = rows
    scaled, divisor, min_k, otherwise = options
    n_y = len(capacity)
    weight, total = np.empty(n_y), np.empty(n_y)
    missing = np.empty(n_y, dtype=np.int64)
    number = np.zeros(n_y, dtype=np.int64)  # entries of the group, by y
    start = np.empty(n_y, dtype=np.int64)
    touched = np.empty(n_y, dtype=np.int64)
    group_position = np.empty(len(rank), dtype=np.int32)
    group_term = np.empty(len(rank))
    for row in range(len(xs)):
        weight[:] = 0.0
        total[:] = 0.0
        missing[:] = capacity
        last = n_y - 1
        begin, stop = order_indptr[row], order_indptr[row + 1]
        while begin < stop:
            while last >= 0 and missing[last] == 0:
                last -= 1
            if last < 0:
                break
            sim = similarity[xs[row], order[begin]]
            end = begin + 1
            while end < stop and similarity[xs[row], order[end]] == sim:
                end += 1
            n_touched = 0
            for position in range(begin, end):
                other = order[position]
                for entry in range(indptr[other], indptr[other + 1]):
                    y = rank[entry]
                    if y > last:
                        break
                    if missing[y] > 0:
                        if number[y] == 0:
                            touched[n_touched] = y
                            n_touched += 1
                        number[y] += 1
            first = 0
            for at in range(n_touched):
                y = touched[at]
                start[y] = first
                first += number[y]
                number[y] = 0
            for position in range(begin, end):
                other = order[position]
                for entry in range(indptr[other], indptr[other + 1]):
                    y = rank[entry]
                    if y > last:
                        break
                    if missing[y] > 0:
                        term = sim * value[entry]
                        if scaled:
                            term /= divisor[other]
                        # Sorted by position in the list, and no more of them than are missing.
                        slot, low = start[y] + min(number[y], missing[y]), start[y]
                        own = position_of[entry]
                        if number[y] >= missing[y]:
                            if group_position[slot - 1] < own:
                                number[y] += 1
                                continue
                            slot -= 1
                        while slot > low and group_position[slot - 1] > own:
                            group_position[slot] = group_position[slot - 1]
                            group_term[slot] = group_term[slot - 1]
                            slot -= 1
                        group_position[slot] = own
                        group_term[slot] = term
                        number[y] += 1
            for at in range(n_touched):
                y = touched[at]
                taken = min(number[y], missing[y])
                for slot in range(start[y], start[y] + taken):
                    weight[y] += sim
                    total[y] += group_term[slot]
                missing[y] -= taken
                number[y] = 0
            begin = end
        for y in range(n_y):
            enough = capacity[y] - missing[y] >= min_k
            means[row, y_of[y]] = total[y] / weight[y] if enough else otherwise
