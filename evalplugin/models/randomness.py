"""Random numbers of models: the seed of a fit, and one stream for each user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats
from evalplugin.models.threads import for_ranges

__all__ = ["RandomState", "UserStreams", "draw_seed"]

RandomState = Annotated[
    int | None,
    Field(ge=0, le=2**32 - 1, description="seed of the algorithm; null: drawn from the task's seed"),
]


@dataclass(frozen=True, eq=False)
class UserStreams:
    """A counter-based stream (Philox) for each user, so that a user's numbers do not depend on other users.

    All streams have one key, and each a range of counters of its own.
    """

    key: npt.NDArray[np.uint64]  # (2,)

    @classmethod
    def draw(cls, rng: np.random.Generator) -> UserStreams:
        """Return streams whose key is drawn from ``rng``."""
        return cls(rng.integers(0, 2**64, size=2, dtype=np.uint64))

    def uniform(self, users: Codes, n: int) -> Floats:
        """Return n numbers from [0, 1) for each user: float64 (len(users), n)."""
        return self._fill(users, n, lambda stream, row: stream.random(out=row))

    def normal(self, users: Codes, n: int) -> Floats:
        """Return n standard normal numbers for each user: float64 (len(users), n)."""
        return self._fill(users, n, lambda stream, row: stream.standard_normal(out=row))

    def _fill(self, users: Codes, n: int, draw: Callable[[np.random.Generator, Floats], object]) -> Floats:
        drawn = np.empty((len(users), n))

        def rows(start: int, stop: int) -> None:
            bits = np.random.Philox(key=self.key)
            stream, state = np.random.Generator(bits), bits.state
            for row, user in zip(drawn[start:stop], users[start:stop].tolist(), strict=True):
                # The lowest word counts within a stream, the next one is the user. A new generator for each user would
                # take longer than the numbers of a small catalogue.
                state["state"]["counter"][:] = 0, user, 0, 0
                bits.state = state
                draw(stream, row)

        for_ranges(rows, len(users), 64)
        return drawn


def draw_seed(random_state: int | None, rng: np.random.Generator) -> int:
    """Return the seed of an algorithm: its ``random_state``, or else one from ``rng``."""
    return int(rng.integers(2**31)) if random_state is None else random_state
