"""Views of the train data against slow and obvious ones, on random data."""

from __future__ import annotations

from itertools import combinations
from math import isnan, log2, sqrt

import numpy as np
import pytest
from samples import coded

from evalplugin.data import Interactions
from evalplugin.metrics import TrainData, evaluate, train_data

USERS, ITEMS = 140, 25  # the bits of users fill several words


def interactions(seed: int, density: float = 0.2) -> Interactions:
    met = np.random.default_rng(seed).random((USERS, ITEMS)) < density * np.linspace(0, 2, ITEMS)
    met[3] = False  # a user without train data
    user, item = np.nonzero(met)
    shuffled = np.random.default_rng(seed).permutation(len(user))
    return coded(user[shuffled], item[shuffled], users=USERS, items=ITEMS)


def sets(data: Interactions) -> tuple[list[set[int]], list[set[int]]]:
    """Return who met each item, and what each user met."""
    users_of = [set(data.user[data.item == item].tolist()) for item in range(ITEMS)]
    items_of = [set(data.item[data.user == user].tolist()) for user in range(USERS)]
    return users_of, items_of


@pytest.mark.parametrize("words", [1, 64])
def test_cosines_do_not_depend_on_how_much_is_done_at_a_time(monkeypatch, words):
    monkeypatch.setattr(train_data, "_WORDS", words)
    monkeypatch.setattr(train_data, "_PAIR_WORDS", 3 * words)
    data = interactions(1)
    users_of, _ = sets(data)
    views = TrainData(data)
    rng = np.random.default_rng(0)
    for _ in range(5):
        one, other = rng.integers(0, ITEMS, (2, 50))
        expected = [
            len(users_of[a] & users_of[b]) / sqrt(len(users_of[a]) * len(users_of[b]))
            if users_of[a] and users_of[b]
            else 0
            for a, b in zip(one.tolist(), other.tolist(), strict=True)
        ]
        assert views.cosine(one, other) == pytest.approx(expected, rel=1e-15)
        assert np.array_equal(views.cosine(one, other), views.cosine(other, one))


def test_the_popularity_rank_counts_more_popular_items_that_the_user_has_not_met() -> None:
    data = interactions(2)
    users_of, items_of = sets(data)
    user, item = (axis.ravel() for axis in np.indices((USERS, ITEMS)))
    ranks = TrainData(data).popularity_rank(user, item).reshape(USERS, ITEMS)
    for u in range(USERS):
        for i in range(ITEMS):
            ahead = [j for j in range(ITEMS) if len(users_of[j]) > len(users_of[i]) and j not in items_of[u]]
            assert ranks[u, i] == (ITEMS + 1 if i in items_of[u] else len(ahead) + 1)
    none = np.empty(0, dtype=np.int64)
    assert len(TrainData(data).popularity_rank(none, none)) == 0


def test_users_and_information() -> None:
    data = interactions(3)
    users_of, items_of = sets(data)
    views = TrainData(data)
    n_users = sum(map(bool, items_of))
    assert views.n_users == n_users < USERS
    assert views.information == pytest.approx([log2(n_users / max(len(users), 1)) for users in users_of])


def test_metrics_beyond_relevance_on_random_lists() -> None:
    data = interactions(4)
    users_of, items_of = sets(data)
    n_users = sum(map(bool, items_of))
    rng = np.random.default_rng(4)
    lists = [rng.permutation(ITEMS)[: rng.choice([0, 1, 2, 6])].tolist() for _ in range(USERS)]
    truth = [set(rng.permutation(ITEMS)[: rng.choice([0, 1, 5])].tolist()) for _ in range(USERS)]
    got = {
        name: evaluate(f"{name}@4", lists=lists, truth=truth, train=items_of, catalogue=range(ITEMS))
        for name in ("novelty", "popularity", "diversity", "serendipity")
    }
    for user, listed in enumerate(row[:4] for row in lists):
        counts = [len(users_of[item]) for item in listed]
        if listed:
            assert got["novelty"][user] == pytest.approx(np.mean([log2(n_users / max(c, 1)) for c in counts]))
            assert got["popularity"][user] == pytest.approx(np.mean(counts))
        else:
            assert isnan(got["novelty"][user])
        if len(listed) > 1:
            alike = [
                len(users_of[a] & users_of[b]) / sqrt(len(users_of[a]) * len(users_of[b]) or 1)
                for a, b in combinations(listed, 2)
            ]
            assert got["diversity"][user] == pytest.approx(1 - np.mean(alike))
        unmet = sorted((len(users_of[i]) for i in range(ITEMS) if i not in items_of[user]), reverse=True)
        # What ties with the last of the popularity list is in it too.
        popular = {i for i in range(ITEMS) if i not in items_of[user] and len(users_of[i]) >= unmet[3]}
        if truth[user]:
            assert got["serendipity"][user] == len((set(listed) & truth[user]) - popular) / 4
        else:
            assert isnan(got["serendipity"][user])


def test_the_popularity_baseline_is_never_serendipitous() -> None:
    data = interactions(5)
    users_of, items_of = sets(data)
    lists = [
        sorted(set(range(ITEMS)) - items_of[user], key=lambda i: (-len(users_of[i]), i))[:10]
        for user in range(USERS)
    ]
    truth = [set(range(ITEMS))] * USERS
    for k in (1, 3, 10):
        assert evaluate(f"serendipity@{k}", lists=lists, truth=truth, train=items_of) == [0] * USERS
