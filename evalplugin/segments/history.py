"""Lengths of users' histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, Ints, described, search
from evalplugin.data import Split


@dataclass(frozen=True, eq=False)
class HistoryLengths:
    """The number of interactions that are known of each test user, by train data or a history.

    ``users`` (U,) raw ids, sorted; ``length`` int64 (U,).
    """

    users: npt.NDArray[np.generic]
    length: Ints

    __repr__ = described

    def of(self, users: npt.NDArray[np.generic]) -> Floats:
        """Return the number for each user, by raw id (V,): float64 (V,), NaN where it is not known."""
        position, is_known = search(self.users, users)
        return np.where(is_known, np.append(self.length, 0)[position], np.nan)


def history_lengths(folds: Sequence[Split]) -> HistoryLengths:
    """Return the lengths of all test users, each of the first fold that tests the user."""
    vocabulary = folds[0].test.users
    length = np.full(len(vocabulary), -1, dtype=np.int64)
    for fold in reversed(folds):
        tested = np.bincount(fold.test.user, minlength=len(vocabulary)) > 0
        length[tested] = fold.known.user_events[tested]
    known = length >= 0
    return HistoryLengths(vocabulary[known], length[known])
