from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.data import Candidates, Interactions
from evalplugin.models import MODELS, recommend
from evalplugin.models.base import ListRequest
from evalplugin.testing import check_recommender
from evalplugin.testing.model import checkerboard

CONFIG = {
    "experiment": "shop",
    "datasets": [{"type": "synthetic", "n_users": 80, "n_items": 60, "n_interactions": 2000}],
    "split": {"type": "last_n", "n": 3},
    "relevance": {"threshold": 4},
    "recommend": {"n": 10},
    "metrics": ["ndcg@10", "recall@10", "rr", "ap@10", "coverage@10", "novelty@10"],
}


def data() -> Interactions:
    user, item = np.divmod(np.arange(12), 4)
    return Interactions.from_frame(
        pd.DataFrame({"user": np.array(["ann", "bob", "eve"])[user], "item": np.array(list("abcd"))[item]})
    ).select(np.arange(12) % 4 == np.arange(12) // 4)  # ann has a, bob b, eve c


def lists_of(frame: pd.DataFrame, n: int = 3, **params: object):
    frame.to_csv("lists.csv", index=False)
    model = MODELS.create("lists", {"path": "lists.csv", **params})
    train = data()
    users = np.arange(3, dtype=np.int32)
    top = recommend(model, ListRequest(train, users, n, Candidates("unseen", excluded=train.rows)))
    names = np.array([*train.items, None])
    return [[name for name in names[row] if name is not None] for row in top.item], model.notes


def test_what_cannot_be_listed_is_counted_and_named() -> None:
    rows = [
        ("ann", "b", 1), ("ann", "a", 2), ("ann", "z", 3), ("ann", "c", 4), ("ann", "d", 5),
        ("bob", "d", 1),
        ("tom", "a", 1),
    ]  # fmt: skip
    lists, notes = lists_of(pd.DataFrame(rows, columns=["user", "item", "rank"]))
    assert lists == [["b", "c", "d"], ["d"], []]
    assert notes == [
        "left out: 1 user that the data does not have, such as 'tom'",
        "left out: 1 listed item that the data does not have, such as 'z'",
        "left out: 1 listed item that the user has already, of 1 user, such as 'ann'",
        "1 of 3 users without a list, such as 'eve': they score 0",
        "1 of 3 lists with fewer than 3 items, such as that of 'bob'",
    ]


@pytest.mark.parametrize("kind", ["judged", "all"])
def test_items_outside_of_other_candidates_are_counted(kind: str) -> None:
    pd.DataFrame({"user": "ann", "item": ["d", "a", "c"], "rank": [1, 2, 3]}).to_csv("lists.csv", index=False)
    model, train = MODELS.create("lists", {"path": "lists.csv"}), data()
    judged = Candidates("judged", included=train.rows) if kind == "judged" else Candidates("all")
    top = recommend(model, ListRequest(train, np.array([0], dtype=np.int32), 3, judged))
    if kind == "judged":
        assert top.item.tolist() == [[0, -1, -1]]
        assert model.notes == [
            "left out: 2 listed items outside of the candidates (judged), of 1 user, such as 'ann'",
            "1 of 1 lists with fewer than 3 items, such as that of 'ann'",
        ]
    else:
        assert top.item.tolist() == [[3, 0, 2]]
        assert model.notes == []


def test_lists_with_scores_are_sorted_by_them() -> None:
    frame = pd.DataFrame({"user": ["ann"] * 3, "item": ["d", "c", "b"], "points": [1.0, 2.0, 2.0]})
    assert lists_of(frame, score="points")[0][0] == ["b", "c", "d"]


def test_bad_lists_are_refused() -> None:
    twice = pd.DataFrame({"user": ["ann", "ann"], "item": ["b", "b"], "rank": [1, 2]})
    with pytest.raises(DataError, match=r"of user 'ann' has item 'b' twice"):
        lists_of(twice)
    with pytest.raises(DataError, match=r"user ids are integers in the lists .* but text in the data"):
        lists_of(twice.assign(user=[1, 2]))


@pytest.mark.filterwarnings("ignore:.* lists with fewer than 10 items")
def test_each_fold_has_its_file(store: Path) -> None:
    config = {**CONFIG, "split": {"type": "kfold", "k": 2}}
    first = evalplugin.run({**config, "models": ["popularity"]}, tracking_uri="sqlite:///mlflow.db")
    table = first.models[0].top_n.to_pandas()
    for fold, part in table.groupby("fold"):
        part.to_parquet(f"fold-{fold}.parquet")
    model = {"name": "given", "type": "lists", "params": {"path": "fold-{fold}.parquet"}}
    again = evalplugin.run({**config, "models": [model]}, tracking_uri="sqlite:///mlflow.db")
    assert again.models[0].fold_means == first.models[0].fold_means


@pytest.mark.filterwarnings("ignore:.*(left out. |without a list)")
def test_what_is_left_out_is_counted_by_fold(store: Path, no_drawing: None) -> None:
    users = np.arange(1, 80)  # the data has users 1 to 80, and 59 of the 60 items
    for fold, unknown in ((1, 5), (2, 6)):
        lists = pd.DataFrame({"user": users.repeat(60), "item": np.tile(np.arange(60), len(users))})
        lists["rank"] = lists["item"] + 1
        lists.loc[lists["user"] <= unknown, "item"] += 1000
        lists.to_parquet(f"fold-{fold}.parquet")
    model = {"name": "given", "type": "lists", "params": {"path": "fold-{fold}.parquet"}}
    config = {**CONFIG, "split": {"type": "kfold", "k": 2}, "models": [model]}
    (result,) = evalplugin.run(config, tracking_uri="sqlite:///mlflow.db").models
    assert [note for note in result.notes if "does not have" in note] == [
        "fold 1: left out: 374 listed items that the data does not have, such as 1000",
        "fold 2: left out: 433 listed items that the data does not have, such as 1000",
    ]
    assert [note for note in result.notes if "without" in note] == [
        "fold 1: 6 of 80 users without a list, such as 1: they score 0",
        "fold 2: 7 of 80 users without a list, such as 1: they score 0",
    ]


def test_the_contract_holds() -> None:
    board = checkerboard()
    rows = [
        (board.users[user], item, rank)
        for user in range(board.n_users)
        for rank, item in enumerate(sorted(board.items, key=lambda i: ((i - 1000) // 2 + user) % 2), 1)
    ]
    pd.DataFrame(rows, columns=["user", "item", "rank"]).to_parquet("board.parquet")
    check_recommender("lists", path="board.parquet")
