"""Slates: the items that each decision of a log showed, by position, and the ranks that lists give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Codes, Flags, Floats, Ints
from evalplugin.base.errors import DataError

if TYPE_CHECKING:
    from evalplugin.metrics.context import ScoringContext


@dataclass(frozen=True, eq=False)
class Shown:
    """Where and how likely a log showed the items of a truth.

    ``position`` int64 (t,) from 1; ``propensity`` float64 (t,) above 0, at most 1; ``supported`` bool (n_items,): items
    that any decision of the whole log shows.
    """

    position: Ints
    propensity: Floats
    supported: Flags


@dataclass(frozen=True, eq=False)
class Slates:
    """What B decisions showed at positions 1 to K, a column for each position.

    ``shown`` bool (B, K): whether the log has an item at the position; elsewhere ``item`` is NO_ITEM, ``propensity`` 1
    and ``reward`` 0. ``rank`` int64 (B, K): place of the item in the list, from 1; 0 where it is not listed.
    """

    shown: Flags
    item: Codes
    rank: Ints
    propensity: Floats
    reward: Floats

    @classmethod
    def of(cls, context: ScoringContext, shown: Shown, k: int) -> Slates:
        """Return what the decisions of a block showed at positions 1 to k; K is the last of these that is used.

        Raises:
            DataError: A decision shows two items at a position.
        """
        rows = np.flatnonzero(shown.position <= k)
        shape = context.n_users, int(shown.position[rows].max(initial=1))
        cell = context.truth_row[rows] * shape[1] + shown.position[rows] - 1
        n_shown = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        if (n_shown > 1).any():
            position = int(np.argwhere(n_shown > 1)[0][1]) + 1
            raise DataError(
                f"the log: {int(np.count_nonzero(n_shown > 1)):,} positions of a decision show two items, the first is "
                f"position {position}: each position shows one item, and rows of one decision have one id"
            )
        rank = np.zeros(len(shown.position), dtype=np.int64)
        rank[context.found.truth] = context.found.rank

        def table(values: npt.NDArray[Any], elsewhere: float) -> npt.NDArray[Any]:
            cells = np.full(shape[0] * shape[1], elsewhere, dtype=values.dtype)
            cells[cell] = values[rows]
            return cells.reshape(shape)

        return cls(
            shown=n_shown > 0,
            item=table(context.truth_item, NO_ITEM),
            rank=table(rank, 0),
            propensity=table(shown.propensity, 1.0),
            reward=table(context.truth_rating, 0.0),
        )


def row_totals(values: Floats) -> Floats:
    """Return the sum of each row, (B,), whose bits do not depend on how many zeros follow; NumPy's do."""
    totals: Floats = np.add.accumulate(values, axis=1)[:, -1]
    return totals
