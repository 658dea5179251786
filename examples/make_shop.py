"""Make the tables that the documentation reads: ratings.csv, people.csv and items.csv of a small shop."""

from __future__ import annotations

import numpy as np
import pandas as pd

USERS, ITEMS, RATINGS, GROUPS = 600, 150, 12_000, 5

generator = np.random.default_rng(0)
popularity = 1 / (np.arange(ITEMS) + 10)  # a few items are met by many
taste, kind = generator.integers(0, GROUPS, USERS), generator.integers(0, GROUPS, ITEMS)
likes = taste[:, None] == kind
weight = popularity * np.where(likes, 4.0, 1.0)  # and each user meets more of one kind
# The most of random numbers, raised to 1 / weight: a draw without replacement.
drawn = np.argsort(-(generator.random((USERS, ITEMS)) ** (1 / weight)), axis=None)[:RATINGS]
user, item = np.divmod(generator.permutation(drawn), ITEMS)
stars = np.clip(generator.integers(1, 6, RATINGS) + likes[user, item], 1, 5)
time = np.sort(generator.integers(1_760_000_000, 1_767_000_000, RATINGS))  # seconds since 1970
ratings = pd.DataFrame({"user_id": user, "item_id": item, "stars": stars, "time": time})
ratings.to_csv("ratings.csv", index=False)

people = pd.DataFrame({"user_id": range(USERS), "age": generator.integers(16, 80, USERS)})
people.to_csv("people.csv", index=False)
letter = np.array([*"ABCDE"])[kind]
items = pd.DataFrame(
    {
        "item_id": range(ITEMS),
        "name": [f"{k}-{i}" for i, k in enumerate(letter)],
        "kind": letter,
        "price": generator.integers(100, 10_000, ITEMS) / 100,
    }
)
items.to_csv("items.csv", index=False)
