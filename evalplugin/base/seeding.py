"""Random generators: one seed, and an independent stream for each named piece of work."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Ints


def generator(seed: int, *names: object) -> np.random.Generator:
    """Return the stream of one piece of work, named by words and numbers.

    It depends on the seed and the names alone: not on other work, its order or its process.
    """
    digest = hashlib.sha256("\x1f".join(map(str, names)).encode()).digest()
    words = np.frombuffer(digest, dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(int(w) for w in words)))


def hashed_ids(ids: npt.NDArray[np.generic], seed: int, *names: object) -> npt.NDArray[np.uint64]:
    """Return a hash of each id, integer or text, under a seed: uint64 (n,).

    It depends on the id, the seed and the names alone: not on other ids, their order, the machine or its process.
    """
    plain = (
        np.array([zlib.crc32(str(text).encode(errors="surrogatepass")) for text in ids], dtype=np.uint64)
        if ids.dtype == object
        else ids.astype(np.int64).view(np.uint64)
    )
    key = hashlib.sha256("\x1f".join(map(str, (seed, *names))).encode()).digest()
    return mixed(plain ^ np.frombuffer(key, dtype="<u8")[0])


def mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64 bits for each value in which each bit of it counts (the finalizer of SplitMix64, Steele 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hashed_ranks(ids: npt.NDArray[np.generic], seed: int, *names: object) -> Ints:
    """Return the place of each id in the order of hashes, from 0: int64 (n,); of equal ones the first id is first."""
    ranks = np.empty(len(ids), dtype=np.int64)
    ranks[np.argsort(hashed_ids(ids, seed, *names), kind="stable")] = np.arange(len(ids))
    return ranks
