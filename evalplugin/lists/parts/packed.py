"""Lists of integer ids in memory, packed: a table of items by user and rank, which takes four bytes an item.

User and rank of a row are its place in the table, so that rows in any order are neither sorted nor compared. Of two
rows of a user with one rank, a single item is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evalplugin.base.arrays import Codes
from evalplugin.base.libraries import pa
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Ids, Table
from evalplugin.lists.columns import PairColumns
from evalplugin.lists.parts.row_groups import RowGroup, row_groups

BYTES_PER_PLACE = 4
_CHUNK = 2**14  # rows that are written at a time, whose temporaries stay in the cache
_LARGEST = 2**31 - 2  # of an item less the lowest item
_RANGE_PLACES = 2**21  # of a range of users, which is scored by one thread


@dataclass(frozen=True, eq=False)
class PackedLists:
    """The items of the users from the first to the last one."""

    name: str  # of the files, in messages
    column: str  # the ranks' column
    first: int  # the first user, a multiple of ``step``
    step: int  # users of a range, a power of two
    lowest: int  # the lowest item
    items: Codes  # (U, N) the item at each rank, less the lowest one plus 1; 0: none

    @classmethod
    def empty(
        cls, source: TableFiles, names: Mapping[str, str], groups: Sequence[RowGroup], most: int
    ) -> PackedLists | None:
        """Return a table with a place for every row, by what files say of their values.

        Args:
            source: The files.
            names: Their columns by role.
            groups: Their row groups, with the range of users.
            most: Places that the table may have.

        Returns:
            None if rows have a score instead of a rank, ids are text, files do not say the ranges of their columns, or
            the table would be too large, as where ids are far apart.
        """
        if "rank" not in names:
            return None
        users = _range(groups)
        items, ranks = (_range(row_groups(source, names[role])) for role in ("item", "rank"))
        if users is None or items is None or ranks is None:
            return None
        width = max(ranks[1], 1)
        step = 1 << max(0, (_RANGE_PLACES // width).bit_length() - 1)
        first = users[0] // step * step
        shape = users[1] - first + 1, width
        if items[1] - items[0] > _LARGEST or shape[0] * width > most:
            return None
        return cls(source.name, names["rank"], first, step, items[0], np.zeros(shape, dtype=np.int32))

    def write(self, pairs: PairColumns) -> bool:
        """Write rows to their places; return whether all have one. Several threads may write at a time."""
        n_users, width = self.items.shape
        flat = self.items.reshape(-1)
        for at in range(0, len(pairs.user), _CHUNK):
            user, item, rank = (
                values[at : at + _CHUNK] for values in (pairs.user.values, pairs.item.values, pairs.values)
            )
            for values, low, high in (
                (user, self.first, self.first + n_users - 1),
                (item, self.lowest, self.lowest + _LARGEST),
                (rank, 1, width),
            ):
                if int(values.min()) < low or int(values.max()) > high:
                    return False
            place = user.astype(np.int64)
            place -= self.first
            place *= width
            place += rank.astype(np.int64, copy=False)
            place -= 1
            code = item.astype(np.int64)
            code -= self.lowest - 1
            flat[place] = code.astype(np.int32)
        return True

    @property
    def n_rows(self) -> int:
        """The number of places that are taken."""
        return int(np.count_nonzero(self.items))

    @property
    def bounds(self) -> list[int]:
        """The first user of each range but the first."""
        return list(range(self.first + self.step, self.first + len(self.items), self.step))

    def ranges(self) -> list[PackedRange]:
        """Return the lists of each range of users."""
        return [PackedRange(self, at) for at in range(0, len(self.items), self.step)]


class PackedRange(NamedTuple):
    """The lists of some consecutive users."""

    lists: PackedLists
    start: int  # of the first user in the table

    @property
    def items(self) -> Codes:
        """The part of the table."""
        return self.lists.items[self.start : self.start + self.lists.step]

    @property
    def longest(self) -> int:
        """The highest rank."""
        taken = np.flatnonzero(self.items.max(axis=0))
        return int(taken.max(initial=-1)) + 1

    def pairs(self) -> PairColumns:
        """Return rows in the order of users and ranks."""
        items = self.items
        user = (np.arange(len(items)) + (self.lists.first + self.start))[:, None]
        rank = np.arange(1, items.shape[1] + 1)[None, :]
        if np.count_nonzero(items) == items.size:
            user, rank, item = (
                np.ravel(np.broadcast_to(values, items.shape)) for values in (user, rank, items)
            )
        else:
            row, place = np.nonzero(items)
            user, rank, item = user[row, 0], rank[0, place], items[row, place]
        item = item.astype(np.int64)
        item += self.lists.lowest - 1
        empty = Table(pa.table({}), self.lists.name)
        return PairColumns(
            empty, Ids("integers", user), Ids("integers", item), "rank", self.lists.column, rank
        )


def _range(groups: Sequence[RowGroup]) -> tuple[int, int] | None:
    """Return the lowest and the highest value of a column of integers; None if files do not say it."""
    values: list[Any] = [value for group in groups for value in (group.low, group.high)]
    if not all(type(value) is int for value in values):
        return None
    return min(values), max(values)
