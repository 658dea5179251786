"""Compiled sums of the similarities of listed items; importing this module costs numba's import."""

from __future__ import annotations

import threading
from typing import Any

import numba
import numpy as np

from evalplugin.base import arrays
from evalplugin.models.kernels.compiled import (
    BytesOut,
    CodeRows,
    Codes,
    CodesOut,
    FloatsOut,
    Ints,
    IntsOut,
    KeysOut,
    Words,
    compiled,
)
from evalplugin.models.selection import NO_ITEM

__all__ = ["ItemUsers", "sums_of_cosines"]

_BITS = 64
_CACHED = 2**20  # pairs of items whose common users are cached by a thread: 12 MB
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
        self.pair = np.full(_CACHED, -1, dtype=np.int64)
        self.count = np.empty(_CACHED, dtype=np.int32)


class ItemUsers:
    """The users of each item: codes, and bits for items that have so many users that bits are fewer words."""

    def __init__(self, indptr: arrays.Ints, user: arrays.Codes, n_users: int) -> None:
        """Take the users of item i, ``user[indptr[i] : indptr[i + 1]]``."""
        self.indptr, self.user, self.n_users = indptr, user, n_users
        n_words = -(-n_users // _BITS)
        frequent = np.flatnonzero(np.diff(indptr) > n_words)
        self.bit_row = np.full(len(indptr) - 1, -1, dtype=np.int64)
        self.bit_row[frequent] = np.arange(len(frequent))
        self.bits = np.zeros(len(frequent) * n_words, dtype=np.uint64)
        self.cache = _PairCache()
        _set_bits(indptr, user, frequent, n_words, self.bits)


def sums_of_cosines(item: arrays.Codes, users: ItemUsers) -> arrays.Floats:
    """Return each list's sum of the cosines between its items, pair by pair in the order of ranks: float64 (B,).

    ``item`` (B, K) lists, NO_ITEM behind the end.
    """
    sums = np.zeros(len(item))
    marks = np.zeros(users.n_users, dtype=np.uint8)
    _sum_cosines(
        np.ascontiguousarray(item), users.indptr, users.user, users.bit_row, users.bits,
        -(-users.n_users // _BITS), marks, users.cache.pair, users.cache.count, sums,
    )  # fmt: skip
    return sums


@compiled
def _set_bits(indptr: Ints, user: Codes, frequent: Ints, n_words: int, bits: KeysOut) -> None:
    for row in range(len(frequent)):
        for entry in range(indptr[frequent[row]], indptr[frequent[row] + 1]):
            word = row * n_words + (user[entry] >> 6)
            bits[word] |= np.uint64(1) << np.uint64(user[entry] & 63)


@compiled
def _sum_cosines(
    item: CodeRows,
    indptr: Ints,
    user: Codes,
    bit_row: Ints,
    bits: Words,
    n_words: int,
    marks: BytesOut,
    cached_pair: IntsOut,
    cached_count: CodesOut,
    sums: FloatsOut,
) -> None:
    cache_bits = 0
    while (1 << cache_bits) < len(cached_pair):
        cache_bits += 1
    cache_shift = np.uint64(64 - cache_bits)
    n_items = len(indptr) - 1
    for row in range(item.shape[0]):
        for i in range(item.shape[1]):
            one = item[row, i]
            if one == NO_ITEM:
                continue
            first, end = indptr[one], indptr[one + 1]
            one_bits = bit_row[one]
            marked = False
            for j in range(i + 1, item.shape[1]):
                other = item[row, j]
                if other == NO_ITEM:
                    continue
                other_first, other_end = indptr[other], indptr[other + 1]
                pair = np.int64(min(one, other)) * n_items + max(one, other)
                at = np.int64((np.uint64(pair) * _PAIR_FACTOR) >> cache_shift)
                if cached_pair[at] == pair:
                    both = int(cached_count[at])
                else:
                    other_bits = bit_row[other]
                    both = 0
                    if one_bits >= 0 and other_bits >= 0:
                        for word in range(n_words):
                            both += _ones(bits[one_bits * n_words + word] & bits[other_bits * n_words + word])
                    elif one_bits >= 0:
                        for entry in range(other_first, other_end):
                            both += _bit(bits[one_bits * n_words + (user[entry] >> 6)], user[entry])
                    elif other_bits >= 0:
                        for entry in range(first, end):
                            both += _bit(bits[other_bits * n_words + (user[entry] >> 6)], user[entry])
                    else:
                        if not marked:
                            marked = True
                            for entry in range(first, end):
                                marks[user[entry]] = 1
                        for entry in range(other_first, other_end):
                            both += marks[user[entry]]
                    cached_pair[at], cached_count[at] = pair, both
                if both > 0:
                    size = np.float64(end - first) * np.float64(other_end - other_first)
                    sums[row] += np.float64(both) / np.sqrt(size)
            if marked:
                for entry in range(first, end):
                    marks[user[entry]] = 0
