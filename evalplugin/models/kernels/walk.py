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
    sums = np.empty((n_y, 4))  # as in ``walk``
    # The entries of equally similar neighbours: y, term, and position in the list of y above the number of the entry.
    group_y = np.empty(len(position) + 1, dtype=np.int32)
    group_term = np.empty(len(position) + 1)
    key = np.empty(len(position) + 1, dtype=np.int64)
    other_key = np.empty(len(position) + 1, dtype=np.int64)
    slots = np.empty(256, dtype=np.int64)
    # Keys are sorted by digits of at most 8 bits.
    bits = 0
    while (position.max() >> bits) > 0:
        bits += 1
    digits = (bits + 7) // 8
    digit_bits = (bits + digits - 1) // max(digits, 1)
    one = np.uint64(1)
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
            while next_sim < stop and similarity[xs[row], order[next_sim]] == sim:
                next_sim += 1
            is_group = next_sim > begin + 1
            bound = np.uint64(last)
            size = 0
            for at in range(begin, next_sim):
                other = order[at]
                entry = np.uint64(indptr[other])
                y = np.uint64(rank[entry])
                # Branchless, as branches would be unpredictable: zeros are added to full y, which change nothing, and
                # the entries of full y are overwritten.
                while is_group and y <= bound:
                    term = sim * value[entry]
                    if scaled:
                        term /= divisor[other]
                    group_y[size] = y
                    group_term[size] = term
                    key[size] = (np.int64(position[entry]) << 32) | size
                    size += 1 if sums[y, 2] > 0.0 else 0
                    entry += one
                    y = np.uint64(rank[entry])
                while not is_group and y <= bound:
                    missing = sums[y, 2]
                    taken = 1.0 if missing > 0.0 else 0.0
                    weight = sim * taken
                    term = weight * value[entry]
                    if scaled:
                        term /= divisor[other]
                    sums[y, 0] += weight
                    sums[y, 1] += term
                    sums[y, 2] = missing - taken
                    entry += one
                    y = np.uint64(rank[entry])
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
                y = np.uint64(group_y[number])
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
