"""Baseline models: random and most popular items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats
from evalplugin.models.base import ListRequest, Recommender, model
from evalplugin.models.randomness import UserStreams
from evalplugin.models.selection import select_candidates

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions

_BLOCK_PLACES = 8  # scores of a block for each place of a list


@model("random")
@dataclass
class Random(Recommender):
    """Items in random order, another for each user.

    All orders of the candidates are equally likely, and the r-th item, from 0, has the score 1 - r / n_items. Each
    user has a counter-based stream (Philox; Salmon et al. 2011) keyed by the task's seed. Where most of the catalogue
    is drawn, or candidates are named one by one, scores are numbers from [0, 1).

    With ``legacy_seed`` the scores are ``numpy.random.RandomState(legacy_seed).normal(size=n_users * n_items)``, user
    by user, as older published experiments draw after ``numpy.random.seed``. They are all held in memory.
    """

    personalised: ClassVar[bool] = False
    lists_new_items: ClassVar[bool] = True
    cold_users: ClassVar[str] = "random items, as all users get"

    legacy_seed: Annotated[
        int | None,
        Field(
            ge=0,
            le=2**32 - 1,
            description="seed of NumPy's legacy generator; null: the task's seed and Philox",
        ),
    ] = None

    @property
    def stochastic(self) -> bool:
        """Whether another stream of random numbers may change the lists."""
        return self.legacy_seed is None

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the key of all streams; nothing is learned."""
        self._n_items = train.n_items
        self._streams = UserStreams.draw(rng)
        self._legacy: Floats | None = None
        if self.legacy_seed is not None:
            legacy = np.random.RandomState(self.legacy_seed)  # the point is the old sequence
            self._legacy = legacy.normal(size=train.n_users * train.n_items).reshape(train.n_users, -1)

    def recommend_candidates(
        self, users: Codes, n: int, candidates: Candidates, history: Interactions | None = None
    ) -> tuple[Codes, Floats]:
        """Return random lists: items and scores, (len(users), n)."""
        excluded = candidates.excluded
        taken = np.full(len(users), n) + (0 if excluded is None else excluded.counts[users])
        sparse = (2 * taken <= self._n_items) & (history is None)
        sparse &= (candidates.included is None) & (self._legacy is None)
        item, score = np.empty((len(users), n), dtype=np.int32), np.empty((len(users), n))
        item[sparse] = self._streams.distinct_items(users[sparse], n, self._n_items, excluded)
        score[sparse] = 1 - np.arange(n) / max(1, self._n_items)
        others = users[~sparse]
        item[~sparse], score[~sparse] = select_candidates(others, self.scores(others), n, candidates)
        return item, score

    def scores(self, users: Codes) -> Floats:
        """Return random numbers: float64 (len(users), n_items)."""
        if self._legacy is not None:
            return self._legacy[
                users % len(self._legacy)
            ]  # new users may have codes behind those of the train data
        return self._streams.uniform(users, self._n_items)

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return random numbers, as ``scores`` does: a history decides nothing."""
        return self.scores(users)


@model("popularity")
@dataclass
class MostPopular(Recommender):
    """The items that most users interacted with, in the same order for all users.

    score(u, i) = number of train interactions with item i, or in a log (`duplicates: keep`) of events.
    """

    personalised: ClassVar[bool] = False
    stochastic: ClassVar[bool] = False
    cold_users: ClassVar[str] = "popularity"

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Count the interactions with each item."""
        self._counts = train.item_events.astype(np.float64)

    def block_items(self, request: ListRequest) -> int:
        """Return fewer items than there are: all users share one row of scores, which is sorted once a block."""
        return min(request.train.n_items, _BLOCK_PLACES * request.n)

    def scores(self, users: Codes) -> Floats:
        """Return the counts for each user: float64 (len(users), n_items), read-only."""
        return np.broadcast_to(self._counts, (len(users), len(self._counts)))

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the counts, as ``scores`` does: a history decides nothing."""
        return self.scores(users)
