"""Compiled loops over lists and truth, for many rows; importing this module costs numba's import."""

from __future__ import annotations

import numpy as np

from evalplugin.base import arrays
from evalplugin.models.kernels.compiled import (
    BytesOut,
    CodeRows,
    CodeRowsOut,
    Codes,
    CodesOut,
    Flags,
    FloatsOut,
    Ints,
    IntsOut,
    compiled,
)
from evalplugin.models.selection import NO_ITEM

__all__ = ["best_first", "match", "pad_ranked", "scatter"]

# An odd multiplier without structure; it affects the speed of a match, never its result.
_ITEM_FACTOR = np.uint32(2654435769)
_STAMPS_PER_ITEM = 64  # few enough collisions that comparing a collided item with all before it costs little
_MOST_STAMPS = 2**28  # bytes
_LAST_STAMP = 255


def match(
    item: arrays.Codes, truth_indptr: arrays.Ints, truth_item: arrays.Codes
) -> tuple[arrays.Ints, arrays.Ints, arrays.Ints] | None:
    """Return the listed items that are in the user's truth, by user and then by rank.

    Args:
        item: (B, N) lists, NO_ITEM behind the end.
        truth_indptr: (B + 1,) first truth item of each user.
        truth_item: (t,) codes.

    Returns:
        Position of the user, rank from 1, position in the truth: int64 (h,) each. None if an item is repeated in a
        list or in a truth.
    """
    width = item.shape[1]
    longest = int(np.diff(truth_indptr).max(initial=0))
    n_stamps = min(_power_of_two(_STAMPS_PER_ITEM * (width + longest)), _MOST_STAMPS)
    stamps = np.zeros(n_stamps, dtype=np.uint8)
    slots = np.empty(_power_of_two(4 * longest), dtype=np.int64)
    row, rank, truth = np.empty((3, min(item.size, len(truth_item))), dtype=np.int64)
    n_found = np.zeros(1, dtype=np.int64)
    _match(np.ascontiguousarray(item), truth_indptr, truth_item, stamps, slots, row, rank, truth, n_found)
    n = int(n_found[0])
    return None if n < 0 else (row[:n], rank[:n], truth[:n])


def _power_of_two(least: int) -> int:
    return 1 << max(3, (least - 1).bit_length())


@compiled
def _match(
    item: CodeRows,
    truth_indptr: Ints,
    truth_item: Codes,
    stamps: BytesOut,
    slots: IntsOut,
    row_out: IntsOut,
    rank_out: IntsOut,
    truth_out: IntsOut,
    n_found: IntsOut,
) -> None:
    # Each user has a stamp. An item of the truth or the list stamps the byte that its hash selects. A listed item whose
    # byte is unstamped is in neither so far; any other is looked up in the truth, or compared with all items before it.
    stamp_bits = 0
    while (1 << stamp_bits) < len(stamps):
        stamp_bits += 1
    stamp_shift = np.uint32(32 - stamp_bits)
    stamp, found = 0, 0
    for row in range(item.shape[0]):
        stamp += 1
        if stamp > _LAST_STAMP:
            stamps[:] = 0
            stamp = 1
        first, end = truth_indptr[row], truth_indptr[row + 1]
        bits = 3
        while (1 << bits) < 4 * (end - first):
            bits += 1
        shift, mask = np.uint32(32 - bits), (1 << bits) - 1
        slots[: mask + 1] = -1
        for position in range(first, end):
            hashed = np.uint32(np.uint32(truth_item[position]) * _ITEM_FACTOR)
            slot = np.int64(hashed >> shift)
            while slots[slot] >= 0:
                if truth_item[slots[slot] >> 1] == truth_item[position]:
                    n_found[0] = -1
                    return
                slot = (slot + 1) & mask
            slots[slot] = 2 * position
            stamps[hashed >> stamp_shift] = stamp
        listed = item[row]
        for column in range(item.shape[1]):
            code = listed[column]
            if code == NO_ITEM:
                break
            hashed = np.uint32(np.uint32(code) * _ITEM_FACTOR)
            at = hashed >> stamp_shift
            if stamps[at] != stamp:
                stamps[at] = stamp
                continue
            slot = np.int64(hashed >> shift)
            while slots[slot] >= 0 and truth_item[slots[slot] >> 1] != code:
                slot = (slot + 1) & mask
            if slots[slot] >= 0:
                if slots[slot] & 1:
                    n_found[0] = -1
                    return
                row_out[found], rank_out[found], truth_out[found] = row, column + 1, slots[slot] >> 1
                slots[slot] |= 1  # listed
                found += 1
            else:
                repeated = False
                for earlier in range(column):
                    repeated |= listed[earlier] == code
                if repeated:
                    n_found[0] = -1
                    return
    n_found[0] = found


def best_first(
    truth_indptr: arrays.Ints, rating: arrays.Floats, relevant: arrays.Flags
) -> tuple[arrays.Floats, arrays.Flags]:
    """Return ratings (t,) and their relevance with each user's highest first; equal ones must be equally relevant."""
    rating, relevant = rating.copy(), relevant.copy()
    _best_first(truth_indptr, rating, relevant)
    return rating, relevant


@compiled
def _best_first(truth_indptr: Ints, rating: FloatsOut, relevant: Flags) -> None:
    for row in range(len(truth_indptr) - 1):
        first, end = truth_indptr[row], truth_indptr[row + 1]
        gap = 1
        while 3 * gap + 1 < end - first:
            gap = 3 * gap + 1
        while gap > 0:  # Shell's sort
            for position in range(first + gap, end):
                value, flag, at = rating[position], relevant[position], position
                while at - gap >= first and rating[at - gap] < value:
                    rating[at], relevant[at] = rating[at - gap], relevant[at - gap]
                    at -= gap
                rating[at], relevant[at] = value, flag
            gap //= 3


def pad_ranked(
    item: arrays.Ints, rank: arrays.Ints, start: arrays.Ints, count: arrays.Ints
) -> arrays.Codes | None:
    """Return lists as rows, NO_ITEM behind the end: int32 (B, N); None if ranks are not 1, 2, 3 in order of rows.

    Args:
        item, rank: (m,) rows of lists, by user.
        start, count: (B,) first row and number of rows of each user.
    """
    padded = np.empty((len(count), max(1, int(count.max(initial=0)))), dtype=np.int32)
    in_order = np.ones(1, dtype=np.bool_)
    _pad_ranked(item, rank, start, count, padded, in_order)
    return padded if in_order[0] else None


@compiled
def _pad_ranked(
    item: Ints, rank: Ints, start: Ints, count: Ints, padded: CodeRowsOut, in_order: Flags
) -> None:
    for row in range(len(count)):
        wrong = False
        first, out = start[row], padded[row]
        for column in range(count[row]):
            wrong |= rank[first + column] != column + 1
            out[column] = np.int32(item[first + column])
        out[count[row] :] = NO_ITEM
        if wrong:
            in_order[0] = False
            return


def scatter(
    user: arrays.Ints,
    item: arrays.Ints,
    rank: arrays.Ints,
    start: arrays.Ints,
    count: arrays.Ints,
    ordered: arrays.Codes,
) -> bool:
    """Write items (m,) to ``start[user] + rank - 1``; return whether all ranks are between 1 and ``count[user]``."""
    in_range = np.ones(1, dtype=np.bool_)
    _scatter(user, item, rank, start, count, ordered, in_range)
    return bool(in_range[0])


@compiled
def _scatter(
    user: Ints, item: Ints, rank: Ints, start: Ints, count: Ints, ordered: CodesOut, in_range: Flags
) -> None:
    for row in range(len(user)):
        of, position = user[row], rank[row]
        if position < 1 or position > count[of]:
            in_range[0] = False
            return
        ordered[start[of] + position - 1] = np.int32(item[row])
