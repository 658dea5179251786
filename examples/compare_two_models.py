"""Compare two models on a table of your own, from Python: who wins, for whom, and is it real?"""

from __future__ import annotations

import numpy as np
import pandas as pd

import evalplugin

# Any table of users, items and, where there are some, ratings and times.
generator = np.random.default_rng(0)
popularity = generator.zipf(1.3, 30_000) % 400
ratings = pd.DataFrame({"user": generator.integers(0, 500, 30_000), "item": popularity})
ratings = ratings.drop_duplicates(ignore_index=True)
ratings["time"] = range(len(ratings))

outcome = evalplugin.run(
    {
        "experiment": "example",
        "datasets": [{"name": "shop", "type": "dataframe", "frame": ratings, "timestamp": "time"}],
        "split": {"type": "last_n", "n": 2},
        "checks": {"ignore": ["EV101"]},  # made-up users do not change over time
        "metrics": ["ndcg@10", "recall@10"],
        "models": ["popularity", {"name": "neighbours", "type": "sklearn.NearestNeighbors"}],
        "compare": {"baseline": "popularity"},
    }
)
print(outcome.to_frame())

comparisons = evalplugin.compare(outcome)
comparisons.to_html("comparison.html")
print("the page is comparison.html; in MLflow:", outcome.links.board_url)
