"""Means of neighbours where all lists ascend: one walk along the neighbours of an x fills all of its y."""

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
    """Write the means of each x and every y into ``means``; see ``neighbour_means``."""
    order_indptr, order = orders
    indptr, rank, value, _, capacity, y_of = rows
    scaled, divisor, min_k, otherwise = options
    n_y = len(capacity)
    sums = np.empty((n_y, 4))  # similarities, terms, missing neighbours, padding: two rows are a cache line
    for row in range(len(xs)):
        for y in range(n_y):
            sums[y, 0] = 0.0
            sums[y, 1] = 0.0
            sums[y, 2] = capacity[y]
        last = n_y - 1  # every y behind it is full
        while last >= 0 and sums[last, 2] == 0.0:
            last -= 1
        for position in range(order_indptr[row], order_indptr[row + 1]):
            if last < 0:
                break
            other = order[position]
            sim = similarity[xs[row], other]
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
            for entry in range(first, end):
                # Branchless, as a branch would be unpredictable: zeros are added to full y, which change nothing.
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
            while last >= 0 and sums[last, 2] == 0.0:
                last -= 1
        for y in range(n_y):
            enough = capacity[y] - sums[y, 2] >= min_k
            means[row, y_of[y]] = sums[y, 1] / sums[y, 0] if enough else otherwise
