"""Predictions of SlopeOne from mean differences of items, to the bit those of scikit-surprise."""

from __future__ import annotations

import numpy as np

from evalplugin.models.kernels.compiled import Codes, Floats, Ints, Matrix, MatrixInts, MatrixOut, compiled
from evalplugin.models.threads import for_ranges

__all__ = ["mean_differences"]

_TILE = 64  # items at a time: their columns of both matrices fit in the cache


def mean_differences(
    users: Ints, indptr: Ints, item: Codes, user_mean: Floats, difference: Matrix, together: MatrixInts
) -> Matrix:
    """Return each user's mean plus each item's mean difference from the user's items: float64 (len(users), n_items).

    Args:
        users: Inner ids.
        indptr, item: The items of all users, in the order in which differences are added.
        user_mean: (n_users,) mean ratings.
        difference: (n_items, n_items), antisymmetric.
        together: int64 (n_items, n_items), number of users who rated both; pairs without any do not count.
    """
    estimates = np.empty((len(users), len(difference)))

    def columns(start: int, stop: int) -> None:
        _tile(start, stop, users, indptr, item, user_mean, difference, together, estimates)

    for_ranges(columns, len(difference), _TILE)
    return estimates


@compiled
def _tile(
    start: int,
    stop: int,
    users: Ints,
    indptr: Ints,
    item: Codes,
    user_mean: Floats,
    difference: Matrix,
    together: MatrixInts,
    estimates: MatrixOut,
) -> None:
    total = np.empty(stop - start)
    number = np.empty(stop - start, dtype=np.int64)
    for row in range(len(users)):
        user = users[row]
        total[:] = 0.0
        number[:] = 0
        for entry in range(indptr[user], indptr[user + 1]):
            # difference[i, j] is -difference[j, i], so that a row can be read.
            differences, common = difference[item[entry], start:stop], together[item[entry], start:stop]
            for column in range(stop - start):
                counts = common[column] > 0
                total[column] -= differences[column] if counts else 0.0
                number[column] += counts
        for column in range(stop - start):
            if number[column] > 0:
                estimates[row, start + column] = user_mean[user] + total[column] / number[column]
            else:
                estimates[row, start + column] = user_mean[user]
