"""Which listed items stand in the user's truth: exact, without sorting and whatever the catalogue's size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Matches", "match"]

# Odd multipliers without structure; they decide how fast the answer comes, never what it is.
_ITEM_FACTOR = np.uint32(2654435769)
_ROW_FACTOR = np.uint32(2246822519)
_SLOTS_PER_ITEM = 16


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

    Every pair leaves its position at its hash in a small table, every cell of the lists looks at its own
    hash, and what is found there is compared exactly. A pair whose place another one took is looked for
    directly.
    """
    n_rows, n = item.shape
    t = len(truth_item)
    if t == 0 or item.size == 0:
        none = np.empty(0, dtype=np.int64)
        return Matches(none, none, none)
    bits = max(8, (t * _SLOTS_PER_ITEM - 1).bit_length())
    shift = np.uint32(32 - min(bits, 31))
    row_hash = np.arange(n_rows, dtype=np.uint32) * _ROW_FACTOR
    truth_slot = (truth_item.astype(np.uint32) * _ITEM_FACTOR + row_hash[truth_row]) >> shift
    mark = np.arange(1, t + 1, dtype=np.uint16 if t < 2**16 else np.uint32)  # 0 is an empty place
    table = np.zeros(1 << min(bits, 31), dtype=mark.dtype)
    table[truth_slot] = mark

    slot = item.astype(np.uint32)
    slot *= _ITEM_FACTOR
    slot += row_hash[:, None]
    slot >>= shift
    found = table.take(slot)
    lost = np.flatnonzero(table[truth_slot] != mark)
    if len(lost):
        which, column = np.nonzero(item[truth_row[lost]] == truth_item[lost, None])
        found[truth_row[lost[which]], column] = mark[lost[which]]

    cell = np.flatnonzero(found)
    truth = found.ravel()[cell].astype(np.int64) - 1
    row, column = np.divmod(cell, n)
    exact = (truth_item[truth] == item.ravel()[cell]) & (truth_row[truth] == row)
    return Matches(row[exact], column[exact] + 1, truth[exact])
