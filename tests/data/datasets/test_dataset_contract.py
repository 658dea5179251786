"""Every registered dataset keeps the contract of datasets."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalplugin.base.errors import Problem
from evalplugin.data import DATASETS, Interactions, LoadContext
from evalplugin.testing import check_dataset

FRAME = pd.DataFrame({"user": [1, 1, 2], "item": [5, 6, 5], "rating": [3.0, 4.0, 5.0]})


@pytest.mark.parametrize("name", DATASETS.names())
def test_every_registered_dataset_keeps_the_contract(name: str) -> None:
    params: dict[str, object] = {}
    if name == "csv":
        FRAME.to_csv("ratings.csv", index=False)
        params = {"path": "ratings.csv", "rating": "rating"}
    elif name == "parquet":
        FRAME.to_parquet("ratings.parquet")
        params = {"path": "ratings.parquet", "rating": "rating"}
    elif name == "json":
        FRAME.to_json("ratings.jsonl", orient="records", lines=True)
        params = {"path": "ratings.jsonl", "rating": "rating"}
    elif name == "pairs":
        Path("train.txt").write_text("1 5 6\n2 5\n")
        Path("test.txt").write_text("1 5\n2 6\n")
        params = {"path": {"train": "train.txt", "test": "test.txt"}, "format": "adjacency"}
    elif name == "dataframe":
        params = {"frame": FRAME, "rating": "rating"}
    elif name == "sql":
        FRAME.to_sql("ratings", sqlite3.connect("shop.db"), index=False)
        params = {"url": "sqlite:///shop.db", "query": "SELECT * FROM ratings", "rating": "rating"}
    elif name == "impressions":
        FRAME.assign(decision=["a", "b", "c"]).to_csv("log.csv", index=False)
        params = {"path": "log.csv", "reward": "rating", "propensity": {"estimate": "item-position"}}
    elif name == "synthetic":
        params = {"n_users": 30, "n_items": 40, "n_interactions": 300}
    elif name == "movielens":
        folder = Path("ml-latest-small")
        folder.mkdir()
        (folder / "ratings.csv").write_text(
            "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n2,10,4.0,835355493\n"
        )
        (folder / "movies.csv").write_text(
            "movieId,title,genres\n10,GoldenEye (1995),Action\n31,Heat (1995),Drama\n"
        )
        params = {"version": "latest-small"}
    check_dataset(name, LoadContext(data_home=Path.cwd()), **params)


@dataclass
class Broken:
    """A dataset that breaks one rule."""

    rule: str
    loads: int = 0

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem where that is the rule."""
        return [Problem((), "is missing")] if self.rule == "problem" else []

    def load(self, context: LoadContext) -> Interactions:
        """Return interactions as the rule says."""
        self.loads += 1
        data = Interactions.from_frame(FRAME, rating="rating")
        if self.rule == "other":
            data = replace(data, rating=data.rating + np.float32(self.loads))
        if self.rule == "unsorted":
            data = replace(data, users=data.users[::-1])
        if self.rule == "infinite":
            data = replace(data, rating=np.full(len(data), np.inf, dtype=np.float32))
        if self.rule == "codes":
            data = replace(data, item=data.item + np.int32(1))
        if self.rule == "twice":
            data = replace(data, user=np.zeros(3, np.int32), item=np.zeros(3, np.int32))
        return data


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("problem", "must find no problem"),
        ("other", "loading twice must give the same content"),
        ("unsorted", "must be sorted and unique"),
        ("infinite", "ratings must be finite"),
        ("codes", "codes of items must be within items"),
        ("twice", "no pair of user and item may occur twice"),
    ],
)
def test_the_contract_names_the_rule_that_is_broken(rule: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_dataset(Broken, rule=rule)
