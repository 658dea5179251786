"""Similarities of users or items, to the bit those of scikit-surprise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import types

from evalplugin.models.kernels.compiled import FLOATS, IDS, INTS, OUT_2D, OUT_FLAGS, compiled
from evalplugin.models.threads import for_ranges

__all__ = ["Columns", "similarities"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

_ROWS = 32  # rows at a time: the last of them are short, so that threads end together
_TILE = 32


@dataclass(frozen=True, eq=False)
class Columns:
    """Ratings by x, the side that has similarities, and by y, the other one; both ascend within a row.

    ``after`` says for each rating of an x where in ``x_of`` the next x with a rating for the same y stands.
    """

    x_indptr: Ints  # (n_x + 1,)
    y_of: Ids  # (m,) by x, then y
    x_value: Floats  # (m,)
    after: Ints  # (m,)
    y_indptr: Ints  # (n_y + 1,)
    x_of: Ids  # (m,) by y, then x
    y_value: Floats  # (m,)

    @classmethod
    def of(cls, x_indptr: Ints, y_of: Ids, value: Floats, n_y: int) -> Columns:
        """Return the same ratings both ways, from those by x."""
        order = np.argsort(y_of, kind="stable")
        x = np.repeat(np.arange(len(x_indptr) - 1, dtype=np.int32), np.diff(x_indptr))
        after = np.empty(len(order), dtype=np.int64)
        after[order] = np.arange(1, len(order) + 1)
        y_indptr = np.concatenate([[0], np.cumsum(np.bincount(y_of, minlength=n_y))])
        return cls(x_indptr, y_of, value, after, y_indptr, x[order], value[order])


def similarities(name: str, columns: Columns, min_support: int, shrinkage: float) -> Floats:
    """Return the similarity of each pair of x: float64 (n_x, n_x), symmetric.

    Each pair's sums run over its common y in ascending order, as in Surprise; each pair is computed once.

    Args:
        name: cosine, msd, pearson or pearson_baseline; of ratings, or with the last one of deviations from baselines.
        columns: The ratings, or deviations.
        min_support: Fewest common y of a pair with a similarity.
        shrinkage: Of pearson_baseline; the others take no notice.

    Raises:
        ZeroDivisionError: A cosine or pearson_baseline has a zero norm.
    """
    n = len(columns.x_indptr) - 1
    similarity = np.empty((n, n))
    undefined = np.zeros(n, dtype=np.bool_)
    if name == "pearson_baseline":
        min_support = max(2, min_support)
    loop: Callable[..., None] = {"msd": _msd, "pearson": _pearson}.get(name, _cosine)
    shrunk = name == "pearson_baseline"

    def rows(start: int, stop: int) -> None:
        loop(
            start,
            stop,
            columns.x_indptr,
            columns.y_of,
            columns.x_value,
            columns.after,
            columns.y_indptr,
            columns.x_of,
            columns.y_value,
            min_support,
            shrunk,
            shrinkage,
            similarity,
            undefined,
        )

    for_ranges(rows, n, _ROWS)
    if undefined.any():
        raise ZeroDivisionError
    for_ranges(lambda start, stop: _mirror(start, stop, similarity), n, 4 * _TILE)
    return similarity


_SIGNATURE = (
    types.int64,
    types.int64,
    INTS,
    IDS,
    FLOATS,
    INTS,
    INTS,
    IDS,
    FLOATS,
    types.int64,
    types.boolean,
    types.float64,
    OUT_2D,
    OUT_FLAGS,
)


@compiled(*_SIGNATURE)
def _msd(
    start: int,
    stop: int,
    x_indptr: Ints,
    y_of: Ids,
    x_value: Floats,
    after: Ints,
    y_indptr: Ints,
    x_of: Ids,
    y_value: Floats,
    min_support: int,
    shrunk: bool,
    shrinkage: float,
    similarity: Floats,
    undefined: npt.NDArray[np.bool_],
) -> None:
    n = len(x_indptr) - 1
    sums = np.zeros((n, 2))  # squared differences, common y
    for x in range(start, stop):
        for entry in range(x_indptr[x], x_indptr[x + 1]):
            value = x_value[entry]
            for place in range(after[entry], y_indptr[y_of[entry] + 1]):
                other = x_of[place]
                difference = value - y_value[place]
                sums[other, 0] += difference * difference
                sums[other, 1] += 1.0
        similarity[x, x] = 1.0
        for other in range(x + 1, n):
            common = sums[other, 1]
            similarity[x, other] = 1.0 / (sums[other, 0] / common + 1.0) if common >= min_support else 0.0
            sums[other, 0] = 0.0
            sums[other, 1] = 0.0


@compiled(*_SIGNATURE)
def _cosine(
    start: int,
    stop: int,
    x_indptr: Ints,
    y_of: Ids,
    x_value: Floats,
    after: Ints,
    y_indptr: Ints,
    x_of: Ids,
    y_value: Floats,
    min_support: int,
    shrunk: bool,
    shrinkage: float,
    similarity: Floats,
    undefined: npt.NDArray[np.bool_],
) -> None:
    n = len(x_indptr) - 1
    sums = np.zeros((n, 4))  # common y, products, squares of x, squares of the other
    for x in range(start, stop):
        for entry in range(x_indptr[x], x_indptr[x + 1]):
            value = x_value[entry]
            square = value * value
            for place in range(after[entry], y_indptr[y_of[entry] + 1]):
                other = x_of[place]
                theirs = y_value[place]
                sums[other, 0] += 1.0
                sums[other, 1] += value * theirs
                sums[other, 2] += square
                sums[other, 3] += theirs * theirs
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


@compiled(*_SIGNATURE)
def _pearson(
    start: int,
    stop: int,
    x_indptr: Ints,
    y_of: Ids,
    x_value: Floats,
    after: Ints,
    y_indptr: Ints,
    x_of: Ids,
    y_value: Floats,
    min_support: int,
    shrunk: bool,
    shrinkage: float,
    similarity: Floats,
    undefined: npt.NDArray[np.bool_],
) -> None:
    n = len(x_indptr) - 1
    sums = np.zeros((n, 6))  # common y, products, squares and sums of x and of the other
    for x in range(start, stop):
        for entry in range(x_indptr[x], x_indptr[x + 1]):
            value = x_value[entry]
            square = value * value
            for place in range(after[entry], y_indptr[y_of[entry] + 1]):
                other = x_of[place]
                theirs = y_value[place]
                sums[other, 0] += 1.0
                sums[other, 1] += value * theirs
                sums[other, 2] += square
                sums[other, 3] += theirs * theirs
                sums[other, 4] += value
                sums[other, 5] += theirs
        similarity[x, x] = 1.0
        for other in range(x + 1, n):
            common = sums[other, 0]
            result = 0.0
            if common >= min_support:
                ours, theirs = sums[other, 4], sums[other, 5]
                root = math.sqrt(
                    (common * sums[other, 2] - ours * ours) * (common * sums[other, 3] - theirs * theirs)
                )
                if root != 0.0:
                    result = (common * sums[other, 1] - ours * theirs) / root
            similarity[x, other] = result
            for column in range(6):
                sums[other, column] = 0.0


@compiled(types.int64, types.int64, OUT_2D)
def _mirror(start: int, stop: int, similarity: Floats) -> None:
    n = len(similarity)
    for first in range(start, stop, _TILE):
        for second in range(first, n, _TILE):
            for x in range(first, min(first + _TILE, stop)):
                for other in range(max(second, x + 1), min(second + _TILE, n)):
                    similarity[other, x] = similarity[x, other]
