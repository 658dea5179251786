"""Random generators: one seed, and an independent stream for each named piece of work."""

from __future__ import annotations

import hashlib

import numpy as np

__all__ = ["generator"]


def generator(seed: int, *names: object) -> np.random.Generator:
    """Return the stream of one piece of work, named by words and numbers.

    It depends on the seed and the names alone: not on other work, its order or its process.
    """
    digest = hashlib.sha256("\x1f".join(map(str, names)).encode()).digest()
    words = np.frombuffer(digest, dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(int(w) for w in words)))
