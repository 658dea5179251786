"""Which listed items stand in the user's truth: exact, without sorting and whatever the catalogue's size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Matches", "PairTable"]

# Odd multipliers without structure; they decide how fast the answer comes, never what it is.
_ITEM_FACTOR = np.uint32(2654435769)
_ROW_FACTOR = np.uint32(2246822519)
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

    Every pair leaves its hash in a small table, at a place that the hash itself says; where several pairs have
    one place, one of them takes it and the others are ``lost``, to be looked for directly.
    """

    row: npt.NDArray[np.int64]  # (t,)
    item: npt.NDArray[np.int32]  # (t,)
    shift: np.uint32  # a hash without so many of its lower bits is its place
    hashes: npt.NDArray[np.uint16]  # the lower bits of the hash of who took a place
    number: npt.NDArray[np.unsignedinteger[Any]]  # which pair took it
    winner: npt.NDArray[np.unsignedinteger[Any]]  # (t,) which pair took this one's place
    lost: npt.NDArray[np.int64]  # pairs that another one took the place of

    @classmethod
    def of(cls, row: npt.NDArray[np.int64], item: npt.NDArray[np.int32]) -> PairTable:
        """Return the table of the pairs ``row``, ``item`` (t,)."""
        t = len(item)
        bits = min(max(8, (t * _PLACES_PER_PAIR - 1).bit_length()), 31)
        shift = np.uint32(32 - bits)
        hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
        hashed += _row_hashes(int(row.max(initial=-1)) + 1).take(row)
        place = (hashed >> shift).astype(np.intp)  # NumPy would convert any other type at every use
        # From tables of 2^16 places on, the lower 16 bits are all that the place does not say.
        hashes = np.zeros(2**bits, dtype=np.uint16)
        hashes[place] = hashed.astype(np.uint16)
        mark = np.arange(t, dtype=np.uint16 if t <= 2**16 else np.uint32)
        number = np.zeros(2**bits, dtype=mark.dtype)
        number[place] = mark
        winner = number.take(place)
        return cls(row, item, shift, hashes, number, winner, np.flatnonzero(winner != mark))

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

        Every cell looks whether its own hash stands at its place, and the few cells where it does are compared
        exactly.
        """
        n_rows, n = item.shape
        if len(self.item) == 0 or item.size == 0:
            none = np.empty(0, dtype=np.int64)
            return Matches(none, none, none)
        hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
        hashed += _row_hashes(n_rows)[:, None]
        # Places are within the table by their number of bits: NumPy need not look for ones that are not.
        found = self.hashes.take(hashed >> self.shift, mode="wrap") == hashed.astype(np.uint16)
        lost, again = self.lost, np.empty(0, dtype=np.int64)
        if len(lost):
            at = np.flatnonzero(item.take(self.row[lost], axis=0) == self.item[lost, None])
            lost = lost[at // n]
            again = self.row[lost] * n + at % n
            found.ravel()[again] = True

        cell = np.flatnonzero(found)
        row = cell // n
        pair = self.number.take(hashed.ravel().take(cell) >> self.shift).astype(np.int64)
        pair[np.searchsorted(cell, again)] = lost
        exact = (self.item.take(pair) == item.ravel().take(cell)) & (self.row.take(pair) == row)
        if not exact.all():
            row, cell, pair = row[exact], cell[exact], pair[exact]
        return Matches(row, cell - row * n + 1, pair)


def _row_hashes(n_rows: int) -> npt.NDArray[np.uint32]:
    return np.arange(n_rows, dtype=np.uint32) * _ROW_FACTOR
