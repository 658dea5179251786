"""Estimates from the k nearest neighbours, to the bit those of scikit-surprise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalplugin.models.kernels.orders import Orders, all_orders, chunk_of, orders_of
from evalplugin.models.kernels.walk import walk
from evalplugin.models.threads import for_ranges

__all__ = ["NeighbourRows", "all_orders", "neighbour_means"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class NeighbourRows:
    """What each x has rated, or who has rated it, laid out for the walk along the neighbours.

    x are the side that has similarities, y the other one. The y of a row stand in ascending order of popularity (their
    number of entries), under their rank in that order, so that a row can be left where only y that are full follow.
    """

    indptr: Ints  # (n_x + 1,)
    rank: Ids  # (m,)
    value: Floats  # (m,)
    place: Ids  # (m,) where the entry stands in the list of its y; empty if every list ascends by x
    capacity: Ints  # (n_y,) by rank: how many neighbours the y can have
    y_of: Ints  # (n_y,) by rank

    @classmethod
    def of(
        cls, x: Ids, y: Ids, value: Floats, place: Ids | None, shape: tuple[int, int], k: int
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
            np.empty(0, dtype=np.int32) if place is None else place[order],
            np.minimum(counts[y_of], max(k, 0)),
            y_of,
        )


def neighbour_means(
    similarity: Floats,
    xs: Ints,
    rows: NeighbourRows,
    scale: Floats | None,
    min_k: int,
    otherwise: float,
    means: Floats,
    orders: list[Orders] | None = None,
) -> None:
    """Write the similarity-weighted mean of the neighbours' values for each x and every y.

    The neighbours of (x, y) are the k most similar of those that have an entry for y, x itself included, equally
    similar ones in the order of the list of y; those of positive similarity count. Sums run in that order.

    Args:
        similarity: (n_x, n_x); undefined ones are NaN and count as none.
        xs: Which x are asked for.
        rows: The entries, and through their capacity k.
        scale: (n_x,) what each neighbour's term is divided by, or None.
        min_k: Fewest neighbours that make a mean.
        otherwise: The value where there are fewer.
        means: (len(xs), n_y) of any layout, to be written.
        orders: From ``all_orders``, if all x are asked for; None: found on the way.
    """
    divisor = np.ones(1) if scale is None else scale
    chunk = chunk_of(similarity)
    loop: Callable[..., None] = walk
    if len(rows.place):
        from evalplugin.models.kernels.walk_in_lists import walk_in_lists

        loop = walk_in_lists

    def some_rows(start: int, stop: int) -> None:
        some = xs[start:stop]
        order = orders_of(similarity, some) if orders is None else orders[start // chunk]
        loop(
            similarity,
            some,
            *order,
            rows.indptr,
            rows.rank,
            rows.value,
            rows.place,
            rows.capacity,
            rows.y_of,
            scale is not None,
            divisor,
            max(min_k, 1),
            otherwise,
            means[start:stop],
        )

    for_ranges(some_rows, len(xs), chunk)
