"""Make the log that docs/howto/logged.md reads: feed.csv, what a page showed, and fresh.csv, lists from elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd

USERS, ITEMS, REQUESTS, SLOTS, GROUPS = 400, 20, 12_000, 3, 4

generator = np.random.default_rng(0)
user = generator.integers(0, USERS, REQUESTS)
time = np.sort(generator.integers(1_760_000_000, 1_762_000_000, REQUESTS))  # seconds since 1970
# The policy that was in use draws items one after another, the popular ones more often.
score = np.log(1 / (np.arange(ITEMS) + 4))
slates = np.argsort(-(score + generator.gumbel(size=(REQUESTS, ITEMS))), axis=1)[:, :SLOTS]
chance = np.exp(score)[slates]
above = np.cumsum(chance, axis=1) - chance
propensity = chance / (np.exp(score).sum() - above)  # of each slot, given the items above

taste, kind = generator.integers(0, GROUPS, USERS), generator.integers(0, GROUPS, ITEMS)
likes = taste[user][:, None] == kind[slates]
click = generator.random((REQUESTS, SLOTS)) < np.where(likes, 0.4, 0.08) / np.arange(1, SLOTS + 1) ** 0.5

feed = pd.DataFrame(
    {
        "request": np.repeat([f"r{i:05d}" for i in range(REQUESTS)], SLOTS),
        "user": user.repeat(SLOTS),
        "time": time.repeat(SLOTS),
        "slot": np.tile(np.arange(1, SLOTS + 1), REQUESTS),
        "article": slates.ravel(),
        "click": click.ravel().astype(int),
        "p": propensity.ravel().round(6),
    }
)
feed.to_csv("feed.csv", index=False)

# Another team would show the newest articles, which the log has hardly shown.
newest = np.arange(ITEMS)[::-1]
fresh = pd.DataFrame(
    {"request": feed["request"].unique().repeat(ITEMS), "article": np.tile(newest, REQUESTS)}
)
fresh["rank"] = np.tile(np.arange(1, ITEMS + 1), REQUESTS)
fresh.to_csv("fresh.csv", index=False)
