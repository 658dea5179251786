"""Similarities of users or items as scikit-surprise defines them, by products of sparse matrices."""

from __future__ import annotations

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import sparse
from evalplugin.models.threads import for_ranges

_CELLS = 1_000_000  # pairs that a thread works on at a time


def similarities(
    name: str, ratings: sparse.csr_array, min_support: int = 1, shrinkage: float = 100.0
) -> Floats:
    """Return the similarity of each pair of rows: float64 (n, n), symmetric.

    A product of sparse matrices adds the entries of two rows in the order of columns, wherever the rows are, so that
    similarities which tie in Surprise tie here.

    Args:
        name: cosine, msd, pearson or pearson_baseline.
        ratings: Ratings (n, m), or for pearson_baseline their deviations from baselines; columns ascend within a row.
        min_support: Fewest common columns of a pair with a similarity.
        shrinkage: For pearson_baseline; ignored by the others.

    Raises:
        ZeroDivisionError: Of cosine and pearson_baseline, where a norm is zero.
    """
    n = ratings.shape[0]
    present, squares = ratings.copy(), ratings.copy()
    present.data[:] = 1.0
    squares.data **= 2
    min_support = max(2, min_support) if name == "pearson_baseline" else min_support
    similarity, undefined = np.eye(n), np.zeros(n, dtype=np.bool_)
    columns = {id(matrix): matrix.T.tocsr() for matrix in (ratings, present, squares)}

    def rows(start: int, stop: int) -> None:
        def sums(left: sparse.csr_array, right: sparse.csr_array) -> Floats:
            product: Floats = (left[start:stop] @ columns[id(right)]).toarray()
            return product

        common, products = sums(present, present), sums(ratings, ratings)
        own, other = sums(squares, present), sums(present, squares)
        supported = common >= min_support
        supported[np.arange(stop - start), np.arange(start, stop)] = False
        with np.errstate(divide="ignore", invalid="ignore"):
            if name == "msd":
                result = 1 / (np.maximum(own + other - 2 * products, 0) / common + 1)
            elif name == "pearson":
                own_sum, other_sum = sums(ratings, present), sums(present, ratings)
                norm = np.sqrt((common * own - own_sum**2) * (common * other - other_sum**2))
                result = np.where(norm == 0, 0, (common * products - own_sum * other_sum) / norm)
            else:
                norm = np.sqrt(own * other)
                result = products / norm
                undefined[start:stop] = (supported & (norm == 0)).any(axis=1)
                if name == "pearson_baseline":
                    result *= (common - 1) / (common - 1 + shrinkage)
        similarity[start:stop][supported] = result[supported]

    for_ranges(rows, n, max(1, _CELLS // n))
    if undefined.any():
        raise ZeroDivisionError
    return similarity
