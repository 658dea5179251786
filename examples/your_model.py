"""A model of your own: check its contract, then let it compete."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import evalplugin
from evalplugin.testing import check_recommender


@evalplugin.model("co-occurrence")
@dataclass
class CoOccurrence:
    """Items that were met together with those of the user, by how many users met both."""

    damping: float = 0.5  # 0: counts alone, 1: divided by the popularity of both items
    uses_ratings = False
    cold_users = "popularity"  # users without history meet no item: their scores are all 0

    def fit(self, train: evalplugin.Interactions, rng: np.random.Generator) -> None:
        """Count users of each pair of items."""
        met = np.zeros((train.n_users, train.n_items))
        met[train.user, train.item] = 1.0
        self.met = met
        together = met.T @ met
        np.fill_diagonal(together, 0.0)
        popularity = np.maximum(train.item_counts, 1.0) ** self.damping
        self.weight = together / popularity[:, None] / popularity

    def scores(self, users: np.ndarray) -> np.ndarray:
        """Return the sum of weights with the user's items, one user at a time so that batches change nothing."""
        return np.stack([self.met[user] @ self.weight for user in users])


if __name__ == "__main__":
    check_recommender("co-occurrence")
    outcome = evalplugin.run(
        {
            "experiment": "example",
            "datasets": [{"type": "synthetic", "n_users": 500, "n_items": 300, "n_interactions": 20_000}],
            "split": {"type": "last_n", "n": 3},
            "checks": {"ignore": ["EV101"]},  # made-up users do not change over time
            "relevance": {"threshold": 4},
            "metrics": ["ndcg@10"],
            "models": ["popularity", {"type": "co-occurrence", "grid": {"damping": [0.0, 0.5, 1.0]}}],
            "compare": {"baseline": "popularity"},
        }
    )
    print(outcome.to_frame())
