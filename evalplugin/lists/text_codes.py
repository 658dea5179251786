"""Codes of text by compiled loops, for millions of rows; importing this module costs numba's import."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa
from evalplugin.data.vocabulary import arrow_dictionary
from evalplugin.models.kernels.compiled import Bytes, Codes, CodesOut, Flags, Ints, IntsOut, KeysOut, compiled

# Odd multipliers without structure; they affect the speed, never the result.
_FACTOR, _OTHER_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
_HALF, _LOWER = np.uint64(32), np.uint64(2**32 - 1)
_SLOTS = 2**17  # of the first table, which the second-level cache holds
_GROWTH = 4


def compiled_dictionary(texts: pa.Array) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Return the different texts of a column without nulls, and each row's position among them: int32 (m,).

    Texts of one hash get one code; then every row is compared with the text of its code. Should two texts share a hash,
    Arrow encodes the column.
    """
    data, offsets = _buffers(texts)
    codes, n_codes = np.empty(len(texts), dtype=np.int32), np.full(1, -1, dtype=np.int64)
    n_slots = _SLOTS
    while n_codes[0] < 0:  # the table was too small
        first = np.empty(n_slots // 2, dtype=np.int64)
        _code_hashes(data, offsets, np.zeros(n_slots, dtype=np.uint64), first, codes, n_codes)
        n_slots *= _GROWTH
    dictionary = texts.take(pa.array(first[: int(n_codes[0])]))
    same = np.zeros(1, dtype=np.bool_)
    _compare(data, offsets, *_buffers(dictionary), codes, same)
    return (dictionary, codes) if same[0] else arrow_dictionary(texts)


def _buffers(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the bytes of all texts, and where each starts and the last one ends: int64 (m + 1,)."""
    _, offsets, data = texts.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    starts = np.frombuffer(offsets, width, len(texts) + 1, texts.offset * width.itemsize)
    return np.frombuffer(data or b"", np.uint8), starts.astype(np.int64, copy=False)


@numba.njit(inline="always")
def _word(data: Any, at: Any) -> Any:
    """Return 8 bytes as a number, in the form that the compiler makes one instruction of."""
    at = np.uint64(at)
    word = np.uint64(data[at])
    for byte in range(1, 8):
        word |= np.uint64(data[at + np.uint64(byte)]) << np.uint64(8 * byte)
    return word


@compiled
def _code_hashes(
    data: Bytes, offsets: Ints, table: KeysOut, first: IntsOut, codes: CodesOut, n_codes: IntsOut
) -> None:
    # A slot holds 32 bits of a hash, whose highest bits select the slot, and a code plus 1; 0: it is free.
    mask, shift = np.uint64(len(table) - 1), np.uint64(64)
    while (np.uint64(1) << (np.uint64(64) - shift)) < len(table):
        shift -= np.uint64(1)
    made = 0
    for row in range(len(codes)):
        at, end = offsets[row], offsets[row + 1]
        hashed = np.uint64(end - at) * _FACTOR
        while at + 8 <= end:
            hashed = (hashed ^ _word(data, at)) * _OTHER_FACTOR
            hashed ^= hashed >> _HALF
            at += 8
        if end - offsets[row] >= 8:
            hashed = (hashed ^ _word(data, end - 8)) * _OTHER_FACTOR
        else:
            word = np.uint64(0)
            for byte in range(at, end):
                word = (word << np.uint64(8)) | np.uint64(data[byte])
            hashed = (hashed ^ word) * _OTHER_FACTOR
        hashed = (hashed ^ (hashed >> _HALF)) * _FACTOR
        slot, tag = hashed >> shift, hashed << _HALF
        entry = table[slot]
        while entry != 0 and ((entry ^ tag) >> _HALF) != 0:
            slot = (slot + np.uint64(1)) & mask
            entry = table[slot]
        if entry == 0:
            if made == len(first):
                return
            first[made] = row
            made += 1
            entry = tag | np.uint64(made)
            table[slot] = entry
        codes[row] = np.int64(entry & _LOWER) - 1
    n_codes[0] = made


@compiled
def _compare(
    data: Bytes, offsets: Ints, other_data: Bytes, other_offsets: Ints, codes: Codes, same: Flags
) -> None:
    for row in range(len(codes)):
        at, end = offsets[row], offsets[row + 1]
        other, other_end = other_offsets[codes[row]], other_offsets[codes[row] + 1]
        if other_end - other != end - at:
            return
        differ = np.uint64(0)
        if end - at >= 8:
            differ = _word(data, end - 8) ^ _word(other_data, other_end - 8)
            while at + 8 <= end:
                differ |= _word(data, at) ^ _word(other_data, other)
                at += 8
                other += 8
        else:
            for byte in range(end - at):
                differ |= np.uint64(data[at + byte] ^ other_data[other + byte])
        if differ != 0:
            return
    same[0] = True
