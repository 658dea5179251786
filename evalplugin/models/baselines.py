"""Baseline models: random and most popular items."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats
from evalplugin.data import Interactions
from evalplugin.models.base import model
from evalplugin.models.randomness import UserStreams

__all__ = ["MostPopular", "Random"]


@model("random")
@dataclass
class Random:
    """Items in random order, another for each user.

    Scores are uniform in [0, 1). Each user has a counter-based stream (Philox; Salmon et al. 2011, "Parallel random
    numbers: as easy as 1, 2, 3") keyed by the task's seed, so they depend on neither the other users nor the blocks.

    With ``legacy_seed`` the scores are ``numpy.random.RandomState(legacy_seed).normal(size=n_users * n_items)``, user
    by user in order of user code: what older published experiments draw after ``numpy.random.seed``. That is one
    sequence for all users, so all n_users x n_items float64 numbers are held in memory.
    """

    personalised: ClassVar[bool] = False

    legacy_seed: Annotated[
        int | None,
        Field(
            ge=0,
            le=2**32 - 1,
            description="seed of NumPy's legacy generator; null: the task's seed and Philox",
        ),
    ] = None
    _n_items: int = field(default=0, init=False, repr=False, compare=False)
    _streams: UserStreams | None = field(default=None, init=False, repr=False, compare=False)
    _legacy: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the key of all streams; nothing is learned."""
        self._n_items = train.n_items
        self._streams = UserStreams.draw(rng)
        self._legacy = None
        if self.legacy_seed is not None:
            legacy = np.random.RandomState(self.legacy_seed)  # the point is the old sequence
            self._legacy = legacy.normal(size=train.n_users * train.n_items).reshape(train.n_users, -1)

    def scores(self, users: Codes) -> Floats:
        """Return random numbers: float64 (len(users), n_items)."""
        if self._legacy is not None:
            return self._legacy[users]
        assert self._streams is not None
        return self._streams.uniform(users, self._n_items)


@model("popularity")
@dataclass
class MostPopular:
    """The items that most users interacted with, in the same order for all users.

    score(u, i) = number of train interactions with item i. Ties are in catalogue order. Users without train
    data get the same list.
    """

    personalised: ClassVar[bool] = False

    _counts: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Count the interactions with each item."""
        self._counts = train.item_counts.astype(np.float64)

    def scores(self, users: Codes) -> Floats:
        """Return the counts for each user: float64 (len(users), n_items), read-only."""
        assert self._counts is not None
        return np.broadcast_to(self._counts, (len(users), len(self._counts)))
