"""Compiled encoding of texts, for many rows; importing this module costs numba's import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt

from evalplugin.models.kernels.compiled import CodesOut, Ints, IntsOut, KeysOut, Words, compiled

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["dictionary_of"]

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_FIRST_BITS = 12  # of the number of slots, which grows with the distinct texts


def dictionary_of(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the distinct texts in the order of their first rows, and the code of each row: int32 (m,).

    ``texts`` (m,) are strings or large strings without nulls.
    """
    import pyarrow as pa

    n = len(texts)
    kind = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, characters = texts.buffers()
    ends = np.frombuffer(offsets, dtype=kind)[texts.offset : texts.offset + n + 1].astype(np.int64)
    words = np.zeros(
        (ends[-1] - ends[0]) // 8 + 2, dtype=np.uint64
    )  # a text is read by words, the last of them whole
    if ends[-1] > ends[0]:
        words.view(np.uint8)[: ends[-1] - ends[0]] = np.frombuffer(characters, np.uint8)[ends[0] : ends[-1]]
    ends -= ends[0]
    code, first = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int64)
    n_found = np.zeros(1, dtype=np.int64)
    _encode(ends, words, code, first, np.empty(n, dtype=np.uint64), n_found)
    return texts.take(pa.array(first[: n_found[0]])), code


@numba.njit(inline="always")
def _word(words: Any, at: Any, end: Any) -> Any:
    """Return the characters from ``at`` to ``end``, at most eight, as one number."""
    shift = np.uint64(8 * (at & 7))
    word = words[at >> 3] >> shift
    if shift > 0:
        word |= words[(at >> 3) + 1] << (np.uint64(64) - shift)
    if end - at < 8:
        word &= (np.uint64(1) << np.uint64(8 * (end - at))) - np.uint64(1)
    return word


@compiled
def _encode(
    ends: Ints, words: Words, code_out: CodesOut, first: IntsOut, hash_of: KeysOut, n_found: IntsOut
) -> None:
    bits, found = _FIRST_BITS, 0
    slots = np.full(1 << bits, -1, dtype=np.int32)
    for row in range(len(ends) - 1):
        start, end = ends[row], ends[row + 1]
        hashed = np.uint64(end - start)
        for at in range(start, end, 8):
            hashed = (hashed ^ _word(words, at, end)) * _FACTOR
            hashed ^= hashed >> np.uint64(32)
        hashed *= _FACTOR
        slot = np.int64(hashed >> np.uint64(64 - bits))
        code = slots[slot]
        while code >= 0:
            if hash_of[code] == hashed:
                other = ends[first[code]]
                if ends[first[code] + 1] - other == end - start:
                    same, at = True, start
                    while same and at < end:
                        same = _word(words, at, end) == _word(words, other + at - start, other + end - start)
                        at += 8
                    if same:
                        break
            slot = (slot + 1) & ((1 << bits) - 1)
            code = slots[slot]
        if code < 0:
            code = np.int32(found)
            first[found], hash_of[found], slots[slot] = row, hashed, code
            found += 1
            if 2 * found > len(slots):
                bits += 2
                slots = np.full(1 << bits, -1, dtype=np.int32)
                for other_code in range(found):
                    slot = np.int64(hash_of[other_code] >> np.uint64(64 - bits))
                    while slots[slot] >= 0:
                        slot = (slot + 1) & ((1 << bits) - 1)
                    slots[slot] = other_code
        code_out[row] = code
    n_found[0] = found
