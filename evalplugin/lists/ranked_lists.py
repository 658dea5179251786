"""Lists whose rows have a rank or a score, sorted block by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM
from evalplugin.base.errors import DataError
from evalplugin.metrics.blocks import ListSource, raw_text
from evalplugin.metrics.grouped_rows import GroupedRows, Users

_BEHIND = np.iinfo(np.int32).max  # sorts behind every item
_SHOWN = 10  # ranks in a message


@dataclass(frozen=True, eq=False)
class RankedLists(ListSource):
    """Rows of lists by user, with a ``rank`` or a ``score`` if unsorted."""

    users: npt.NDArray[np.generic]  # (U,) raw ids, ascending
    rows: GroupedRows  # columns: item, and rank or score

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each list: int64 (U,)."""
        return self.rows.count

    def block(self, users: Users) -> npt.NDArray[np.int32]:
        """Return the lists of some users, as wide as the longest of them; items may be repeated.

        Raises:
            DataError: Ranks that are not 1, 2, 3 and so on.
        """
        count = self.rows.count[users]
        width = max(int(count.max()), 1)
        rows = self.rows.rows(users)
        values = {name: column[rows] for name, column in self.rows.columns.items()}
        if int(count.min()) == width:
            values = {name: column.reshape(len(count), width) for name, column in values.items()}
            item = values["item"].astype(np.int32, copy=False)
        else:
            listed = np.arange(width) < count[:, None]
            item = np.full(listed.shape, NO_ITEM, dtype=np.int32)
            item[listed] = values.pop("item")
            values = {name: _padded(column, listed) for name, column in values.items()}
        if "rank" in values:
            item = self._by_rank(item, values["rank"], count, users)
        elif "score" in values:
            item = _by_score(item, values["score"])
        return item

    def _by_rank(
        self, item: npt.NDArray[np.int32], rank: npt.NDArray[Any], count: npt.NDArray[np.int64], users: Users
    ) -> npt.NDArray[np.int32]:
        """Return items in the order of their ranks; ``rank`` is padded with 0."""
        width = item.shape[1]
        expected = np.arange(1, width + 1, dtype=rank.dtype if width < 100 else np.int64)
        listed, in_order = item != NO_ITEM, rank == expected
        if np.array_equal(listed, in_order):
            return item
        wrong = listed & ((rank < 1) | (rank > count[:, None]))
        target = np.where(wrong | ~listed, 1, rank).astype(np.int64) - 1
        moved = np.full_like(item, NO_ITEM)
        row, column = np.nonzero(listed & ~wrong)
        target = target[row, column]
        taken = np.bincount(row * width + target, minlength=item.size)
        moved[row, target] = item[row, column]
        bad = np.flatnonzero(wrong.any(axis=1) | (taken.reshape(item.shape) > 1).any(axis=1))
        if len(bad):
            user = int(np.arange(len(self.users))[users][bad[0]])
            own = np.sort(self.rows.columns["rank"][self.rows.rows(slice(user, user + 1))])
            shown = ", ".join(map(str, own[:_SHOWN].tolist())) + ", ..." * (len(own) > _SHOWN)
            raise DataError(
                f"lists: the ranks of user {raw_text(self.users[user])} must be 1, 2, 3 and so on, the best item "
                f"first, and are {shown}"
            )
        return moved


def _padded(values: npt.NDArray[Any], listed: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return ragged values as a rectangle, padded with minus infinity (scores) or 0 (ranks)."""
    padded = np.full(listed.shape, -np.inf if values.dtype.kind == "f" else 0, dtype=values.dtype)
    padded[listed] = values
    return padded


def _by_score(item: npt.NDArray[np.int32], score: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.int32]:
    """Return items with the score descending, equal scores by item ascending; NO_ITEM stays last."""
    after, before = score[:, 1:], score[:, :-1]
    fine = before > after
    if fine.all():
        return item
    key = np.where(item == NO_ITEM, _BEHIND, item)
    fine |= (before == after) & (key[:, :-1] <= key[:, 1:])
    unsorted = np.flatnonzero(~fine.all(axis=1))
    if len(unsorted):
        # Sorts that are not stable have vector instructions: by score, and then by place of the score and item.
        order = np.argsort(-score[unsorted], axis=1)
        scores = np.take_along_axis(score[unsorted], order, axis=1)
        place = np.zeros(order.shape, dtype=np.int64)
        np.cumsum(scores[:, 1:] != scores[:, :-1], axis=1, out=place[:, 1:])
        packed = place << 32 | np.take_along_axis(key[unsorted], order, axis=1)
        packed.sort(axis=1)
        key[unsorted] = packed & _BEHIND
        item = np.where(key == _BEHIND, NO_ITEM, key)
    return item
