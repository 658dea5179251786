"""Shared arguments of the loops over nearest neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.models.kernels.compiled import Codes, Floats, Ints

__all__ = ["MeanOptions", "NeighbourRows", "SortedNeighbours"]


class SortedNeighbours(NamedTuple):
    """The neighbours of some x: all x of positive similarity, most similar first, ties ascending by x."""

    indptr: Ints  # (number of x + 1,)
    other: Codes


class NeighbourRows(NamedTuple):
    """The ratings (entries) of each x, laid out for the walk along its neighbours.

    The x are the users or the items, whichever have similarities, the y the others. A row lists its y by their rank in
    ascending order of popularity (number of entries), so that a walk can stop where only y with k neighbours follow.
    """

    indptr: Ints  # (n_x + 1,)
    rank: Codes  # (m,)
    value: Floats  # (m,)
    position: Codes  # (m,) index of the entry in the list of its y; empty if every list ascends by x
    capacity: Ints  # (n_y,) by rank: the most neighbours that the y can have
    y_of: Ints  # (n_y,) by rank

    @classmethod
    def of(
        cls,
        x: npt.NDArray[np.int32],
        y: npt.NDArray[np.int64],
        value: npt.NDArray[np.float64],
        position: npt.NDArray[np.int32] | None,
        shape: tuple[int, int],
        k: int,
    ) -> NeighbourRows:
        """Return the rows of (x, y, value) entries in any order, for at most k neighbours."""
        n_x, n_y = shape
        counts = np.bincount(y, minlength=n_y)
        y_of = np.argsort(counts, kind="stable")
        rank_of = np.empty(n_y, dtype=np.int32)
        rank_of[y_of] = np.arange(n_y, dtype=np.int32)
        rank = rank_of[y]
        order = np.argsort(x.astype(np.int64) * n_y + rank)
        indptr = np.zeros(n_x + 1, dtype=np.int64)
        np.cumsum(np.bincount(x, minlength=n_x), out=indptr[1:])
        return cls(
            indptr,
            rank[order],
            value[order],
            np.empty(0, dtype=np.int32) if position is None else position[order],
            np.minimum(counts[y_of], max(k, 0)),
            y_of,
        )


class MeanOptions(NamedTuple):
    """Scaling of the neighbours' terms, and the fallback for too few neighbours."""

    scaled: bool  # whether each neighbour's term is divided
    divisor: Floats  # (n_x,) the divisors; unused unless scaled
    min_k: int  # fewest neighbours of a mean, at least 1
    otherwise: float  # the value with fewer neighbours
