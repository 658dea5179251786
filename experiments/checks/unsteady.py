"""A model that gives other lists each time: it draws its random numbers from the operating system."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

import evalplugin
from evalplugin import Interactions

__all__ = ["Unsteady"]


@evalplugin.model("unsteady")
@dataclass
class Unsteady:
    """Random scores of items, the same for all users."""

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Draw the scores."""
        self._scores = np.random.default_rng(list(os.urandom(8))).random(train.n_items)

    def scores(self, users: np.ndarray) -> np.ndarray:
        """Return the scores of all items for each user."""
        return np.tile(self._scores, (len(users), 1))
