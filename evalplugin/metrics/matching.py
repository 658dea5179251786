"""Exact matching of listed items with the truth by hash buckets: no sort, independent of the catalogue's size.

For many rows compiled loops do the same; importing them takes as long as scoring tens of millions of rows.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from evalplugin.base.libraries import np, npt

# An odd multiplier without structure; it affects the speed of a match, never its result.
_ITEM_FACTOR = 2654435769
_SLOTS_PER_PAIR = 16
# Rows that a process scores without compiled loops before it loads them: by then they would have saved what loading
# them takes. A process that scores fewer never waits for them. Loading them in another thread does not help: it holds
# the interpreter's lock, and calls beside it became slower by twice the time of loading.
_LOADED_FROM = 2**25
_CALLED_FROM = 2**16  # rows from which loops that are loaded are faster
_scored = 0  # rows scored by this process so far


def worth_compiling(n_rows: int) -> bool:
    """Return whether to score so many rows of lists with compiled loops; results are the same to the last bit."""
    global _scored
    _scored += n_rows
    is_loaded = f"{__package__}.loops" in sys.modules
    return n_rows >= _CALLED_FROM and (is_loaded or _scored >= _LOADED_FROM)


class Matches(NamedTuple):
    """Listed items that are in the user's truth, by user and then by rank.

    ``row`` int64 (h,) position of the user in the block; ``rank`` int64 (h,) from 1; ``truth`` int64 (h,)
    position of the pair in the table.
    """

    row: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PairTable:
    """A hash table of distinct pairs of user (position in a block) and item. Create it with ``of``.

    Every user has a bucket of slots in a small table, so that a list is looked up within a few lines of the cache.
    A pair stores a fingerprint of the item in the slot that the item's hash selects; of several pairs with one slot
    one gets it, and the others are ``collided``: they are compared directly.
    """

    row: npt.NDArray[np.int64]  # (t,) positions of users, ascending
    item: npt.NDArray[np.int32]  # (t,)
    shift: npt.NDArray[np.uint32]  # (B,) a hash shifted right by it is a slot in the user's bucket
    start: npt.NDArray[np.uint32]  # (B,) first slot of the bucket
    fingerprint: npt.NDArray[np.uint8]  # (S,) of the pair in the slot, 0 if empty
    pair: npt.NDArray[np.unsignedinteger[Any]]  # (S,) position of the pair in the slot
    winner: npt.NDArray[np.unsignedinteger[Any]]  # (t,) position of the pair in this pair's slot
    collided: npt.NDArray[np.int64]  # positions of the pairs that lost their slot to another

    @classmethod
    def of(cls, row: npt.NDArray[np.int64], item: npt.NDArray[np.int32], n_rows: int) -> PairTable:
        """Return the table of the pairs ``row``, ``item`` (t,) of a block of ``n_rows`` users."""
        t, count = len(item), np.bincount(row, minlength=n_rows)
        bits = np.frexp(_SLOTS_PER_PAIR * np.maximum(count, 1) - 1)[1]
        end = np.cumsum(1 << bits.astype(np.int64))
        shift, start = (32 - bits).astype(np.uint32), np.append(0, end[:-1]).astype(np.uint32)
        hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
        slot = hashed >> shift.take(row)
        slot += start.take(row)
        slot = slot.astype(np.intp)  # NumPy would convert any other type at every use
        fingerprint = np.zeros(int(end[-1]) if n_rows else 1, dtype=np.uint8)
        fingerprint[slot] = _fingerprints(hashed)
        kind: type[np.unsignedinteger[Any]] = np.uint16 if t <= 2**16 else np.uint32
        pair = np.arange(t, dtype=kind)
        pair_of_slot = np.empty(len(fingerprint), dtype=kind)
        pair_of_slot[slot] = pair
        winner = pair_of_slot.take(slot)
        return cls(row, item, shift, start, fingerprint, pair_of_slot, winner, np.flatnonzero(winner != pair))

    def repeated(self) -> tuple[int, int] | None:
        """Return the lowest repeated pair; None if all are distinct.

        Equal pairs share a slot, so only pairs that collided and the winners of their slots can be equal.
        """
        if not len(self.collided):
            return None
        suspect = np.zeros(len(self.item), dtype=np.bool_)
        suspect[self.collided] = suspect[self.winner[self.collided]] = True
        pair = np.sort((self.row[suspect] << 32) | self.item[suspect])
        twice = np.flatnonzero(pair[1:] == pair[:-1])
        if not len(twice):
            return None
        first = int(pair[twice[0]])
        return first >> 32, first & (2**32 - 1)

    def match(self, item: npt.NDArray[np.int32]) -> Matches:
        """Return the positions in the lists ``item`` (B, N) of the items that form a pair of the table.

        Fingerprints of every cell and its slot are compared, then, exactly, the few cells that agree.
        """
        n = item.shape[1]
        if len(self.item) == 0 or item.size == 0:
            none = np.empty(0, dtype=np.int64)
            return Matches(none, none, none)
        hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
        slot = hashed >> self.shift[:, None]
        slot += self.start[:, None]
        # Slots are within the table by construction, so NumPy need not check bounds.
        is_likely = self.fingerprint.take(slot, mode="wrap") == _fingerprints(hashed)
        collided, again = self.collided, np.empty(0, dtype=np.int64)
        if len(collided):
            index = np.flatnonzero(item.take(self.row[collided], axis=0) == self.item[collided, None])
            collided = collided[index // n]
            again = self.row[collided] * n + index % n
            is_likely.ravel()[again] = True

        cell = np.flatnonzero(is_likely)
        row = cell // n
        pair = self.pair.take(slot.ravel().take(cell)).astype(np.int64)
        pair[np.searchsorted(cell, again)] = collided
        exact = (self.item.take(pair) == item.ravel().take(cell)) & (self.row.take(pair) == row)
        if not exact.all():
            row, cell, pair = row[exact], cell[exact], pair[exact]
        return Matches(row, cell - row * n + 1, pair)


def _fingerprints(hashed: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
    """Return the lower bits of hashes, which do not select the slot; never 0."""
    fingerprints = hashed.astype(np.uint8)
    fingerprints |= 1
    return fingerprints
