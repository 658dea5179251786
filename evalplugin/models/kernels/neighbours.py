"""Estimates from the k nearest neighbours, to the bit those of scikit-surprise."""

from __future__ import annotations

from evalplugin.models.kernels.arguments import MeanOptions, NeighbourRows, SortedNeighbours
from evalplugin.models.kernels.compiled import Ints, Matrix, MatrixOut
from evalplugin.models.kernels.sorting import chunk_of, sort_neighbours
from evalplugin.models.kernels.walk import walk, walk_with_ties
from evalplugin.models.threads import for_ranges

__all__ = ["neighbour_means"]


def neighbour_means(
    similarity: Matrix,
    xs: Ints,
    rows: NeighbourRows,
    options: MeanOptions,
    means: MatrixOut,
    orders: list[SortedNeighbours] | None = None,
) -> None:
    """Write the similarity-weighted mean of the neighbours' values for each x and every y.

    The neighbours of (x, y) are the k most similar of those that have an entry for y, x itself included, equally
    similar ones in the order of the list of y; those of positive similarity count. Sums run in that order.

    Args:
        similarity: (n_x, n_x); undefined ones are NaN and count as none.
        xs: The x to compute.
        rows: The entries; their capacity implies k.
        options: Scaling and fallback.
        means: (len(xs), n_y) of any layout, the output.
        orders: From ``sort_all``, if ``xs`` are all x; None: neighbours are sorted here, chunk by chunk.
    """
    chunk = chunk_of(similarity)
    kernel = walk_with_ties if len(rows.position) else walk

    def some_rows(start: int, stop: int) -> None:
        some = xs[start:stop]
        order = sort_neighbours(similarity, some) if orders is None else orders[start // chunk]
        kernel(similarity, some, order, rows, options, means[start:stop])

    for_ranges(some_rows, len(xs), chunk)
