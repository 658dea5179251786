"""Estimates from the k nearest neighbours, with the bits of scikit-surprise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evalplugin.models.kernels import compiled as nb
from evalplugin.models.kernels.walk import MeanOptions, NeighbourRows, SortedNeighbours, walk
from evalplugin.models.threads import for_ranges

_CHUNK_CELLS = 500_000  # similarities sorted at a time: 4 MB


def neighbour_means(
    similarity: nb.Matrix,
    xs: nb.Ints,
    rows: NeighbourRows,
    options: MeanOptions,
    means: nb.MatrixOut,
    orders: list[SortedNeighbours] | None = None,
) -> None:
    """Write the similarity-weighted mean of the neighbours' values for each x and every y.

    The neighbours of (x, y) are the k most similar of those that have an entry for y, x itself included, equally
    similar ones in the order of the list of y; those of positive similarity count. Sums run in that order.

    Args:
        similarity: (n_x, n_x); NaN, an undefined one, does not count.
        xs: The x to compute.
        rows: The entries; their capacity implies k.
        options: Scaling and fallback.
        means: (len(xs), n_y) of any layout, the output.
        orders: From ``sort_all``, if ``xs`` are all x; None: neighbours are sorted here, chunk by chunk.
    """
    chunk = _chunk_of(similarity)

    def some_rows(start: int, stop: int) -> None:
        some = xs[start:stop]
        order = _sort_neighbours(similarity, some) if orders is None else orders[start // chunk]
        walk(similarity, some, order, rows, options, means[start:stop])

    for_ranges(some_rows, len(xs), chunk)


class Pairs(NamedTuple):
    """Pairs of an x and a y, (p,)."""

    x: nb.Ints
    y: nb.Ints


def pair_means(
    similarity: nb.Matrix, pairs: Pairs, lists: nb.Entries, options: MeanOptions
) -> tuple[nb.Floats, nb.Flags]:
    """Return the means of ``neighbour_means`` for single pairs: float64 (p,).

    The second array, bool (p,), marks pairs with an undefined similarity (NaN) in their list: their means are invalid.

    Args:
        similarity: (n_x, n_x).
        pairs: The pairs.
        lists: For each y, its x and the values of these.
        options: Numbers of neighbours, scaling and fallback.
    """
    means, undefined = np.empty(len(pairs.x)), np.zeros(len(pairs.x), dtype=np.bool_)

    def some(start: int, stop: int) -> None:
        part = slice(start, stop)
        some_pairs = Pairs(pairs.x[part], pairs.y[part])
        _pairs(similarity, some_pairs, lists, options, means[part], undefined[part])

    for_ranges(some, len(pairs.x), 1024)
    return means, undefined


def _chunk_of(similarity: nb.Matrix) -> int:
    """Return the number of x whose neighbours a thread sorts at a time."""
    return max(1, _CHUNK_CELLS // max(1, len(similarity)))


def sort_all(similarity: nb.Matrix) -> list[SortedNeighbours]:
    """Return the neighbours of every x, in the chunks of ``neighbour_means``."""
    n, chunk = len(similarity), _chunk_of(similarity)
    every = np.arange(n)
    orders = [SortedNeighbours(every[:0], np.empty(0, dtype=np.int32))] * -(-n // chunk)

    def some(start: int, stop: int) -> None:
        orders[start // chunk] = _sort_neighbours(similarity, every[start:stop])

    for_ranges(some, n, chunk)
    return orders


def _sort_neighbours(similarity: nb.Matrix, xs: nb.Ints) -> SortedNeighbours:
    """Return the neighbours of each of ``xs``."""
    # A key is the bits of a similarity, which ascend with it, with the lowest bits replaced by the id: sorting integers
    # is several times faster than a stable sort. Similarities that differ in the lowest bits alone are reordered after.
    bits = max(1, (len(similarity) - 1).bit_length())
    indptr = np.zeros(len(xs) + 1, dtype=np.int64)
    _count(similarity, xs, indptr)
    keys = np.empty(indptr[-1], dtype=np.uint64)
    _keys(similarity, xs, bits, indptr, keys)
    for start, stop in zip(indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        keys[start:stop].sort()
    other = np.empty(indptr[-1], dtype=np.int32)
    _from_keys(similarity, xs, bits, indptr, keys, other)
    return SortedNeighbours(indptr, other)


@nb.compiled
def _count(similarity: nb.Matrix, xs: nb.Ints, indptr: nb.IntsOut) -> None:
    for row in range(len(xs)):
        number = 0
        for other in range(similarity.shape[1]):
            number += similarity[xs[row], other] > 0.0
        indptr[row + 1] = indptr[row] + number


@nb.compiled
def _keys(similarity: nb.Matrix, xs: nb.Ints, bits: int, indptr: nb.Ints, keys: nb.KeysOut) -> None:
    low = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    pattern = similarity.view(np.uint64)
    for row in range(len(xs)):
        x, position = xs[row], indptr[row]
        for other in range(similarity.shape[1]):
            if similarity[x, other] > 0.0:
                keys[position] = (~pattern[x, other] & ~low) | np.uint64(other)
                position += 1


@nb.compiled
def _from_keys(
    similarity: nb.Matrix, xs: nb.Ints, bits: int, indptr: nb.Ints, keys: nb.KeysOut, order: nb.CodesOut
) -> None:
    low = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for row in range(len(xs)):
        x = xs[row]
        for position in range(indptr[row], indptr[row + 1]):
            other = np.int32(keys[position] & low)
            at = position
            while at > indptr[row] and similarity[x, order[at - 1]] < similarity[x, other]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = other


@nb.compiled
def _pairs(
    similarity: nb.Matrix,
    pairs: Pairs,
    lists: nb.Entries,
    options: MeanOptions,
    means: nb.FloatsOut,
    undefined: nb.Flags,
) -> None:
    xs, ys = pairs
    y_indptr, x_of, value = lists
    k, scaled, divisor, min_k, otherwise = options
    longest = 1
    for y in ys:
        longest = max(longest, y_indptr[y + 1] - y_indptr[y])
    size = min(max(k, 0), longest)
    # Entries of the nearest so far and their similarities, descending; of ties the first in the list comes first.
    near = np.empty(size + 1, dtype=np.int64)
    sims = np.empty(size + 1)
    for pair in range(len(xs)):
        x, y = xs[pair], ys[pair]
        n_near = 0
        for entry in range(y_indptr[y], y_indptr[y + 1]):
            sim = similarity[x, x_of[entry]]
            undefined[pair] |= sim != sim
            if not sim > 0 or (n_near == size and (size == 0 or not sim > sims[size - 1])):
                continue
            slot = n_near if n_near < size else size - 1
            while slot > 0 and sims[slot - 1] < sim:
                sims[slot] = sims[slot - 1]
                near[slot] = near[slot - 1]
                slot -= 1
            sims[slot] = sim
            near[slot] = entry
            n_near = min(n_near + 1, size)
        weight = 0.0
        total = 0.0
        for slot in range(n_near):
            term = sims[slot] * value[near[slot]]
            if scaled:
                term /= divisor[x_of[near[slot]]]
            weight += sims[slot]
            total += term
        means[pair] = total / weight if n_near >= min_k else otherwise
