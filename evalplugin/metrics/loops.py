"""Compiled loops over lists and truth, for many rows; importing this module costs numba's import."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evalplugin.metrics.matching import Matches
from evalplugin.models.kernels import compiled as nb

# An odd multiplier without structure; it affects the speed of a match, never its result.
_ITEM_FACTOR = np.uint32(2654435769)
_STAMPS_PER_ITEM = 64  # few enough collisions that comparing a collided item with all before it costs little
_MOST_STAMPS = 2**28  # bytes
_LAST_STAMP = np.uint8(255)
_LEVELS = 64  # the most rating levels for a counting sort
_NONE = np.empty(0, dtype=np.int64)
# Matches of a list by score that are ranked by counting the better items; a sort is faster for more.
_MOST_COUNTED = 64


def match(
    item: nb.Ints,
    rank: nb.Ints | None,
    score: nb.Floats | None,
    start: nb.Ints,
    count: nb.Ints,
    truth_indptr: nb.Ints,
    truth_item: nb.Codes,
) -> Matches | None:
    """Return the listed items that are in the user's truth, by user and then by rank.

    Args:
        item: (m,) rows of lists, as codes.
        rank: (m,) their ranks, in any order within a user.
        score: (m,) their scores, likewise, where they have no rank. None for both: rows are in the order of ranks.
        start, count: (B,) first row and number of rows of each user.
        truth_indptr: (B + 1,) first truth item of each user.
        truth_item: (t,) codes.

    Returns:
        The matches; None if an item is repeated in a list or in a truth, if the ranks of a user are not 1, 2, 3 and so
        on, or if lists should be sorted first, as one by score has many matches.
    """
    width, longest = int(count.max(initial=0)), int(np.diff(truth_indptr).max(initial=0))
    n_stamps = min(_power_of_two(_STAMPS_PER_ITEM * (width + longest)), _MOST_STAMPS)
    scratch = _Scratch(
        np.zeros(n_stamps, dtype=np.uint8),
        np.empty(_power_of_two(4 * longest), dtype=np.int64),
        np.empty(width, dtype=np.int64),
        np.empty(width, dtype=np.int64),
    )
    row, place, truth = np.empty((3, min(int(count.sum()), len(truth_item))), dtype=np.int64)
    n_matches = np.zeros(1, dtype=np.int64)
    rows = _ListRows(
        item,
        _NONE if rank is None else rank,
        _NONE.astype(np.float64) if score is None else score,
        start,
        count,
    )
    _match(rows, _Truth(truth_indptr, truth_item), scratch, _MatchesOut(row, place, truth, n_matches))
    n = int(n_matches[0])
    return None if n < 0 else Matches(row[:n], place[:n], truth[:n])


def _power_of_two(least: int) -> int:
    return 1 << max(3, (least - 1).bit_length())


class _ListRows(NamedTuple):
    item: nb.Ints
    rank: nb.Ints  # empty: there are none
    score: nb.Floats  # the same
    start: nb.Ints
    length: nb.Ints


class _Truth(NamedTuple):
    indptr: nb.Ints
    item: nb.Codes


class _Scratch(NamedTuple):
    stamps: nb.BytesOut
    slots: nb.IntsOut
    suspects: nb.IntsOut
    ordered: nb.IntsOut


class _MatchesOut(NamedTuple):
    row: nb.IntsOut
    rank: nb.IntsOut
    truth: nb.IntsOut
    n: nb.IntsOut  # (1,)


@nb.compiled
def _match(rows: _ListRows, truth: _Truth, scratch: _Scratch, matches: _MatchesOut) -> None:
    item, rank, score, start, count = rows
    truth_indptr, truth_item = truth
    stamps, slots, suspects, ordered = scratch
    row_out, rank_out, truth_out, n_matches = matches
    # Each user has a stamp. An item of the truth or the list stamps the byte that its hash selects. A listed item whose
    # byte is unstamped is in neither so far; any other is looked up in the truth, or compared with all items before it.
    stamp_bits = 0
    while (1 << stamp_bits) < len(stamps):
        stamp_bits += 1
    stamp_shift = np.uint32(32 - stamp_bits)
    stamp, n_so_far = np.uint8(0), 0
    for row in range(len(count)):
        if stamp == _LAST_STAMP:
            stamps[:] = 0
            stamp = np.uint8(0)
        stamp = np.uint8(stamp + np.uint8(1))
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
                    n_matches[0] = -1
                    return
                slot = (slot + 1) & mask
            slots[slot] = 2 * position
            stamps[hashed >> stamp_shift] = stamp
        listed = item[start[row] : start[row] + count[row]]
        if len(rank) > 0:
            ranks = rank[start[row] : start[row] + count[row]]
            moved = False
            for column in range(len(listed)):
                moved |= ranks[column] != column + 1
            if moved:
                # As many places as rows: a repeated rank leaves another place empty.
                ordered[: len(listed)] = -1
                for column in range(len(listed)):
                    if ranks[column] < 1 or ranks[column] > len(listed):
                        n_matches[0] = -1
                        return
                    ordered[ranks[column] - 1] = listed[column]
                missing = False
                for column in range(len(listed)):
                    missing |= ordered[column] == -1
                if missing:
                    n_matches[0] = -1
                    return
                listed = ordered[: len(listed)]
        n_before, n_suspects = n_so_far, 0
        for column in range(len(listed)):  # without a branch, as the processor could not predict it
            at = np.uint32(np.uint32(listed[column]) * _ITEM_FACTOR) >> stamp_shift
            suspects[n_suspects] = column
            n_suspects += stamps[at] == stamp
            stamps[at] = stamp
        for suspect in range(n_suspects):
            column = suspects[suspect]
            code = listed[column]
            slot = np.int64(np.uint32(np.uint32(code) * _ITEM_FACTOR) >> shift)
            while slots[slot] >= 0 and truth_item[slots[slot] >> 1] != code:
                slot = (slot + 1) & mask
            if slots[slot] >= 0:
                if slots[slot] & 1:
                    n_matches[0] = -1
                    return
                row_out[n_so_far], rank_out[n_so_far], truth_out[n_so_far] = row, column + 1, slots[slot] >> 1
                slots[slot] |= 1  # listed
                n_so_far += 1
            else:
                repeated = False
                for earlier in range(column):
                    repeated |= listed[earlier] == code
                if repeated:
                    n_matches[0] = -1
                    return
        if len(score) > 0 and n_so_far > n_before:
            scores = score[start[row] : start[row] + count[row]]
            unsorted = False
            for column in range(1, len(scores)):
                unsorted |= (scores[column - 1] < scores[column]) | (
                    (scores[column - 1] == scores[column]) & (listed[column - 1] > listed[column])
                )
            if unsorted:
                if n_so_far - n_before > _MOST_COUNTED:
                    n_matches[0] = -1
                    return
                for match in range(n_before, n_so_far):
                    own, code, better = scores[rank_out[match] - 1], listed[rank_out[match] - 1], 0
                    for column in range(len(scores)):
                        better += (scores[column] > own) | ((scores[column] == own) & (listed[column] < code))
                    place, position = match, truth_out[match]
                    while place > n_before and rank_out[place - 1] > better + 1:
                        rank_out[place], truth_out[place] = rank_out[place - 1], truth_out[place - 1]
                        place -= 1
                    rank_out[place], truth_out[place] = better + 1, position
    n_matches[0] = n_so_far


def best_first(truth_indptr: nb.Ints, rating: nb.Floats) -> nb.Floats | None:
    """Return ratings (t,) with each user's highest first; None unless they are whole or half stars."""
    highest, lowest = float(rating.max(initial=0)), float(rating.min(initial=0))
    if highest - lowest >= _LEVELS / 2:
        return None
    best, counted = np.empty_like(rating), np.zeros(1, dtype=np.bool_)
    places = np.empty(int(2 * (highest - lowest)) + 1, dtype=np.int64)
    _count_best_first(truth_indptr, rating, highest, places, best, counted)
    return best if counted[0] else None


@nb.compiled
def _count_best_first(
    truth_indptr: nb.Ints,
    rating: nb.Floats,
    highest: float,
    places: nb.IntsOut,
    best: nb.FloatsOut,
    counted: nb.Flags,
) -> None:
    for row in range(len(truth_indptr) - 1):
        first, end = truth_indptr[row], truth_indptr[row + 1]
        places[:] = 0
        for position in range(first, end):
            level = np.int64(2 * (highest - rating[position]))
            if highest - level / 2 != rating[position]:
                return
            places[level] += 1
        place = first
        for below in range(len(places)):
            places[below], place = place, place + places[below]
        for position in range(first, end):
            level = np.int64(2 * (highest - rating[position]))
            best[places[level]] = rating[position]
            places[level] += 1
    counted[0] = True


def scatter(user: nb.Ints, item: nb.Ints, rank: nb.Ints, indptr: nb.Ints, ordered: nb.CodesOut) -> bool:
    """Write items (m,) to ``indptr[user] + rank - 1``; return whether all ranks are within the user's positions.

    Args:
        user, item, rank: (m,) the rows.
        indptr: (U + 1,) first position of each user.
        ordered: The output.
    """
    in_range = np.ones(1, dtype=np.bool_)
    _scatter(user, item, rank, indptr, ordered, in_range)
    return bool(in_range[0])


@nb.compiled
def _scatter(
    user: nb.Ints, item: nb.Ints, rank: nb.Ints, indptr: nb.Ints, ordered: nb.CodesOut, in_range: nb.Flags
) -> None:
    for row in range(len(user)):
        position = indptr[user[row]] + rank[row] - 1
        if rank[row] < 1 or position >= indptr[user[row] + 1]:
            in_range[0] = False
            return
        ordered[position] = np.int32(item[row])


def order_by_user(user: nb.Ints, start: nb.Ints) -> nb.Ints:
    """Return the rows by user, those of one user in their order: int64 (m,).

    Args:
        user: (m,) codes.
        start: (U,) first place of each user.
    """
    order = np.empty(len(user), dtype=np.int64)
    _order_by_user(user, start.copy(), order)
    return order


@nb.compiled
def _order_by_user(user: nb.Ints, place: nb.IntsOut, order: nb.IntsOut) -> None:
    for row in range(len(user)):
        order[place[user[row]]] = row
        place[user[row]] += 1
