"""Similarities of users or items, with the bits of scikit-surprise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evalplugin.models.kernels import compiled as nb
from evalplugin.models.threads import for_ranges

_ROWS = 32  # rows at a time; the last rows have fewest pairs, so that threads finish together
_TILE = 32


class IndexedRatings(NamedTuple):
    """Ratings by x (the users or the items, whichever have similarities) and by y (the others), ascending in a row.

    ``after`` holds, for each rating of an x, the position in ``x_of`` of the next x with a rating for the same y.
    """

    x_indptr: nb.Ints  # (n_x + 1,)
    y_of: nb.Codes  # (m,) by x, then y
    x_value: nb.Floats  # (m,)
    after: nb.Ints  # (m,)
    y_indptr: nb.Ints  # (n_y + 1,)
    x_of: nb.Codes  # (m,) by y, then x
    y_value: nb.Floats  # (m,)

    @classmethod
    def of(cls, by_x: nb.Entries, y_indptr: nb.Ints, x_of: nb.Codes) -> IndexedRatings:
        """Index ratings, given those of each x and the x of each y."""
        order = np.argsort(by_x.other, kind="stable")
        after = np.empty(len(order), dtype=np.int64)
        after[order] = np.arange(1, len(order) + 1)
        return cls(*by_x, after, y_indptr, x_of, by_x.value[order])


class SimilarityOptions(NamedTuple):
    """Minimum support and shrinkage of a similarity."""

    min_support: int  # fewest common y of a pair with a similarity
    shrunk: bool  # whether a similarity with few common y is shrunk
    shrinkage: float


def similarities(name: str, ratings: IndexedRatings, min_support: int, shrinkage: float) -> nb.Matrix:
    """Return the similarity of each pair of x: float64 (n_x, n_x), symmetric.

    Each pair's sums run over its common y in ascending order, as in Surprise; each pair is computed once.

    Args:
        name: cosine, msd, pearson or pearson_baseline; of ratings, or with the last one of deviations from baselines.
        ratings: The ratings, or deviations.
        min_support: Fewest common y of a pair with a similarity.
        shrinkage: For pearson_baseline; ignored by the others.

    Raises:
        ZeroDivisionError: Of cosine and pearson_baseline, where a norm is zero.
    """
    n = len(ratings.x_indptr) - 1
    similarity = np.empty((n, n))
    undefined = np.zeros(n, dtype=np.bool_)
    shrunk = name == "pearson_baseline"
    options = SimilarityOptions(max(2, min_support) if shrunk else min_support, shrunk, shrinkage)
    loop: Callable[..., None] = {"msd": _msd, "pearson": _pearson}.get(name, _cosine)

    def rows(start: int, stop: int) -> None:
        loop(start, stop, ratings, options, similarity, undefined)

    for_ranges(rows, n, _ROWS)
    if undefined.any():
        raise ZeroDivisionError
    for_ranges(lambda start, stop: _mirror(start, stop, similarity), n, 4 * _TILE)
    return similarity


@nb.compiled
def _msd(
    start: int,
    stop: int,
    ratings: IndexedRatings,
    options: SimilarityOptions,
    similarity: nb.MatrixOut,
    undefined: nb.Flags,
) -> None:
    x_indptr, y_of, x_value, after, y_indptr, x_of, y_value = ratings
    min_support, _, _ = options
    n = len(x_indptr) - 1
    sums = np.zeros((n, 2))  # squared differences, common y
    for x in range(start, stop):
        for entry in range(x_indptr[x], x_indptr[x + 1]):
            value = x_value[entry]
            for position in range(after[entry], y_indptr[y_of[entry] + 1]):
                other = x_of[position]
                difference = value - y_value[position]
                sums[other, 0] += difference * difference
                sums[other, 1] += 1.0
        similarity[x, x] = 1.0
        for other in range(x + 1, n):
            common = sums[other, 1]
            similarity[x, other] = 1.0 / (sums[other, 0] / common + 1.0) if common >= min_support else 0.0
            sums[other, 0] = 0.0
            sums[other, 1] = 0.0


@nb.compiled
def _cosine(
    start: int,
    stop: int,
    ratings: IndexedRatings,
    options: SimilarityOptions,
    similarity: nb.MatrixOut,
    undefined: nb.Flags,
) -> None:
    x_indptr, y_of, x_value, after, y_indptr, x_of, y_value = ratings
    min_support, shrunk, shrinkage = options
    n = len(x_indptr) - 1
    sums = np.zeros((n, 4))  # common y, products, squares of x, squares of the other
    for x in range(start, stop):
        for entry in range(x_indptr[x], x_indptr[x + 1]):
            value = x_value[entry]
            square = value * value
            for position in range(after[entry], y_indptr[y_of[entry] + 1]):
                other = x_of[position]
                other_value = y_value[position]
                sums[other, 0] += 1.0
                sums[other, 1] += value * other_value
                sums[other, 2] += square
                sums[other, 3] += other_value * other_value
        similarity[x, x] = 1.0
        for other in range(x + 1, n):
            common = sums[other, 0]
            if common >= min_support:
                norm = math.sqrt(sums[other, 2] * sums[other, 3])
                undefined[x] |= norm == 0.0
                result = sums[other, 1] / norm
                if shrunk:
                    result *= (common - 1.0) / (common - 1.0 + shrinkage)
            else:
                result = 0.0
            similarity[x, other] = result
            for column in range(4):
                sums[other, column] = 0.0


@nb.compiled
def _pearson(
    start: int,
    stop: int,
    ratings: IndexedRatings,
    options: SimilarityOptions,
    similarity: nb.MatrixOut,
    undefined: nb.Flags,
) -> None:
    x_indptr, y_of, x_value, after, y_indptr, x_of, y_value = ratings
    min_support, _, _ = options
    n = len(x_indptr) - 1
    sums = np.zeros((n, 6))  # common y, products, squares and sums of x and of the other
    for x in range(start, stop):
        for entry in range(x_indptr[x], x_indptr[x + 1]):
            value = x_value[entry]
            square = value * value
            for position in range(after[entry], y_indptr[y_of[entry] + 1]):
                other = x_of[position]
                other_value = y_value[position]
                sums[other, 0] += 1.0
                sums[other, 1] += value * other_value
                sums[other, 2] += square
                sums[other, 3] += other_value * other_value
                sums[other, 4] += value
                sums[other, 5] += other_value
        similarity[x, x] = 1.0
        for other in range(x + 1, n):
            common = sums[other, 0]
            result = 0.0
            if common >= min_support:
                sum_a, sum_b = sums[other, 4], sums[other, 5]
                root = math.sqrt(
                    (common * sums[other, 2] - sum_a * sum_a) * (common * sums[other, 3] - sum_b * sum_b)
                )
                if root != 0.0:
                    result = (common * sums[other, 1] - sum_a * sum_b) / root
            similarity[x, other] = result
            for column in range(6):
                sums[other, column] = 0.0


@nb.compiled
def _mirror(start: int, stop: int, similarity: nb.MatrixOut) -> None:
    n = len(similarity)
    for first in range(start, stop, _TILE):
        for second in range(first, n, _TILE):
            for x in range(first, min(first + _TILE, stop)):
                for other in range(max(second, x + 1), min(second + _TILE, n)):
                    similarity[other, x] = similarity[x, other]
