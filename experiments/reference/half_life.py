"""A model of the reference bake-offs' own: popularity that halves with age."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import evalplugin


@evalplugin.model("half-life")
@dataclass
class HalfLife:
    """Popularity of items in which each interaction counts half after some days."""

    days: float = 30.0
    uses_ratings = False
    cold_users = "popularity"

    def fit(self, train: evalplugin.Interactions, rng: np.random.Generator) -> None:
        """Add up the weights of each item's interactions."""
        age = (train.timestamp.max() - train.timestamp) / 86_400
        self.weight = np.bincount(train.item, weights=0.5 ** (age / self.days), minlength=train.n_items)

    def scores(self, users: np.ndarray) -> np.ndarray:
        """Return the same scores for every user: float64 (users, items)."""
        return np.tile(self.weight, (len(users), 1))
