"""Shared arguments of the loops over nearest neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from evalplugin.models.kernels.compiled import Codes, Floats, Ints

Number = TypeVar("Number", bound=np.number[Any])

__all__ = ["MeanOptions", "NeighbourRows", "SortedNeighbours"]


class SortedNeighbours(NamedTuple):
    """The neighbours of some x: all x of positive similarity, most similar first, ties ascending by x."""

    indptr: Ints  # (number of x + 1,)
    other: Codes


class NeighbourRows(NamedTuple):
    """The ratings (entries) of each x, laid out for the walk along its neighbours.

    The x are the users or the items, whichever have similarities, the y the others. A row lists its y by their rank in
    ascending order of popularity (number of entries), so that a walk can stop where only y with k neighbours follow.
    Behind each row is an entry of rank n_y, where every walk stops: it is cheaper than a search for the end.
    """

    indptr: Ints  # (n_x + 1,)
    rank: Codes  # (m + n_x,)
    value: Floats  # (m + n_x,)
    position: Codes  # (m + n_x,) index of the entry in the list of its y; empty if every list ascends by x
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
        order = np.argsort(x.astype(np.int64) * n_y + rank_of[y])
        indptr = np.zeros(n_x + 1, dtype=np.int64)
        np.cumsum(np.bincount(x, minlength=n_x) + 1, out=indptr[1:])
        slot = np.arange(len(x)) + x[order]  # the x before it have an entry more each

        def laid_out(of: npt.NDArray[Number], at_end: int) -> npt.NDArray[Number]:
            array = np.full(len(x) + n_x, at_end, dtype=of.dtype)
            array[slot] = of[order]
            return array

        return cls(
            indptr,
            laid_out(rank_of[y], n_y),
            laid_out(value, 0),
            np.empty(0, dtype=np.int32) if position is None else laid_out(position, 0),
            np.minimum(counts[y_of], max(k, 0)),
            y_of,
        )


class MeanOptions(NamedTuple):
    """Scaling of the neighbours' terms, and the fallback for too few neighbours."""

    scaled: bool  # whether each neighbour's term is divided
    divisor: Floats  # (n_x,) the divisors; unused unless scaled
    min_k: int  # fewest neighbours of a mean, at least 1
    otherwise: float  # the value with fewer neighbours
