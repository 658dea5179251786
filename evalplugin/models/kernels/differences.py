"""Predictions of SlopeOne from mean differences of items, with the bits of scikit-surprise."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evalplugin.models.kernels.compiled import Codes, Floats, Ints, Matrix, MatrixInts, MatrixOut, compiled
from evalplugin.models.threads import for_ranges

_TILE = 64  # items at a time: their columns of both matrices fit in the cache


class Differences(NamedTuple):
    """The items and the mean rating of each user, and the mean differences between items."""

    indptr: Ints  # (n_users + 1,)
    item: Codes  # (m,) in the order in which differences are added
    user_mean: Floats  # (n_users,)
    difference: Matrix  # (n_items, n_items), antisymmetric
    together: MatrixInts  # (n_items, n_items) number of users who rated both; pairs without any do not count


def mean_differences(users: Ints, learned: Differences) -> Matrix:
    """Return each user's mean plus each item's mean difference from the user's items: float64 (len(users), n_items)."""
    n_items = len(learned.difference)
    estimates = np.empty((len(users), n_items))
    for_ranges(lambda start, stop: _tile(start, stop, users, learned, estimates), n_items, _TILE)
    return estimates


@compiled
def _tile(start: int, stop: int, users: Ints, learned: Differences, estimates: MatrixOut) -> None:
    indptr, item, user_mean, difference, together = learned
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
