"""Random numbers that belong to a user: the same whichever users are asked for, in whatever order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["UserStreams"]


@dataclass(frozen=True, eq=False)
class UserStreams:
    """A counter-based stream (Philox) for each user, all of one key, each with a range of counters of its own."""

    key: npt.NDArray[np.uint64]  # (2,)

    @classmethod
    def draw(cls, rng: np.random.Generator) -> UserStreams:
        """Return streams whose key is drawn from ``rng``."""
        return cls(rng.integers(0, 2**64, size=2, dtype=np.uint64))

    def uniform(self, users: npt.NDArray[np.int32], n: int) -> npt.NDArray[np.float64]:
        """Return n numbers from [0, 1) for each user: float64 (len(users), n)."""
        drawn = np.empty((len(users), n))
        for row, user in zip(drawn, users.tolist(), strict=True):
            self._of(user).random(out=row)
        return drawn

    def normal(self, users: npt.NDArray[np.int32], n: int) -> npt.NDArray[np.float64]:
        """Return n standard normal numbers for each user: float64 (len(users), n)."""
        drawn = np.empty((len(users), n))
        for row, user in zip(drawn, users.tolist(), strict=True):
            self._of(user).standard_normal(out=row)
        return drawn

    def _of(self, user: int) -> np.random.Generator:
        # The lowest word counts within a stream, the next one tells the users apart.
        return np.random.Generator(np.random.Philox(key=self.key, counter=[0, user, 0, 0]))
