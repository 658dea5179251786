"""Random numbers of models: the seed of a fit, and one stream for each user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Flags, Floats, row_entries
from evalplugin.models.base import Recommender
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Rows

RandomState = Annotated[
    int | None,
    Field(ge=0, le=2**32 - 1, description="seed of the algorithm; null: drawn from the task's seed"),
]

_ROUND = 64  # item draws that a user's stream has in a row
_GAP = 16  # users whose draws are skipped by drawing them, as a new generator takes longer
_NONE = 2**63 - 1


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

    def distinct_items(self, users: Codes, n: int, n_items: int, excluded: Rows | None) -> Codes:
        """Return n distinct items for each user, all such lists equally likely: int32 (len(users), n).

        A user's stream is an endless sequence of items. The list is its first n items, less excluded ones and
        repetitions. So it depends on the user and the excluded items alone, and is the start of longer lists.

        Args:
            users: Codes, (U,).
            n: Length of the lists. Fast if excluded and listed items are at most half of the catalogue.
            n_items: Size of the catalogue.
            excluded: Items that are not listed, by user; each user has n others.
        """
        listed = np.empty((len(users), n), dtype=np.int32)

        def rows(start: int, stop: int) -> None:
            lacking, rounds = np.arange(start, stop), -(-5 * n // (4 * _ROUND))
            while len(lacking):
                item, complete = self._first_items(users[lacking], n, n_items, excluded, rounds)
                listed[lacking[complete]] = item[complete]
                lacking, rounds = lacking[~complete], 2 * rounds

        for_ranges(rows, len(users), 128)
        return listed

    def _first_items(
        self, users: Codes, n: int, n_items: int, excluded: Rows | None, rounds: int
    ) -> tuple[Codes, Flags]:
        """Return the lists from the first rounds of draws, and whether each is complete."""
        draws = np.concatenate([self._raw_round(users, number) for number in range(rounds)], axis=1)
        # Lemire 2019, "Fast random integer generation in an interval": the upper half of the product is the item, and
        # a draw whose lower half is below the threshold is dropped, so that all items are equally likely.
        product = draws * np.uint64(n_items)
        item = (product >> np.uint64(32)).astype(np.int64)
        entry = item << 32 | np.arange(draws.shape[1])
        entry[product.astype(np.uint32) < 2**32 % n_items] = _NONE
        entry.sort(axis=1)
        item, place = entry >> 32, entry & (2**32 - 1)
        dropped = entry == _NONE
        dropped[:, 1:] |= item[:, 1:] == item[:, :-1]
        if excluded is not None:
            entries, row = row_entries(excluded.indptr, users)
            known = row * n_items + excluded.item[entries]
            sought = np.arange(len(users))[:, None] * n_items + np.minimum(item, n_items - 1)
            dropped |= np.append(known, -1)[np.searchsorted(known, sought)] == sought
        order = place << 32 | item
        order[dropped] = _NONE
        order.sort(axis=1)
        return (order[:, :n] & (2**32 - 1)).astype(np.int32), order[:, n - 1] < _NONE

    def _raw_round(self, users: Codes, number: int) -> npt.NDArray[np.uint64]:
        """Return one round of draws for each user: 32 random bits each, uint64 (len(users), _ROUND)."""
        parts = []
        for run in np.split(users, np.flatnonzero((np.diff(users) < 1) | (np.diff(users) > _GAP)) + 1):
            first, size = int(run[0]), int(run[-1]) - int(run[0]) + 1
            # A step of the counter makes eight draws. The highest word is 1: no other stream has these counters.
            bits = np.random.Philox(key=self.key, counter=[first * (_ROUND // 8), 0, number, 1])
            drawn = bits.random_raw(size * (_ROUND // 2)).astype("<u8", copy=False).view("<u4")
            parts.append(drawn.reshape(size, _ROUND)[run - first])
        return np.concatenate(parts).astype(np.uint64)

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


class Seeded(Recommender):
    """A model that is stochastic if it has a parameter ``random_state``, and that is null."""

    random_state: int | None = 0  # of a model without the parameter, whose fit is not random

    @property
    def stochastic(self) -> bool:
        """Whether another stream of random numbers may change the lists."""
        return self.random_state is None


def draw_seed(random_state: int | None, rng: np.random.Generator) -> int:
    """Return the seed of an algorithm: its ``random_state``, or else one from ``rng``."""
    return int(rng.integers(2**31)) if random_state is None else random_state
