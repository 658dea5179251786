"""The mean of the k nearest neighbours for single pairs, to the bit that of scikit-surprise."""

from __future__ import annotations

import numpy as np

from evalplugin.models.kernels.arguments import MeanOptions
from evalplugin.models.kernels.compiled import Codes, Flags, Floats, FloatsOut, Ints, Matrix, compiled
from evalplugin.models.threads import for_ranges

__all__ = ["pair_means"]


def pair_means(
    similarity: Matrix,
    xs: Ints,
    ys: Ints,
    y_indptr: Ints,
    x_of: Codes,
    value: Floats,
    k: int,
    options: MeanOptions,
) -> tuple[Floats, Flags]:
    """Return the means of ``neighbour_means`` for single pairs, from the lists of the y: float64 (p,).

    The second array, bool (p,), marks pairs with an undefined similarity (NaN) in their list: their means are invalid.
    """
    means, undefined = np.empty(len(xs)), np.zeros(len(xs), dtype=np.bool_)

    def some(start: int, stop: int) -> None:
        part, lists = slice(start, stop), (y_indptr, x_of, value)
        _pairs(similarity, xs[part], ys[part], *lists, max(k, 0), options, means[part], undefined[part])

    for_ranges(some, len(xs), 1024)
    return means, undefined


@compiled
def _pairs(
    similarity: Matrix,
    xs: Ints,
    ys: Ints,
    y_indptr: Ints,
    x_of: Codes,
    value: Floats,
    k: int,
    options: MeanOptions,
    means: FloatsOut,
    undefined: Flags,
) -> None:
    scaled, divisor, min_k, otherwise = options
    longest = 1
    for y in ys:
        longest = max(longest, y_indptr[y + 1] - y_indptr[y])
    size = min(k, longest)
    # Entries of the nearest so far and their similarities, descending; of ties the first in the list comes first.
    near = np.empty(size + 1, dtype=np.int64)
    sims = np.empty(size + 1)
    for pair in range(len(xs)):
        x, y = xs[pair], ys[pair]
        found = 0
        for entry in range(y_indptr[y], y_indptr[y + 1]):
            sim = similarity[x, x_of[entry]]
            undefined[pair] |= sim != sim
            if not sim > 0 or (found == size and (size == 0 or not sim > sims[size - 1])):
                continue
            slot = found if found < size else size - 1
            while slot > 0 and sims[slot - 1] < sim:
                sims[slot] = sims[slot - 1]
                near[slot] = near[slot - 1]
                slot -= 1
            sims[slot] = sim
            near[slot] = entry
            found = min(found + 1, size)
        weight = 0.0
        total = 0.0
        for slot in range(found):
            term = sims[slot] * value[near[slot]]
            if scaled:
                term /= divisor[x_of[near[slot]]]
            weight += sims[slot]
            total += term
        means[pair] = total / weight if found >= min_k else otherwise
