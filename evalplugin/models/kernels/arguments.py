"""Shared arguments of the loops over neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.models.kernels.compiled import Codes, Floats, Ints

__all__ = ["MeanOptions", "NeighbourRows", "SortedNeighbours"]


class SortedNeighbours(NamedTuple):
    """For some x, all x of positive similarity: descending, equal ones ascending by x."""

    indptr: Ints  # (number of x + 1,)
    other: Codes


class NeighbourRows(NamedTuple):
    """The entries of each x (what it has rated, or who has rated it), laid out for the walk along the neighbours.

    x are the side that has similarities, y the other one. The y of a row are in ascending order of popularity (their
    number of entries), under their rank in that order, so that a row can be left where only y that are full follow.
    """

    indptr: Ints  # (n_x + 1,)
    rank: Codes  # (m,)
    value: Floats  # (m,)
    position: Codes  # (m,) of the entry in the list of its y; empty if every list ascends by x
    capacity: Ints  # (n_y,) by rank: how many neighbours the y can have
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
    """The weights of a mean of neighbours, and when there is one."""

    scaled: bool  # whether each neighbour's term is divided
    divisor: Floats  # (n_x,) by what
    min_k: int  # fewest neighbours that make a mean
    otherwise: float  # the value where there are fewer

    @classmethod
    def of(cls, scale: npt.NDArray[np.float64] | None, min_k: int, otherwise: float) -> MeanOptions:
        """Return the options; ``scale`` (n_x,) is what each neighbour's term is divided by, or None."""
        divisor = np.ones(1) if scale is None else scale
        return cls(scale is not None, divisor, max(min_k, 1), otherwise)
