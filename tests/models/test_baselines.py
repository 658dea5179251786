from __future__ import annotations

import numpy as np
import pytest

from evalplugin.base.errors import ParameterError
from evalplugin.base.seeding import generator
from evalplugin.models import MODELS
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
