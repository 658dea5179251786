"""Elastic nets of all columns of a matrix on each other, by coordinate descent on the Gram matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from evalplugin.base.arrays import Flags
from evalplugin.models.kernels import compiled as nb
from evalplugin.models.kernels.dense import column_products
from evalplugin.models.threads import for_ranges

_ROWS = 256  # of the Gram matrix at a time


class Penalties(NamedTuple):
    """Penalties, and when to stop."""

    l1: float
    l2: float
    tolerance: float  # steps that are not taken, as a share of the largest weight
    passes: int  # at most


class Gram(NamedTuple):
    """Products of all columns of a matrix with all columns: rows with many entries whole, of the others the entries."""

    diagonal: nb.Floats32  # (n,)
    place: nb.Ints  # (n,) a row's place in ``whole``; -1 if its entries are listed
    whole: nb.Matrix32  # (number of whole rows, n)
    indptr: nb.Ints  # (n + 1,)
    other: nb.Codes
    value: nb.Floats32

    @classmethod
    def of(cls, matrix: sparse.csr_array, many: Flags) -> Gram:
        """Return the products, float32 of sums in float64, with the rows that have ``many`` entries whole."""
        n = matrix.shape[1]
        place = np.where(many, many.cumsum() - 1, -1)
        columns, few, diagonal = matrix.T.tocsr(), np.flatnonzero(~many), np.empty(n, dtype=np.float32)
        whole = column_products(matrix, np.flatnonzero(many))
        diagonal[many] = whole[np.arange(len(whole)), np.flatnonzero(many)]
        parts = [sparse.csr_array((0, n), dtype=np.float32)] * max(1, -(-len(few) // _ROWS))

        def some(start: int, stop: int) -> None:
            part = (columns[few[start:stop]] @ matrix).astype(np.float32)
            diagonal[few[start:stop]] = part[np.arange(stop - start), few[start:stop]]
            parts[start // _ROWS] = part

        for_ranges(some, len(few), _ROWS)
        counts = np.zeros(n, dtype=np.int64)
        counts[few] = np.concatenate([np.diff(part.indptr) for part in parts])
        return cls(
            diagonal,
            place,
            whole,
            np.r_[0, counts.cumsum()],
            np.concatenate([part.indices for part in parts]).astype(np.int32, copy=False),
            np.concatenate([part.data for part in parts]),
        )


@numba.njit(nogil=True, error_model="numpy")
def _subtract(own: Any, step: Any, row: Any, gram: Any) -> None:
    """Subtract a multiple of a row of the Gram matrix."""
    _, place, whole, indptr, other, value = gram
    if place[row] >= 0:
        entries = whole[place[row]]
        for c in range(len(own)):
            own[c] -= step * entries[c]
    else:
        for entry in range(indptr[row], indptr[row + 1]):
            own[np.uint64(other[entry])] -= step * value[entry]


@numba.njit(nogil=True, error_model="numpy")
def _part(active: Any, gram: Any, at: Any) -> Any:
    """Return the rows and columns ``active`` of the Gram matrix; ``at`` holds -1 for each column."""
    _, place, whole, indptr, other, value = gram
    part = np.zeros((len(active), len(active)), dtype=np.float32)
    for b in range(len(active)):
        at[active[b]] = b
    for a in range(len(active)):
        row = active[a]
        if place[row] >= 0:
            entries = whole[place[row]]
            for b in range(len(active)):
                part[a, b] = entries[active[b]]
        else:
            for entry in range(indptr[row], indptr[row + 1]):
                if at[other[entry]] >= 0:
                    part[a, at[other[entry]]] = value[entry]
    for c in active:
        at[c] = -1
    return part


@nb.compiled
def regress_columns(start: int, stop: int, gram: Gram, penalties: Penalties, weights: nb.MatrixOut) -> None:
    """Write the weights w >= 0 of the other columns for each column j in a range, with w_j = 0.

    They minimise w' G w / 2 - G_j' w + l1 sum(w) + l2 w' w / 2. A pass over all columns takes in those that reduce it;
    then the weights above zero are fitted alone, on their part of the Gram matrix; and so on. All columns of the range
    take the same step of a pass one after the other, while its row of the Gram matrix is in the processor's cache; no
    weight depends on the range.

    Args:
        start, stop: The range.
        gram: G.
        penalties: Penalties, tolerance, and the most passes.
        weights: (stop - start, n), the output.
    """
    l1, l2, tolerance, passes = penalties
    diagonals = gram[0]
    n, size = len(diagonals), stop - start
    rest, at = np.zeros((size, n), dtype=np.float32), np.full(n, -1, dtype=np.int32)
    for j in range(size):
        _subtract(rest[j], np.float32(-1.0), start + j, gram)  # G_j - G w
    fitted = np.empty((size, n))
    largest = np.zeros(size)
    going = np.ones(size, dtype=np.bool_)
    weights[:] = 0.0
    for _ in range(passes):
        moved = np.zeros(size, dtype=np.bool_)
        for i in range(n):
            diagonal = np.float64(diagonals[i])
            for j in range(size):
                old = weights[j, i]
                if not going[j] or i == start + j or (old == 0.0 and rest[j, i] <= l1):
                    continue
                new = max(0.0, rest[j, i] + diagonal * old - l1) / (diagonal + l2)
                if abs(new - old) <= tolerance * largest[j]:
                    continue
                weights[j, i] = new
                largest[j] = max(largest[j], new)
                moved[j] = True
                _subtract(rest[j], np.float32(new - old), i, gram)
        going &= moved
        if not going.any():
            break
        fitted[:] = weights
        for j in range(size):
            if not going[j]:
                continue
            active = np.flatnonzero(weights[j])
            n_active = len(active)
            part, near = _part(active, gram, at), rest[j][active]
            for _ in range(passes):
                settled = True
                for a in range(n_active):
                    old, diagonal = fitted[j, active[a]], np.float64(part[a, a])
                    new = max(0.0, near[a] + diagonal * old - l1) / (diagonal + l2)
                    if abs(new - old) <= tolerance * largest[j]:
                        continue
                    fitted[j, active[a]] = new
                    largest[j] = max(largest[j], new)
                    settled = False
                    step = np.float32(new - old)
                    for b in range(n_active):
                        near[b] -= step * part[a, b]
                if settled:
                    break
        for i in range(n):
            for j in range(size):
                if fitted[j, i] != weights[j, i]:
                    step = np.float32(fitted[j, i] - weights[j, i])
                    weights[j, i] = fitted[j, i]
                    _subtract(rest[j], step, i, gram)
