"""The reward to be expected of an item at a position, by a log of decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats

if TYPE_CHECKING:
    from evalplugin.data.interactions import Interactions

_PRIOR = 20.0  # rows of the log that what is expected without an item's own rows counts as


@dataclass(frozen=True, eq=False)
class RewardModel:
    """Mean reward of each item at each position, shrunk to the means of the item and of the position.

    Of n rows with the sum of rewards s and the expectation e without them, the shrunk mean is (s + 20 e) / (n + 20).
    The expectation is the mean of all rows for an item and for a position; for an item at a position it is the shrunk
    mean of the item plus that of the position less the mean of all, within the range of the rewards.
    """

    log: Interactions
    mean: float  # of all rows
    of_items: Floats  # (n_items,) shrunk

    @classmethod
    def of(cls, log: Interactions) -> RewardModel:
        """Return the model of a log of decisions, whose ratings are rewards; rows without reward count."""
        mean = float(log.rating.mean(dtype=np.float64)) if len(log) else 0.0
        return cls(log, mean, _shrunk(log.item, log.rating, log.n_items, mean))

    def at(self, position: int) -> Floats:
        """Return the expected reward of each item at a position: float64 (n_items,)."""
        log = self.log
        assert log.position is not None
        if not len(log):
            return self.of_items
        rows = log.position == position
        item, reward = log.item[rows], log.rating[rows].astype(np.float64)
        of_position = (float(reward.sum()) + _PRIOR * self.mean) / (len(item) + _PRIOR)
        expected = np.clip(self.of_items + of_position - self.mean, *log.rating_scale)
        return _shrunk(item, reward, log.n_items, expected)


def _shrunk(
    item: Codes, reward: npt.NDArray[np.floating[Any]], n_items: int, expected: Floats | float
) -> Floats:
    """Return the shrunk mean reward of each item over some rows (m,): float64 (n_items,)."""
    total = np.bincount(item, weights=reward, minlength=n_items).astype(np.float64, copy=False)
    shrunk: Floats = (total + _PRIOR * expected) / (np.bincount(item, minlength=n_items) + _PRIOR)
    return shrunk
