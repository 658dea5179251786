"""A plugin file as an author would write it: one model that scores, one that makes lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from evalplugin.models import model


@model("example.together")
@dataclass
class Together:
    """Items that were met together with the user's own, weighted by rating."""

    cold_users = "popularity"

    power: Annotated[float, Field(gt=0, description="exponent of the number of common users")] = 1.0

    def fit(self, train, rng):
        self._ratings = np.zeros((train.n_users, train.n_items))
        self._ratings[train.user, train.item] = train.rating
        self._together = (self._ratings.T @ self._ratings) ** self.power

    def scores(self, users):
        return np.stack([self._ratings[user] @ self._together for user in users])


@model("example.together_lists")
@dataclass
class TogetherLists:
    """The same as lists."""

    cold_users = "popularity"

    def fit(self, train, rng):
        self._model = Together()
        self._model.fit(train, rng)

    def recommend(self, users, n):
        scores = self._model.scores(users)
        items = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        return items, np.take_along_axis(scores, items, axis=1)
