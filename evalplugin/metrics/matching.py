"""Which listed items stand in the user's truth: exact, without sorting and whatever the catalogue's size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Matches", "match", "repeated_pair"]

# Odd multipliers without structure; they decide how fast the answer comes, never what it is.
_ITEM_FACTOR = np.uint32(2654435769)
_ROW_FACTOR = np.uint32(2246822519)


@dataclass(frozen=True, eq=False)
class Matches:
    """Listed items that stand in the truth, by user and then by rank.

    ``row`` int64 (h,) position of the user in the block; ``rank`` int64 (h,) from 1; ``truth`` int64 (h,)
    position in the truth of the block.
    """

    row: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]


def match(
    item: npt.NDArray[np.int32], truth_row: npt.NDArray[np.int64], truth_item: npt.NDArray[np.int32]
) -> Matches:
    """Return where the lists ``item`` (B, N) meet the truth pairs ``truth_row``, ``truth_item`` (t,).

    Every pair leaves its hash in a small table, at a place that the hash itself says; every cell of the lists
    looks whether its own hash stands there, and the few cells where it does are compared exactly. A pair
    whose place another one took is looked for directly.
    """
    n_rows, n = item.shape
    t = len(truth_item)
    if t == 0 or item.size == 0:
        none = np.empty(0, dtype=np.int64)
        return Matches(none, none, none)
    row_hash = np.arange(n_rows, dtype=np.uint32) * _ROW_FACTOR
    truth_hash, shift = _hashes(truth_row, truth_item, row_hash, places_per_item=16)
    truth_place = (truth_hash >> shift).astype(np.intp)  # NumPy would convert any other type at every use
    # The upper bits of a hash are its place; from tables of 2^16 places on, the lower 16 are all the rest.
    table = np.zeros(2 ** (32 - int(shift)), dtype=np.uint16)
    table[truth_place] = truth_hash.astype(np.uint16)
    number = np.zeros(len(table), dtype=np.uint16 if t <= 2**16 else np.uint32)
    mark = np.arange(t, dtype=number.dtype)
    number[truth_place] = mark

    hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
    hashed += row_hash[:, None]
    found = table.take(hashed >> shift) == hashed.astype(np.uint16)
    lost = np.flatnonzero(number.take(truth_place) != mark)
    again = np.empty(0, dtype=np.int64)
    if len(lost):
        at = np.flatnonzero(item[truth_row[lost]] == truth_item[lost, None])
        lost = lost[at // n]
        again = truth_row[lost] * n + at % n
        found.ravel()[again] = True

    cell = np.flatnonzero(found)
    row = cell // n
    truth = number.take(hashed.ravel().take(cell) >> shift).astype(np.int64)
    truth[np.searchsorted(cell, again)] = lost
    exact = (truth_item.take(truth) == item.ravel().take(cell)) & (truth_row.take(truth) == row)
    if not exact.all():
        row, cell, truth = row[exact], cell[exact], truth[exact]
    return Matches(row, cell - row * n + 1, truth)


def repeated_pair(row: npt.NDArray[np.int64], item: npt.NDArray[np.int32]) -> tuple[int, int] | None:
    """Return a pair of ``row`` and ``item`` (t,) that stands twice, the lowest one; None: all are different.

    Equal pairs have equal hashes, so that only pairs whose place another one took have to be looked at.
    """
    t = len(item)
    if t < 2:
        return None
    row_hash = np.arange(int(row.max()) + 1, dtype=np.uint32) * _ROW_FACTOR
    hashed, shift = _hashes(row, item, row_hash, places_per_item=8)
    place = (hashed >> shift).astype(np.intp)
    mark = np.arange(t, dtype=np.uint16 if t <= 2**16 else np.uint32)
    table = np.empty(2 ** (32 - int(shift)), dtype=mark.dtype)
    table[place] = mark
    winner = table.take(place)
    lost = winner != mark
    if not lost.any():
        return None
    lost[winner[lost]] = True
    pair = np.sort((row[lost] << 32) | item[lost])
    twice = np.flatnonzero(pair[1:] == pair[:-1])
    if not len(twice):
        return None
    first = int(pair[twice[0]])
    return first >> 32, first & (2**32 - 1)


def _hashes(
    row: npt.NDArray[np.int64],
    item: npt.NDArray[np.int32],
    row_hash: npt.NDArray[np.uint32],
    places_per_item: int,
) -> tuple[npt.NDArray[np.uint32], np.uint32]:
    """Return each pair's hash, and by how many bits it is shifted to be its place in a table."""
    bits = min(max(8, (len(item) * places_per_item - 1).bit_length()), 31)
    hashed = np.multiply(item.view(np.uint32), _ITEM_FACTOR)
    hashed += row_hash.take(row)
    return hashed, np.uint32(32 - bits)
