"""Which listed items stand in the user's truth: exact, without sorting and whatever the catalogue's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Matches", "PairTable"]

# An odd multiplier without structure; it decides how fast the answer comes, never what it is.
_ITEM_FACTOR = np.uint32(2654435769)
_PLACES_PER_PAIR = 16


@dataclass(frozen=True, eq=False)
class Matches:
    """Listed items that stand in the truth, by user and then by rank.

    ``row`` int64 (h,) position of the user in the block; ``rank`` int64 (h,) from 1; ``truth`` int64 (h,)
    position of the pair in the table.
    """

    row: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairTable:
    """Different pairs of a user's position in a block and an item, made to be found fast. Make it with ``of``.

    Every user has a stretch of a small table, so that a list is looked up within a few lines of the cache. A pair
    leaves a mark in its user's stretch, at a place that the item's hash says; where several have one place, one of
    them takes it and the others are ``lost``, to be looked for directly.
    """

    row: npt.NDArray[np.int64]  # (t,) positions of users, ascending
    item: npt.NDArray[np.int32]  # (t,)
    shift: npt.NDArray[
        np.uint32
    ]  # (B,) a hash without so many of its lower bits is its place in the user's stretch
    start: npt.NDArray[np.uint32]  # (B,) where that begins
    mark: npt.NDArray[np.uint8]  # of the pair that took a place, 0 where none did
    number: npt.NDArray[np.unsignedinteger[Any]]  # which pair that is
    winner: npt.NDArray[np.unsignedinteger[Any]]  # (t,) which pair took this one's place
    lost: npt.NDArray[np.int64]  # pairs that another one took the place of

    @classmethod
    def of(cls, row: npt.NDArray[np.int64], item: npt.NDArray[np.int32], n_rows: int) -> PairTable:
        """Return the table of the pairs ``row``, ``item`` (t,) of a block of ``n_rows`` users."""
        t, count = len(item), np.bincount(row, minlength=n_rows)
        bits = np.frexp(_PLACES_PER_PAIR * np.maximum(count, 1) - 1)[1]
        end = np.cumsum(1 << bits.astype(np.int64))
        shift, start = (32 - bits).astype(np.uint32), np.append(0, end[:-1]).astype(np.uint32)
        hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
        place = hashed >> shift.take(row)
        place += start.take(row)
        place = place.astype(np.intp)  # NumPy would convert any other type at every use
        mark = np.zeros(int(end[-1]) if n_rows else 1, dtype=np.uint8)
        mark[place] = _marks(hashed)
        kind: type[np.unsignedinteger[Any]] = np.uint16 if t <= 2**16 else np.uint32
        pair = np.arange(t, dtype=kind)
        number = np.empty(len(mark), dtype=kind)
        number[place] = pair
        winner = number.take(place)
        return cls(row, item, shift, start, mark, number, winner, np.flatnonzero(winner != pair))

    def repeated(self) -> tuple[int, int] | None:
        """Return a pair that stands twice, the lowest one; None: all are different.

        Equal pairs have one place, so that only those that lost and those that won against them can be equal.
        """
        if not len(self.lost):
            return None
        met = np.zeros(len(self.item), dtype=np.bool_)
        met[self.lost] = met[self.winner[self.lost]] = True
        pair = np.sort((self.row[met] << 32) | self.item[met])
        twice = np.flatnonzero(pair[1:] == pair[:-1])
        if not len(twice):
            return None
        first = int(pair[twice[0]])
        return first >> 32, first & (2**32 - 1)

    def match(self, item: npt.NDArray[np.int32]) -> Matches:
        """Return where the lists ``item`` (B, N) hold a pair.

        Every cell looks whether its own mark stands at its place, and the few cells where it does are compared
        exactly.
        """
        n = item.shape[1]
        if len(self.item) == 0 or item.size == 0:
            none = np.empty(0, dtype=np.int64)
            return Matches(none, none, none)
        hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
        place = hashed >> self.shift[:, None]
        place += self.start[:, None]
        # Places are within the table by how they are made: NumPy need not look for ones that are not.
        found = self.mark.take(place, mode="wrap") == _marks(hashed)
        lost, again = self.lost, np.empty(0, dtype=np.int64)
        if len(lost):
            at = np.flatnonzero(item.take(self.row[lost], axis=0) == self.item[lost, None])
            lost = lost[at // n]
            again = self.row[lost] * n + at % n
            found.ravel()[again] = True

        cell = np.flatnonzero(found)
        row = cell // n
        pair = self.number.take(place.ravel().take(cell)).astype(np.int64)
        pair[np.searchsorted(cell, again)] = lost
        exact = (self.item.take(pair) == item.ravel().take(cell)) & (self.row.take(pair) == row)
        if not exact.all():
            row, cell, pair = row[exact], cell[exact], pair[exact]
        return Matches(row, cell - row * n + 1, pair)


def _marks(hashed: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Return lower bits of hashes, which their places do not say; never 0."""
    marks = hashed.astype(np.uint8)
    marks |= 1
    return marks
