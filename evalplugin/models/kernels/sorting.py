"""Sorting of the neighbours of each user or item by similarity."""

from __future__ import annotations

import numpy as np

from evalplugin.models.kernels.arguments import SortedNeighbours
from evalplugin.models.kernels.compiled import CodesOut, Ints, IntsOut, KeysOut, Matrix, compiled
from evalplugin.models.threads import for_ranges

__all__ = ["chunk_of", "sort_all", "sort_neighbours"]

_CHUNK_CELLS = 500_000  # similarities sorted at a time: 4 MB


def chunk_of(similarity: Matrix) -> int:
    """Return the number of x whose neighbours a thread sorts at a time."""
    return max(1, _CHUNK_CELLS // max(1, len(similarity)))


def sort_all(similarity: Matrix) -> list[SortedNeighbours]:
    """Return the neighbours of every x, in chunks of ``chunk_of`` x."""
    n, chunk = len(similarity), chunk_of(similarity)
    every = np.arange(n)
    orders = [SortedNeighbours(every[:0], np.empty(0, dtype=np.int32))] * -(-n // chunk)

    def some(start: int, stop: int) -> None:
        orders[start // chunk] = sort_neighbours(similarity, every[start:stop])

    for_ranges(some, n, chunk)
    return orders


def sort_neighbours(similarity: Matrix, xs: Ints) -> SortedNeighbours:
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


@compiled
def _count(similarity: Matrix, xs: Ints, indptr: IntsOut) -> None:
    for row in range(len(xs)):
        number = 0
        for other in range(similarity.shape[1]):
            number += similarity[xs[row], other] > 0.0
        indptr[row + 1] = indptr[row] + number


@compiled
def _keys(similarity: Matrix, xs: Ints, bits: int, indptr: Ints, keys: KeysOut) -> None:
    low = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    pattern = similarity.view(np.uint64)
    for row in range(len(xs)):
        x, position = xs[row], indptr[row]
        for other in range(similarity.shape[1]):
            if similarity[x, other] > 0.0:
                keys[position] = (~pattern[x, other] & ~low) | np.uint64(other)
                position += 1


@compiled
def _from_keys(similarity: Matrix, xs: Ints, bits: int, indptr: Ints, keys: KeysOut, order: CodesOut) -> None:
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
