"""Means of neighbours: one walk along the neighbours of an x fills all of its y."""

from __future__ import annotations

import numpy as np

from evalplugin.models.kernels.arguments import MeanOptions, NeighbourRows, SortedNeighbours
from evalplugin.models.kernels.compiled import Ints, Matrix, MatrixOut, compiled

__all__ = ["walk"]


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

    Where lists are in any order, the entries of equally similar neighbours are taken by their position in the lists.
    """
    order_indptr, order = orders
    indptr, rank, value, position, capacity, y_of = rows
    scaled, divisor, min_k, otherwise = options
    n_y = len(capacity)
    ascending = len(position) == 0
    sums = np.empty((n_y, 4))  # similarities, terms, missing neighbours, padding: two rows are a cache line
    # The entries of equally similar neighbours: y, term, and position in the list of y above the number of the entry.
    group_y = np.empty(len(position) + 1, dtype=np.int32)
    group_term = np.empty(len(position) + 1)
    key = np.empty(len(position) + 1, dtype=np.int64)
    other_key = np.empty(len(position) + 1, dtype=np.int64)
    slots = np.empty(256, dtype=np.int64)
    # Keys are sorted by digits of at most 8 bits.
    bits = 0
    while not ascending and (position.max() >> bits) > 0:
        bits += 1
    digits = (bits + 7) // 8
    digit_bits = (bits + digits - 1) // max(digits, 1)
    for row in range(len(xs)):
        for y in range(n_y):
            sums[y, 0] = 0.0
            sums[y, 1] = 0.0
            sums[y, 2] = capacity[y]
        last = n_y - 1  # every y behind it is full
        while last >= 0 and sums[last, 2] == 0.0:
            last -= 1
        begin, stop = order_indptr[row], order_indptr[row + 1]
        while begin < stop and last >= 0:
            sim = similarity[xs[row], order[begin]]
            next_sim = begin + 1
            while not ascending and next_sim < stop and similarity[xs[row], order[next_sim]] == sim:
                next_sim += 1
            is_group = next_sim > begin + 1
            size = 0
            for at in range(begin, next_sim):
                other = order[at]
                first, end = indptr[other], indptr[other + 1]
                if end > first and rank[end - 1] > last:
                    low, high = first, end
                    while low < high:
                        middle = (low + high) >> 1
                        if rank[middle] > last:
                            high = middle
                        else:
                            low = middle + 1
                    end = low
                # Branchless, as branches would be unpredictable: zeros are added to full y, which change nothing, and
                # the entries of full y are overwritten.
                if is_group:
                    for entry in range(first, end):
                        y = rank[entry]
                        term = sim * value[entry]
                        if scaled:
                            term /= divisor[other]
                        group_y[size] = y
                        group_term[size] = term
                        key[size] = (np.int64(position[entry]) << 32) | size
                        size += 1 if sums[y, 2] > 0.0 else 0
                else:
                    for entry in range(first, end):
                        y = rank[entry]
                        missing = sums[y, 2]
                        taken = 1.0 if missing > 0.0 else 0.0
                        weight = sim * taken
                        term = weight * value[entry]
                        if scaled:
                            term /= divisor[other]
                        sums[y, 0] += weight
                        sums[y, 1] += term
                        sums[y, 2] = missing - taken
            for digit in range(digits if size > 0 else 0):
                shift = 32 + digit * digit_bits
                low_bits = (1 << digit_bits) - 1
                slots[: low_bits + 1] = 0
                for at in range(size):
                    slots[(key[at] >> shift) & low_bits] += 1
                before = 0
                for bucket in range(low_bits + 1):
                    count = slots[bucket]
                    slots[bucket] = before
                    before += count
                for at in range(size):
                    bucket = (key[at] >> shift) & low_bits
                    other_key[slots[bucket]] = key[at]
                    slots[bucket] += 1
                key, other_key = other_key, key
            for at in range(size):
                number = key[at] & 0xFFFFFFFF
                y = group_y[number]
                missing = sums[y, 2]
                taken = 1.0 if missing > 0.0 else 0.0
                sums[y, 0] += sim * taken
                sums[y, 1] += group_term[number] * taken
                sums[y, 2] = missing - taken
            while last >= 0 and sums[last, 2] == 0.0:
                last -= 1
            begin = next_sim
        for y in range(n_y):
            enough = capacity[y] - sums[y, 2] >= min_k
            means[row, y_of[y]] = sums[y, 1] / sums[y, 0] if enough else otherwise
