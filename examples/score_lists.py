"""Score lists that another system made, and keep every user's scores."""

from __future__ import annotations

import numpy as np
import pandas as pd

import evalplugin

generator = np.random.default_rng(0)
users = np.arange(1_000)
truth = pd.DataFrame({"user": users.repeat(3), "item": generator.integers(0, 200, 3_000)}).drop_duplicates()
lists = pd.DataFrame(
    {
        "user": users.repeat(20),
        "item": np.concatenate([generator.permutation(200)[:20] for _ in users]),
        "rank": np.tile(np.arange(1, 21), len(users)),
    }
)

scores = evalplugin.score(lists, truth, metrics=["ndcg@10", "recall@20", "coverage@20"])
print(scores.means)
print(scores.per_user.describe())
