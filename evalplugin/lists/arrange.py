"""Rows of lists and truth in any order -> blocks of users with their lists, best first, and their truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.metrics import ScoringContext
from evalplugin.metrics.blocks import raw_text
from evalplugin.models.selection import NO_ITEM

__all__ = ["Arranged", "ListBlocks", "arrange", "place_by_rank"]

_PLACES = 2**18  # list places a block, as in evalplugin.metrics.blocks
_CHUNK = 2**20  # rows placed at a time
_BEHIND = np.iinfo(np.int32).max  # sorts behind every item


@dataclass(frozen=True, eq=False)
class Arranged:
    """Rows by user: those of user u are ``rows(u, u + 1)``. Codes of users ascend with their raw ids."""

    start: npt.NDArray[np.int64]  # (U,) where each user's rows begin
    count: npt.NDArray[np.int64]  # (U,) how many they are
    columns: tuple[npt.NDArray[Any], ...]  # (m,) each
    in_order: bool  # rows of one user follow those of the one before
    origin: npt.NDArray[np.int64] | None  # (m,) the row each was in the input; None: as they were

    def rows(self, low: int, high: int) -> slice | npt.NDArray[np.int64]:
        """Return which rows those of users ``low`` to ``high - 1`` are, by user."""
        count = self.count[low:high]
        if self.in_order:
            filled = np.flatnonzero(count)
            if not len(filled):
                return slice(0, 0)
            first = int(self.start[low + filled[0]])
            return slice(first, first + int(count.sum()))
        before = np.cumsum(count) - count
        return np.repeat(self.start[low:high] - before, count) + np.arange(int(count.sum()))


def arrange(
    run_start: npt.NDArray[np.int64],
    run_user: npt.NDArray[np.integer[Any]],
    n_users: int,
    columns: tuple[npt.NDArray[Any], ...],
    n_rows: int,
) -> Arranged:
    """Return rows by user, moved only where a user's rows do not stand together.

    Args:
        run_start, run_user: Where runs of rows of one user begin, and the user's code.
        n_users: Size of the vocabulary of users.
        columns: What belongs to each row.
        n_rows: Number of rows.
    """
    length = np.diff(np.append(run_start, n_rows))
    count = np.zeros(n_users, dtype=np.int64)
    start = np.zeros(n_users, dtype=np.int64)
    if (run_user[1:] > run_user[:-1]).all():
        count[run_user], start[run_user] = length, run_start
        return Arranged(start, count, columns, True, None)
    if np.bincount(run_user, minlength=n_users).max() == 1:
        count[run_user], start[run_user] = length, run_start
        return Arranged(start, count, columns, False, None)
    user = _of_rows(run_user, length)
    count = np.bincount(user, minlength=n_users)
    start = np.cumsum(count) - count
    # One sort of plain numbers, which has vector instructions, instead of a stable sort by user.
    shift = max(1, (n_rows - 1).bit_length())
    packed = user.astype(np.int64) << shift
    packed |= np.arange(n_rows)
    packed.sort()
    packed &= (1 << shift) - 1
    return Arranged(start, count, tuple(c[packed] for c in columns), True, packed)


def place_by_rank(
    run_start: npt.NDArray[np.int64],
    run_user: npt.NDArray[np.integer[Any]],
    n_users: int,
    item: npt.NDArray[Any],
    rank: npt.NDArray[np.integer[Any]],
) -> Arranged | None:
    """Return shuffled items by user and rank, each put where it belongs without any sorting.

    None where that is not needed, or where ranks are not 1, 2, 3 and so on for every user.
    """
    if len(run_start) == n_users:
        return None
    user = _of_rows(run_user, np.diff(np.append(run_start, len(item))))
    count = np.bincount(user, minlength=n_users)
    start = np.cumsum(count) - count
    placed = np.full(len(item), NO_ITEM, dtype=np.int32)
    for low in range(0, len(item), _CHUNK):
        part = slice(low, low + _CHUNK)
        ranks, users = rank[part], user[part]
        if ranks.min() < 1 or (ranks > count[users]).any():
            return None
        placed[start[users] + ranks.astype(np.int64) - 1] = item[part]
    # As many places as rows: a rank that stands twice leaves another place empty.
    return None if (placed == NO_ITEM).any() else Arranged(start, count, (placed,), True, None)


def _of_rows(
    run_user: npt.NDArray[np.integer[Any]], length: npt.NDArray[np.int64]
) -> npt.NDArray[np.integer[Any]]:
    return run_user if (length == 1).all() else np.repeat(run_user, length)


@dataclass(eq=False)
class ListBlocks:
    """Lists and truth of the same users, in blocks."""

    users: npt.NDArray[np.generic]  # (U,) raw ids, ascending
    lists: Arranged  # columns: item, and a rank or a score where there is one
    order: str  # "rank" or "score": what the second column of the lists is; "none": they are in order
    truth: Arranged  # columns: item, and a rating where there is one
    threshold: float | None
    n_items: int
    raw_item: Callable[[int], object]  # a code -> the raw id
    refuse: Callable[[int, str], NoReturn] = field(repr=False)  # a row of the lists breaks a rule
    n: int = 0  # length of the longest list; given where the lists are a part only

    def __post_init__(self) -> None:
        self.n = max(self.n, int(self.lists.count.max(initial=0)), 1)

    def __len__(self) -> int:
        return len(self.users)

    def cuts(self) -> list[tuple[int, int]]:
        """Return the first user of each block and the one behind its last."""
        cuts = []
        low, length = 0, np.maximum(self.lists.count, 1)
        while low < len(self):
            # Lists of very different lengths must not blow up a block: it is as wide as its longest.
            high = min(low + max(1, _PLACES // int(length[low])), len(self))
            high = min(low + max(1, _PLACES // int(length[low:high].max())), high)
            cuts.append((low, high))
            low = high
        return cuts

    def context(self, low: int, high: int) -> ScoringContext:
        """Return lists and truth of the users ``low`` to ``high - 1``.

        Raises:
            DataError: A list or a truth with an item twice, ranks that are not 1, 2, 3 and so on.
        """
        count = self.truth.count[low:high]
        rows = self.truth.rows(low, high)
        item = self.truth.columns[0][rows].astype(np.int32, copy=False)
        indptr = np.zeros(high - low + 1, dtype=np.int64)
        np.cumsum(count, out=indptr[1:])
        if len(self.truth.columns) > 1:
            # As in all data: a rating is a float32, whatever it was made from.
            single = self.truth.columns[1][rows].astype(np.float32)
            rating = single.astype(np.float64)
            relevant = single > 0 if self.threshold is None else single >= np.float32(self.threshold)
        else:
            rating = np.ones(len(item))
            relevant = rating > 0 if self.threshold is None else rating >= self.threshold
        context = ScoringContext(
            item=self._lists(low, high),
            truth_indptr=indptr,
            truth_item=item,
            truth_rating=rating,
            truth_relevant=relevant,
            n_items=self.n_items,
        )
        if (twice := context.truth_pairs.repeated()) is not None:
            raise DataError(
                f"the truth of user {raw_text(self.users[low + twice[0]])} "
                f"has item {raw_text(self.raw_item(twice[1]))} twice"
            )
        return context

    def _lists(self, low: int, high: int) -> npt.NDArray[np.int32]:
        count = self.lists.count[low:high]
        width = max(int(count.max()), 1)
        rows = self.lists.rows(low, high)
        values = [column[rows] for column in self.lists.columns]
        full = int(count.min()) == width
        if full:
            values = [v.reshape(high - low, width) for v in values]
            item = values[0].astype(np.int32, copy=False)
        else:
            listed = np.arange(width) < count[:, None]
            item = np.full(listed.shape, NO_ITEM, dtype=np.int32)
            item[listed] = values[0]
            values = [item, *(_spread(v, listed) for v in values[1:])]
        if self.order == "rank":
            item = self._by_rank(item, values[1], count, low)
        elif self.order == "score":
            item = _by_score(item, values[1])
        ordered = np.sort(item, axis=1)
        twice = ordered[:, 1:] == ordered[:, :-1]
        if not full:
            twice &= ordered[:, 1:] != NO_ITEM
        if twice.any():
            row, column = np.argwhere(twice)[0]
            raise DataError(
                f"the list of user {raw_text(self.users[low + row])} "
                f"has item {raw_text(self.raw_item(int(ordered[row, column])))} twice"
            )
        return item

    def _by_rank(
        self, item: npt.NDArray[np.int32], rank: npt.NDArray[Any], count: npt.NDArray[np.int64], low: int
    ) -> npt.NDArray[np.int32]:
        """Return items in the order of their ranks; behind the end of a list, ``rank`` is 0."""
        width = item.shape[1]
        expected = np.arange(1, width + 1, dtype=rank.dtype if width < 100 else np.int64)
        if (rank == expected).all():
            return item
        listed = item != NO_ITEM
        wrong = listed & ((rank < 1) | (rank > count[:, None]))
        place = np.where(wrong | ~listed, 1, rank).astype(np.int64) - 1
        moved = np.full_like(item, NO_ITEM)
        row, column = np.nonzero(listed & ~wrong)
        place = place[row, column]
        taken = np.bincount(row * width + place, minlength=item.size)
        moved[row, place] = item[row, column]
        bad = np.flatnonzero(wrong.any(axis=1) | (taken.reshape(item.shape) > 1).any(axis=1))
        if len(bad):
            self._refuse_ranks(low + int(bad[0]))
        return moved

    def _refuse_ranks(self, user: int) -> NoReturn:
        rows = self.lists.rows(user, user + 1)
        rank = self.lists.columns[1][rows]
        origin = (
            np.arange(len(self.lists.columns[1]))[rows]
            if self.lists.origin is None
            else self.lists.origin[rows]
        )
        who = f"the ranks of user {raw_text(self.users[user])} must be 1, 2, 3 and so on"
        if rank.min() < 1:
            self.refuse(int(origin[np.argmin(rank)]), f"{who}, the best item first")
        values, counts = np.unique(rank, return_counts=True)
        if counts.max() > 1:
            again = int(np.flatnonzero(rank == values[np.argmax(counts > 1)])[1])
            self.refuse(int(origin[again]), f"{who}, and another row has this one")
        missing = int(np.flatnonzero(values != np.arange(1, len(values) + 1))[0]) + 1
        above = int(origin[np.flatnonzero(rank == values[missing - 1])[0]])
        self.refuse(above, f"{who}, but no row has rank {missing}")


def _spread(values: npt.NDArray[Any], listed: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return ragged values as a rectangle, filled up with the lowest score there is, or with rank 0."""
    spread = np.full(listed.shape, -np.inf if values.dtype.kind == "f" else 0, dtype=values.dtype)
    spread[listed] = values
    return spread


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
        item = item.copy()
        by_item = np.argsort(key[unsorted], axis=1, kind="stable")
        scores = np.take_along_axis(score[unsorted], by_item, axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")
        item[unsorted] = np.take_along_axis(
            item[unsorted], np.take_along_axis(by_item, order, axis=1), axis=1
        )
    return item
