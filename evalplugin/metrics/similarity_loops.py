"""Compiled sums of the similarities of listed items; importing this module costs numba's import."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numba
import numpy as np

from evalplugin.base.arrays import NO_ITEM
from evalplugin.models.kernels import compiled as nb

_BITS = 64
_GROUP = 32  # items of a list that are marked at once, a bit each
_CACHE_BITS = 20  # of the number of pairs of items whose common users are cached by a thread: 12 MB
_PAIR_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@numba.njit(inline="always")
def _bit(word: Any, position: Any) -> Any:
    return np.int64((word >> np.uint64(position & 63)) & np.uint64(1))


@numba.njit(inline="always")
def _ones(word: Any) -> Any:
    """Return the number of bits that are set, in the form that the compiler makes one instruction of."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


class _PairCache(threading.local):
    """Numbers of common users of pairs of items, each at the place that its hash selects; one a thread."""

    def __init__(self) -> None:
        self.pair = np.full(2**_CACHE_BITS, -1, dtype=np.int64)
        self.count = np.empty(2**_CACHE_BITS, dtype=np.int32)


class _Arrays(NamedTuple):
    """The users of each item, in a form for compiled loops."""

    indptr: nb.Ints  # (n_items + 1,)
    user: nb.Codes  # (m,) codes
    bit_row: nb.Ints  # (n_items,) the row of bits of an item, -1 without
    bits: nb.Words
    n_words: int  # of a row of bits
    cached_pair: nb.IntsOut
    cached_count: nb.CodesOut


class ItemUsers:
    """The users of each item: codes, and bits for items that have so many users that bits are fewer words."""

    def __init__(self, user: nb.Codes, item: nb.Codes, n_users: int, n_items: int) -> None:
        """Take distinct pairs of user and item (m,), in any order."""
        indptr = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=n_items))])
        grouped, self.n_users, self._cache = np.empty_like(user), n_users, _PairCache()
        _group_by_item(user, item, indptr.copy(), grouped)
        n_words = -(-n_users // _BITS)
        frequent = np.flatnonzero(np.diff(indptr) > n_words)
        bit_row = np.full(n_items, -1, dtype=np.int64)
        bit_row[frequent] = np.arange(len(frequent))
        bits = np.zeros(len(frequent) * n_words, dtype=np.uint64)
        _set_bits(indptr, grouped, frequent, n_words, bits)
        self._shared = indptr, grouped, bit_row, bits, n_words

    @property
    def arrays(self) -> _Arrays:
        """The arrays, with the cache of this thread."""
        return _Arrays(*self._shared, self._cache.pair, self._cache.count)


def sums_of_cosines(item: nb.Codes, users: ItemUsers) -> nb.Floats:
    """Return each list's sum of the cosines between its items, pair by pair in the order of ranks: float64 (B,).

    ``item`` (B, K) lists, NO_ITEM behind the end.
    """
    sums = np.zeros(len(item))
    marks, both = np.zeros(users.n_users, dtype=np.int64), np.zeros(_GROUP * item.shape[1], dtype=np.int64)
    _sum_cosines(np.ascontiguousarray(item), users.arrays, marks, both, sums)
    return sums


@nb.compiled
def _group_by_item(user: nb.Codes, item: nb.Codes, next_entry: nb.IntsOut, grouped: nb.CodesOut) -> None:
    for row in range(len(user)):
        grouped[next_entry[item[row]]] = user[row]
        next_entry[item[row]] += 1


@nb.compiled
def _set_bits(indptr: nb.Ints, user: nb.Codes, frequent: nb.Ints, n_words: int, bits: nb.KeysOut) -> None:
    for row in range(len(frequent)):
        for entry in range(indptr[frequent[row]], indptr[frequent[row] + 1]):
            word = row * n_words + (user[entry] >> 6)
            bits[word] |= np.uint64(1) << np.uint64(user[entry] & 63)


@numba.njit(nogil=True, error_model="numpy")
def _common(first: Any, second: Any, users: Any) -> Any:
    """Return the number of users of two items; at least one of them is frequent."""
    indptr, user, bit_row, bits, n_words, cached_pair, cached_count = users
    pair = np.int64(min(first, second)) * (len(indptr) - 1) + max(first, second)
    at = np.int64((np.uint64(pair) * _PAIR_FACTOR) >> np.uint64(64 - _CACHE_BITS))
    if cached_pair[at] == pair:
        return np.int64(cached_count[at])
    if bit_row[first] < 0:
        first, second = second, first
    first_word, common = bit_row[first] * n_words, np.int64(0)
    if bit_row[second] >= 0:
        for word in range(n_words):
            common += _ones(bits[first_word + word] & bits[bit_row[second] * n_words + word])
    else:
        for entry in range(indptr[second], indptr[second + 1]):
            common += _bit(bits[first_word + (user[entry] >> 6)], user[entry])
    cached_pair[at], cached_count[at] = pair, common
    return common


@nb.compiled
def _sum_cosines(
    item: nb.CodeRows, users: _Arrays, marks: nb.IntsOut, both: nb.IntsOut, sums: nb.FloatsOut
) -> None:
    # A user's mark is the number of a group of up to 32 items of a list, and a bit for each of these that the user has.
    # So one visit to the users of an item counts its common users with each item of the group. Pairs with a frequent
    # item are counted by bits of users instead.
    indptr, user, bit_row, _, _, _, _ = users
    width, group = item.shape[1], 0
    for row in range(item.shape[0]):
        for start in range(0, width, _GROUP):
            if item[row, start] == NO_ITEM:
                break
            group += 1
            stop = min(start + _GROUP, width)
            both[:] = 0
            for j in range(start, width):
                other = item[row, j]
                if other == NO_ITEM:
                    break
                if bit_row[other] >= 0:
                    continue
                own = np.int64(1) << (j - start) if j < stop else np.int64(0)
                for entry in range(indptr[other], indptr[other + 1]):
                    mark = marks[user[entry]]
                    if mark >> _GROUP != group:
                        mark = np.int64(group) << _GROUP
                    marks[user[entry]] = mark | own
                    place, left = j, mark & ((1 << _GROUP) - 1)
                    while left > 0:
                        both[place] += left & 1
                        place, left = place + width, left >> 1
            for i in range(start, stop):
                if item[row, i] == NO_ITEM:
                    break
                for j in range(i + 1, width):
                    first, second = item[row, i], item[row, j]
                    if second == NO_ITEM:
                        break
                    if bit_row[first] >= 0 or bit_row[second] >= 0:
                        common = _common(first, second, users)
                    else:
                        common = both[(i - start) * width + j]
                    if common > 0:
                        n_first, n_second = (
                            indptr[first + 1] - indptr[first],
                            indptr[second + 1] - indptr[second],
                        )
                        size = np.float64(n_first) * np.float64(n_second)
                        sums[row] += np.float64(common) / np.sqrt(size)
