"""Make retrieval.csv, like a retrieval benchmark: queries of several tasks, a column for each model; compare it."""

from __future__ import annotations

import numpy as np
import pandas as pd

import evalplugin

QUERIES = 400
QUALITY = {"bm25": 0.0, "embed-small": 0.15, "embed-large": 0.35, "embed-large-v2": 0.4}

generator = np.random.default_rng(0)
ease = generator.normal(size=QUERIES)  # of a query, for all models
scores = {
    model: np.clip(0.5 + 0.25 * (ease + quality + 0.6 * generator.normal(size=QUERIES)), 0, 1).round(4)
    for model, quality in QUALITY.items()
}
task = np.array(["facts", "finance", "medicine", "news"])[np.arange(QUERIES) % 4]
table = pd.DataFrame({"query": np.arange(QUERIES), "task": task, **scores})
table.to_csv("retrieval.csv", index=False)

compared = evalplugin.compare_scores(table, unit="query", wide=True, value="ndcg@10", segments="task")
print("may be the best:", ", ".join(compared[0].may_be_best))
for group in compared[0].best_in_groups("task", "ndcg@10"):
    print(f"{group.label}: {', '.join(group.models)}")
