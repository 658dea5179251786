"""Exact matching of listed items with the truth: a table of flags selects few items, which are then searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Ints, search

# An odd multiplier without structure; it affects the speed of a match, never its result.
_ITEM_FACTOR = 2654435769
_FLAGS_PER_PAIR = 16  # at least: few items that are not in the truth have a flag by chance


class Matches(NamedTuple):
    """Listed items that are in the user's truth, by user and then by rank.

    ``row`` int64 (h,) position of the user in the block; ``rank`` int64 (h,) from 1; ``truth`` int64 (h,)
    position of the pair in the truth.
    """

    row: Ints
    rank: Ints
    truth: Ints


@dataclass(frozen=True, eq=False)
class TruthPairs:
    """The pairs of user (position in a block) and item of a truth, in which listed items are looked up."""

    key: Ints  # (t,) user and item in one number, ascending
    position: Ints | None  # (t,) of each in the truth; None: the truth is in this order
    n_rows: int  # users of the block

    @classmethod
    def of(cls, row: Ints, item: Codes, n_rows: int) -> TruthPairs:
        """Return the pairs ``row``, ``item`` (t,) of a block of ``n_rows`` users."""
        key = _keys(row, item)
        if (key[1:] >= key[:-1]).all():
            return cls(key, None, n_rows)
        position = np.argsort(key)
        return cls(key[position], position, n_rows)

    def repeated(self) -> tuple[int, int] | None:
        """Return the lowest repeated pair; None if all are distinct."""
        twice = np.flatnonzero(self.key[1:] == self.key[:-1])
        if not len(twice):
            return None
        row, item = divmod(int(self.key[twice[0]]), 2**32)
        return row, item

    def match(self, item: Codes) -> Matches:
        """Return the matches of the lists ``item`` (n_rows, N).

        Each user has flags, of which the hashes of the user's truth items select some; a listed item whose hash selects
        none is in no pair. The others are searched among the pairs, which takes longer.
        """
        bits = max(3, (_FLAGS_PER_PAIR * len(self.key) // max(1, self.n_rows)).bit_length())
        bits = min(bits, 32 - self.n_rows.bit_length())
        first = np.arange(self.n_rows, dtype=np.uint32) << np.uint32(bits)
        flags = np.zeros(self.n_rows << bits, dtype=np.bool_)
        flags[_places(first[self.key >> 32], self.key.astype(np.int32), bits)] = True
        # Places are within the table by construction, so NumPy need not check bounds.
        cell = np.flatnonzero(flags.take(_places(first[:, None], item, bits), mode="wrap"))
        row = cell // item.shape[1]
        position, is_pair = search(self.key, _keys(row, item.ravel()[cell]))
        pairs = np.flatnonzero(is_pair)
        cell, row, position = cell[pairs], row[pairs], position[pairs]
        truth = position if self.position is None else self.position[position]
        return Matches(row, cell - row * item.shape[1] + 1, truth)


def _keys(row: Ints, item: Codes) -> Ints:
    return (row << 32) | item


def _places(first: npt.NDArray[np.uint32], item: Codes, bits: int) -> npt.NDArray[np.uint32]:
    """Return the place of each item's flag, among the ``2 ** bits`` from its user's ``first`` on."""
    places = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
    places >>= np.uint32(32 - bits)
    places += first
    return places
