from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from evalplugin.components.registry import load_plugin_file
from evalplugin.models import MODELS, Recommender, defines
from evalplugin.testing import check_recommender
from evalplugin.testing.model import RECOMMENDER_CHECKS, check_leaves_data_untouched, checkerboard, walks

load_plugin_file(Path(__file__).parent / "plugin_example.py")

# The board has rank two, and forty users: some defaults are made for more.
SMALL = {
    "sklearn.NMF": [{"n_components": 2}, {"n_components": 2, "values": "binary"}],
    "sklearn.TruncatedSVD": [{"n_components": 2}, {"n_components": 2, "values": "binary"}],
    "sklearn.NearestNeighbors": [{}, {"n_neighbors": 15, "metric": "euclidean"}, {"values": "binary"}],
    "implicit.AlternatingLeastSquares": [{"factors": 2}, {"factors": 2, "use_cg": False, "values": "binary"}],
    "implicit.LogisticMatrixFactorization": [{"factors": 4}],
    "ease": [{}, {"precision": "float32"}],
    "neighbours.item": [
        {},
        {"similarity": "jaccard", "shrink": 1.0, "values": "rating"},
        {"similarity": "asymmetric", "weighting": "tf-idf", "normalize": False},
    ],
    "neighbours.user": [{}, {"inverted": True, "similarity": "tversky", "weighting": "bm25"}],
    "random": [{}, {"legacy_seed": 10}],
    "session.knn": [
        {},
        {"similarity": "cosine", "weighting": "same", "weighting_score": "same"},
        {"sampling": "random", "sample_size": 20, "last_n_clicks": 5, "idf_weighting": 1.0},
    ],
    "session.rules": [{}, {"kind": "association"}, {"weighting": "linear", "steps": 20, "pruning": None}],
    "surprise.KNNBasic": [{}, {"sim_options": {"user_based": False}}],
}
# Models that need a file, a program or another environment have the same tests beside those of their own.
CASES = [
    (entry.name, params)
    for entry in MODELS
    if not defines(entry.cls, Recommender.recommend_task) and not entry.name.startswith("lenskit.")
    for params in SMALL.get(entry.name, [{}])
]


@pytest.mark.parametrize("check", RECOMMENDER_CHECKS)
@pytest.mark.parametrize(("name", "params"), CASES)
def test_every_registered_model_keeps_the_contract(name, params, check):
    check(lambda: MODELS.create(name, params))


def test_every_registered_model_has_a_summary():
    for entry in MODELS:
        assert len(entry.summary) > 15, entry.name
        assert entry.summary.endswith((".", "everybody")), entry.name


def test_the_checkerboard_has_one_right_answer():
    data = checkerboard()
    own = data.user % 2 == data.item % 2
    assert set(data.rating[own]) == {5}
    assert set(data.rating[~own]) == {1}
    assert np.bincount(data.user[own], minlength=41).tolist() == [12] * 40 + [0]
    assert np.bincount(data.user[~own], minlength=41).tolist() == [5] * 40 + [0]
    assert checkerboard(dislikes=False).rating_scale == (1, 1)


def test_walks_have_one_right_answer():
    data = walks()
    assert np.bincount(data.user, minlength=31).tolist() == [15 - user // 2 for user in range(30)] + [0]
    walk = data.item[data.user == 25][np.argsort(data.timestamp[data.user == 25])]
    assert walk.tolist() == [1, 3, 5]


@dataclass
class Good:
    """Likes the right colour, by knowing the board."""

    def fit(self, train, rng):
        self.n = train.n_items

    def scores(self, users):
        return ((users[:, None] % 2 == np.arange(self.n) % 2) & (np.arange(self.n) < 30)).astype(float)


def test_check_recommender_takes_class_factory_or_name():
    check_recommender(Good)
    check_recommender(lambda: Good())
    check_recommender("example.together", power=1.5)


class Unpersonal(Good):
    def scores(self, users):
        return np.broadcast_to(np.arange(self.n, dtype=float), (len(users), self.n))


class Hasty(Good):
    """Lists the right colour from the end of the line."""

    sequential = True

    def scores(self, users):
        return super().scores(users) * (1 + np.arange(self.n))


class Forgetful(Good):
    def fit(self, train, rng):
        super().fit(train, rng)
        self.noise = np.random.default_rng().random(self.n) / 2

    def scores(self, users):
        return super().scores(users) + self.noise


class BlockBound(Good):
    def scores(self, users):
        return super().scores(users) + np.cos(np.arange(self.n) * len(users)) / 4


class Accumulating(Good):
    seen = 0

    def fit(self, train, rng):
        super().fit(train, rng)
        self.seen += len(train)

    def scores(self, users):
        return super().scores(users) + np.cos(np.arange(self.n) * self.seen) / 4


class Numbering(Good):
    def scores(self, users):
        users -= users[0]
        return super().scores(users)


class Level(Good):
    """Knows nobody but those who have rated."""

    def scores(self, users):
        return np.where(users[:, None] == 40, 0.0, super().scores(users))


class Leaving(Level):
    cold_users = "popularity"


class Wordless(Good):
    cold_users = ""


class Vandal(Good):
    def fit(self, train, rng):
        super().fit(train, rng)
        train.rating.base.flags.writeable = True
        train.rating.base[:] = 3


class Shy(Good):
    def scores(self, users):
        return super().scores(users) + (np.arange(self.n) * (len(users) == 1) * (users[:, None] == 40))


class OffScale(Good):
    def predict(self, users, items):
        return np.full(len(users), 5.5)


class Unstable(Good):
    def predict(self, users, items):
        return 1.0 + np.arange(len(users)) / len(users)


class Unpicklable(Good):
    def fit(self, train, rng):
        super().fit(train, rng)
        self.taste = np.cos(np.arange(self.n)) / 4

    def __getstate__(self):
        return {"n": self.n} if hasattr(self, "n") else None

    def scores(self, users):
        return super().scores(users) + getattr(self, "taste", 0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Unpersonal, r"user code 0 must be \[0, 10, 20\] in any order .* a model without personal lists"),
        (Hasty, r"on the walks the first items of user code 4 must be \[26\] in any order \(the next of"),
        (Forgetful, "two models with the same seed make different lists: user code 0 gets"),
        (Accumulating, "a model that was fitted before makes other lists than a new one"),
        (BlockBound, "lists differ in blocks of 1 users"),
        (Shy, "lists differ in blocks of 1 users: user code 40"),
        (Vandal, "the train data was changed"),
        (Level, r"have the score 0, which is not an order: declare `cold_users = 'popularity'"),
        (Wordless, "cold_users must be 'popularity', or say in words"),
        (Unpicklable, "a fitted model makes other lists after pickling"),
        (OffScale, "predicted ratings must be from 1 to 5"),
        (Unstable, "a predicted rating depends on the other pairs of the call"),
    ],
)
def test_check_recommender_finds_broken_models(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_recommender(lambda: broken())


def test_check_finds_models_that_write_to_their_input():
    with pytest.raises(AssertionError, match=r"Numbering.scores: .* is read-only"):
        check_leaves_data_untouched(Numbering)


def test_a_model_that_leaves_unknown_users_to_popularity_keeps_the_contract():
    check_recommender(Leaving)
