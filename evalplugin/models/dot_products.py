"""Dot products of factor matrices, rounded the same in any block."""

from __future__ import annotations

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.models.threads import for_ranges

__all__ = ["dot_products"]


def dot_products(left: Floats, right: Floats) -> Floats:
    """Return all dot products of the rows of two matrices, each to the bit ``numpy.dot`` of the two rows.

    A matrix product is faster, but its rounding depends on the position in the block, which decides ties by chance.
    """
    products = np.empty((len(left), len(right)))

    def rows(start: int, stop: int) -> None:
        np.vecdot(left[start:stop, None, :], right[None, :, :], out=products[start:stop])

    for_ranges(rows, len(left), 64)
    return products
