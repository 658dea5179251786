"""Rows of a table grouped by user; rows are moved only if necessary."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM
from evalplugin.models.threads import thread_count

Users: TypeAlias = "slice | npt.NDArray[np.int64]"  # consecutive positions of users, or ascending ones

_CHUNK = 2**20  # rows moved at a time
_MAX_THREADS = 4


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows by user. Codes of users ascend with their raw ids."""

    start: npt.NDArray[np.int64]  # (U,) first row of each user
    count: npt.NDArray[np.int64]  # (U,) their number
    columns: Mapping[str, npt.NDArray[Any]]  # (m,) each
    in_order: bool  # whether users' rows are in the order of users

    def rows(self, users: Users) -> slice | npt.NDArray[np.int64]:
        """Return an index of the rows of some users, by user."""
        start, count = self.start[users], self.count[users]
        total = int(count.sum())
        if self.in_order and isinstance(users, slice):
            return slice(first := int(start[np.argmax(count > 0)]) if total else 0, first + total)
        before = np.cumsum(count) - count
        return np.repeat(start - before, count) + np.arange(total)

    def of(self, users: npt.NDArray[np.int64]) -> GroupedRows:
        """Return the rows of some users, ascending; the others must have none."""
        if len(users) == len(self.count):
            return self
        return replace(self, start=self.start[users], count=self.count[users])


def group_rows(
    run_start: npt.NDArray[np.int64],
    run_user: npt.NDArray[np.integer[Any]],
    n_users: int,
    columns: Mapping[str, npt.NDArray[Any]],
) -> GroupedRows:
    """Return rows by user, moved only if a user's rows are in several runs.

    Args:
        run_start, run_user: First row and user code of each run of rows of one user.
        n_users: Size of the vocabulary of users.
        columns: Arrays of one value a row.
    """
    n_rows = len(next(iter(columns.values())))
    length = np.diff(np.append(run_start, n_rows))
    count = np.zeros(n_users, dtype=np.int64)
    start = np.zeros(n_users, dtype=np.int64)
    in_order = bool((run_user[1:] > run_user[:-1]).all())
    if in_order or np.bincount(run_user, minlength=n_users).max() == 1:
        count[run_user], start[run_user] = length, run_start
        return GroupedRows(start, count, columns, in_order)
    user = _of_rows(run_user, length)
    count = np.bincount(user, minlength=n_users)
    start = np.cumsum(count) - count
    order = _order_by_user(user)
    with ThreadPoolExecutor(min(_MAX_THREADS, thread_count())) as pool:
        run = pool.map if n_rows > _CHUNK else map
        moved = run(lambda column: column.take(order), columns.values())
        return GroupedRows(start, count, dict(zip(columns, moved, strict=True)), True)


def _order_by_user(user: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return the rows by user, those of one user in their order: int64 (m,)."""
    # One sort of plain numbers, which has vector instructions, instead of a stable sort by user.
    shift = max(1, (len(user) - 1).bit_length())
    packed = user.astype(np.int64) << shift
    packed |= np.arange(len(user))
    packed.sort()
    packed &= (1 << shift) - 1
    return packed


def group_by_rank(
    run_start: npt.NDArray[np.int64],
    run_user: npt.NDArray[np.integer[Any]],
    n_users: int,
    item: npt.NDArray[Any],
    rank: npt.NDArray[np.integer[Any]],
) -> GroupedRows | None:
    """Return shuffled items by user and rank, each written to its position without sorting.

    None if that is unnecessary, or if the ranks of a user are not 1, 2, 3 and so on.

    Args:
        run_start, run_user, n_users: As in ``group_rows``.
        item, rank: One a row.
    """
    if len(run_start) <= n_users:  # no user has several runs, or almost none
        return None
    user = _of_rows(run_user, np.diff(np.append(run_start, len(item))))
    count = np.bincount(user, minlength=n_users)
    start = np.cumsum(count) - count
    ordered = np.full(len(item), NO_ITEM, dtype=np.int32)

    def write(part: slice) -> bool:
        ranks, users = rank[part].astype(np.int64, copy=False), user[part].astype(np.int64, copy=False)
        if ranks.min() < 1 or (ranks > count[users]).any():
            return False
        ordered[start[users] + ranks - 1] = item[part]
        return True

    parts = [slice(low, low + _CHUNK) for low in range(0, len(item), _CHUNK)]
    with ThreadPoolExecutor(min(_MAX_THREADS, thread_count())) as pool:
        if not all((pool.map if len(parts) > 1 else map)(write, parts)):
            return None
    # As many positions as rows: a repeated rank leaves another position empty.
    return None if (ordered == NO_ITEM).any() else GroupedRows(start, count, {"item": ordered}, True)


def _of_rows(
    run_user: npt.NDArray[np.integer[Any]], length: npt.NDArray[np.int64]
) -> npt.NDArray[np.integer[Any]]:
    return run_user if (length == 1).all() else np.repeat(run_user, length)
