from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evalplugin.base.errors import ParameterError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates, Rows
from evalplugin.models import MODELS, limit_threads, recommend
from evalplugin.models.base import ListRequest
from evalplugin.models.randomness import UserStreams
from evalplugin.testing.model import checkerboard


def fitted(name, params=None, seed=1, data=None):
    model = MODELS.create(name, params)
    model.fit(data or checkerboard(), generator(seed, "model"))
    return model


def test_popularity_is_the_number_of_train_interactions():
    data = checkerboard()
    scores = fitted("popularity", data=data).scores(np.array([0, 40], dtype=np.int32))
    np.testing.assert_array_equal(scores, [[(data.item == i).sum() for i in range(data.n_items)]] * 2)


def test_random_scores_belong_to_the_user_and_the_seed():
    users = np.arange(41, dtype=np.int32)
    scores = fitted("random").scores(users)
    np.testing.assert_array_equal(fitted("random").scores(users[::-1])[::-1], scores)
    np.testing.assert_array_equal(fitted("random").scores(users[17:18]), scores[17:18])
    assert (fitted("random", seed=2).scores(users) != scores).all()
    assert len(np.unique(scores)) == scores.size
    assert ((scores >= 0) & (scores < 1)).all()
    assert abs(scores.mean() - 1 / 2) < 4 * (1 / 12 / scores.size) ** 0.5


def rows_of(*items):
    """Return the rows of users 0, 1, ... with the given items."""
    indptr = np.cumsum([0, *map(len, items)])
    code = np.array([code for row in items for code in row], dtype=np.int32)
    return Rows(indptr, code, np.ones(len(code), dtype=np.float32))


STREAMS = UserStreams(np.array([7, 8], dtype=np.uint64))


def chi_square(counts):
    expected = counts.sum() / counts.size
    return ((counts - expected) ** 2 / expected).sum()


def test_every_random_list_of_unseen_items_is_equally_likely():
    # 3 of the 4 unseen items of 13: 24 ordered lists; 47.9 is exceeded in 0.2 % of cases (23 degrees of freedom).
    n_users = 30_000
    seen = [0, 2, 3, 5, 6, 8, 9, 10, 12]
    excluded = Rows(
        np.arange(n_users + 1) * 9,
        np.tile(np.array(seen, dtype=np.int32), n_users),
        np.ones(9 * n_users, np.float32),
    )
    lists = STREAMS.distinct_items(np.arange(n_users, dtype=np.int32), 3, 13, excluded)
    assert set(np.unique(lists)) == {1, 4, 7, 11}
    _, counts = np.unique(lists @ [196, 14, 1], return_counts=True)
    assert len(counts) == 24
    assert chi_square(counts) < 47.9


def test_random_lists_use_the_whole_catalogue_alike():
    lists = STREAMS.distinct_items(np.arange(20_000, dtype=np.int32), 10, 50, None)
    assert all(len(set(row)) == 10 for row in lists.tolist())
    for position in (0, 4, 9):  # 49 degrees of freedom: 85.4 is exceeded in 0.1 % of cases
        assert chi_square(np.bincount(lists[:, position], minlength=50)) < 85.4


@pytest.mark.parametrize("n_items", [600, 2**31 - 1])
def test_a_random_list_depends_on_the_user_and_the_excluded_items_alone(n_items):
    users = np.array([0, 3, 4, 40, 41, 2**31 - 1, 7], dtype=np.int32)
    every = STREAMS.distinct_items(users, 100, n_items, None)
    assert every.dtype == np.int32
    np.testing.assert_array_equal(STREAMS.distinct_items(users[::-1], 100, n_items, None)[::-1], every)
    for row, user in enumerate(users):
        with limit_threads(1):
            alone = STREAMS.distinct_items(np.array([user]), 300, n_items, None)[0]
        np.testing.assert_array_equal(alone[:100], every[row])  # and it is the start of longer ones
    first = every[0].tolist()
    without = STREAMS.distinct_items(users[:1], 90, n_items, rows_of(sorted(first[5:15])))[0]
    assert without.tolist() == first[:5] + first[15:]


def test_random_lists_of_a_large_catalogue_skip_seen_items_in_any_block():
    data = dataclasses.replace(checkerboard(), items=np.arange(4000))
    model = fitted("random", data=data)
    users = np.arange(41, dtype=np.int32)
    first = recommend(model, ListRequest(data, users, 50, Candidates("all"))).item
    excluded = rows_of(*(sorted(row[: 3 * user].tolist()) for user, row in enumerate(first[:, :40])))
    candidates = Candidates("unseen", excluded=excluded)
    whole = recommend(model, ListRequest(data, users, 50, candidates))
    for user, (seen, listed, before) in enumerate(
        zip(map(excluded.__getitem__, users), whole.item, first, strict=True)
    ):
        assert not set(seen) & set(listed), user
        kept = [code for code in before if code not in seen]
        assert listed[: len(kept)].tolist() == kept
        assert len(set(listed)) == 50
    assert (np.diff(whole.score) < 0).all()
    blocks = recommend(model, ListRequest(data, users, 50, candidates), block_bytes=1)
    np.testing.assert_array_equal(blocks.item, whole.item)
    np.testing.assert_array_equal(blocks.score, whole.score)
    other = fitted("random", seed=2, data=data)
    assert (recommend(other, ListRequest(data, users, 50, candidates)).item != whole.item).any(axis=1).all()


def test_users_who_saw_most_of_the_catalogue_get_all_the_rest_at_random():
    data = checkerboard()  # 31 items
    model = fitted("random", data=data)
    excluded = rows_of(list(range(25)), [], list(range(31)))
    top = recommend(
        model, ListRequest(data, np.arange(3, dtype=np.int32), 10, Candidates("unseen", excluded=excluded))
    )
    assert sorted(top.item[0]) == [-1] * 4 + list(range(25, 31))
    assert len(set(top.item[1])) == 10
    assert set(top.item[2]) == {-1}


def test_random_numbers_are_those_of_philox_at_the_counter_of_the_user():
    streams = UserStreams(np.array([7, 8], dtype=np.uint64))
    users = np.array([0, 3, 2**31 - 1, 70], dtype=np.int32)
    for draw, name in ((streams.uniform, "random"), (streams.normal, "standard_normal")):
        for n in (1, 2, 7):
            expected = [
                getattr(
                    np.random.Generator(np.random.Philox(key=streams.key, counter=[0, user, 0, 0])), name
                )(n)
                for user in users.tolist()
            ]
            np.testing.assert_array_equal(draw(users, n), expected)


def test_legacy_seed_draws_the_numbers_of_the_old_generator_user_by_user():
    data = checkerboard()
    np.random.seed(10)  # noqa: NPY002 - what published experiments did
    expected = np.random.normal(size=data.n_users * data.n_items).reshape(data.n_users, -1)  # noqa: NPY002
    model = fitted("random", {"legacy_seed": 10}, data=data)
    np.testing.assert_array_equal(model.scores(np.array([3, 8], dtype=np.int32)), expected[[3, 8]])


@pytest.mark.parametrize("seed", [-1, 2**32, "ten", 1.5])
def test_legacy_seed_must_be_a_seed(seed):
    with pytest.raises(ParameterError, match=r"legacy_seed: must be"):
        MODELS.create("random", {"legacy_seed": seed})
