"""Which items may be listed, and how negatives are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.data import Candidates, Holdout, Interactions, NoSplit, Split


def made(pairs: list[tuple[int, int]]) -> Interactions:
    frame = pd.DataFrame(pairs, columns=["user", "item"]).assign(rating=range(1, len(pairs) + 1))
    return Interactions.from_frame(frame, rating="rating")


def divided(data: Interactions) -> Split:
    [fold] = Holdout(fraction=0.5).split(data, np.random.default_rng(1))
    return fold


@pytest.fixture
def split() -> Split:
    return divided(made([(user, item) for user in range(4) for item in range(user, 10, 2)]))


def test_unseen_excludes_the_train_items_and_judged_includes_the_truth_alone(split: Split) -> None:
    for kind, excluded, included in (
        ("unseen", split.train.rows, None),
        ("all", None, None),
        ("judged", None, split.test.rows),
    ):
        candidates = Candidates.of(kind, split, np.random.default_rng(0))
        assert candidates.excluded is excluded
        assert candidates.included is included


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 40)), min_size=12, max_size=120, unique=True),
    st.integers(0, 45),
)
def test_sampled_adds_n_unknown_items_to_each_truth_or_all_there_are(pairs, n):
    data = made([*pairs, (0, 99), (0, 98), (0, 97)])
    split = divided(data)
    included = Candidates.of("sampled", split, np.random.default_rng(0), n_negatives=n).included
    for user in range(data.n_users):
        items, truth, train = (
            included[user].tolist(),
            split.test.rows[user].tolist(),
            split.train.rows[user].tolist(),
        )
        assert items == sorted(set(items))
        negatives = set(items) - set(truth)
        assert set(truth) <= set(items) or not truth
        assert not negatives & set(train)
        free = data.n_items - len(truth) - len(train)
        assert len(negatives) == (min(n, free) if truth else 0)
    ratings = {(u, i): r for u, i, r in zip(split.test.user, split.test.item, split.test.rating, strict=True)}
    users = np.repeat(np.arange(data.n_users), included.counts)
    assert included.rating.tolist() == [
        ratings.get(pair, 0) for pair in zip(users, included.item, strict=True)
    ]


def test_sampled_is_the_same_for_the_same_generator(split: Split) -> None:
    one, two, other = (
        Candidates.of("sampled", split, np.random.default_rng(seed), n_negatives=2).included
        for seed in (3, 3, 4)
    )
    assert one.item.tolist() == two.item.tolist()
    assert one.item.tolist() != other.item.tolist()


@pytest.mark.parametrize("n", [2, 7])
def test_every_unknown_item_is_drawn_equally_often(n: int) -> None:
    # Few of many are drawn one by one, many of few by a shuffle: both must be fair.
    users = 4000
    data = made(
        [(user, item) for user in range(users) for item in (0, 11)] + [(users, item) for item in range(12)]
    )
    included = Candidates.of("sampled", divided(data), np.random.default_rng(0), n_negatives=n).included
    drawn = np.bincount(included.item[: included.indptr[users]], minlength=12)[1:11] / users
    # Four standard deviations of a binomial with 4000 trials.
    chance = n / 10
    assert np.abs(drawn - chance).max() < 4 * (chance * (1 - chance) / users) ** 0.5


def test_sampled_works_where_train_and_truth_are_the_same() -> None:
    data = made([(0, 0), (0, 1), (1, 2), (1, 3), (1, 4)])
    [same] = NoSplit().split(data, np.random.default_rng(0))
    included = Candidates.of("sampled", same, np.random.default_rng(0), n_negatives=3).included
    assert included.counts.tolist() == [2 + 3, 3 + 2]
