"""Elastic nets of all columns of a matrix on each other, by coordinate descent on the Gram matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np

from evalplugin.models.kernels import compiled as nb


class Penalties(NamedTuple):
    """Penalties, and when to stop."""

    l1: float
    l2: float
    tolerance: float  # steps that are not taken, as a share of the largest weight
    passes: int  # at most


@numba.njit(nogil=True, error_model="numpy")
def _subtract(rest: Any, step: Any, row: Any) -> None:
    """Subtract a multiple of a row."""
    for column in range(len(rest)):
        rest[column] -= step * row[column]


@nb.compiled
def regress_columns(
    start: int, stop: int, gram: nb.Matrix32, penalties: Penalties, weights: nb.MatrixOut
) -> None:
    """Write the weights w >= 0 of the other columns for each column j in a range, with w_j = 0.

    They minimise w' G w / 2 - G_j' w + l1 sum(w) + l2 w' w / 2. A pass over all columns takes in those that reduce it;
    then the weights above zero are fitted alone, on their part of the Gram matrix; and so on. All columns of the range
    take the same step of a pass one after the other, while its row of the Gram matrix is in the processor's cache; no
    weight depends on the range.

    Args:
        start, stop: The range.
        gram: G, symmetric.
        penalties: Penalties, tolerance, and the most passes.
        weights: (stop - start, n), the output.
    """
    l1, l2, tolerance, passes = penalties
    n, size = len(gram), stop - start
    rest = gram[start:stop].copy()  # G_j - G w
    fitted = np.empty((size, n))
    largest = np.zeros(size)
    going = np.ones(size, dtype=np.bool_)
    weights[:] = 0.0
    for _ in range(passes):
        moved = np.zeros(size, dtype=np.bool_)
        for i in range(n):
            diagonal = np.float64(gram[i, i])
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
                _subtract(rest[j], np.float32(new - old), gram[i])
        going &= moved
        if not going.any():
            break
        fitted[:] = weights
        for j in range(size):
            if not going[j]:
                continue
            active = np.flatnonzero(weights[j])
            n_active = len(active)
            part, near = gram[active][:, active], rest[j][active]
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
                    _subtract(rest[j], step, gram[i])
