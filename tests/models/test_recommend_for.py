"""Users who are known by a history alone: ``recommend_for`` of the models, and the checks of what it returns."""

from __future__ import annotations

import numpy as np
import pytest

from evalplugin.base.errors import ModelError
from evalplugin.data import Candidates, NewUsers
from evalplugin.models import MODELS, Recommender, defines, recommend
from evalplugin.models.base import ListRequest, may_take_history
from evalplugin.testing import check_recommender
from evalplugin.testing.model import checkerboard

BOARD = checkerboard()
UNEVEN = BOARD.select(
    np.random.default_rng(5).random(len(BOARD)) > BOARD.item / 60
)  # some items are more popular
EVERYBODY = np.arange(BOARD.n_users, dtype=np.int32)
# Models whose factors of users are solved for by another method when they are fitted.
APART = ("implicit.AlternatingLeastSquares", "sklearn.NMF")
PARAMS = {
    "implicit.AlternatingLeastSquares": [{"factors": 2}, {"factors": 2, "alpha": 3.0, "values": "binary"}],
    "sklearn.NMF": [{"n_components": 2}, {"n_components": 2, "solver": "mu"}],
    "sklearn.TruncatedSVD": [{"n_components": 2}, {"n_components": 2, "values": "binary"}],
    "neighbours.item": [{}, {"similarity": "jaccard", "values": "rating"}, {"average": True, "k": 4}],
    "neighbours.user": [
        {},
        {"k": 3, "weighting": "bm25", "values": "rating", "shrink": 2.0},
        {"similarity": "tversky"},
        {"similarity": "asymmetric", "alpha": 0.3, "weighting": "tf-idf", "normalize": False},
        {"similarity": "asymmetric", "alpha": 0.3, "k": 5},
    ],
    "ease": [{}, {"precision": "float32", "values": "rating"}],
    "random": [{}, {"legacy_seed": 3}],
}
CASES = [
    (entry.name, params)
    for entry in MODELS
    if entry.is_own and defines(entry.cls, Recommender.recommend_for)
    # A history is a session of its own to session.knn, which has the users of the train data as neighbours.
    if entry.name != "session.knn"
    for params in PARAMS.get(entry.name, [{}])
]


def fitted(name, params, data=BOARD):
    model = MODELS.create(name, params)
    model.fit(data, np.random.default_rng(1))
    return model


def test_the_models_that_answer_users_by_their_history():
    assert [entry.name for entry in MODELS if entry.is_own and may_take_history(entry.cls)] == [
        "command", "ease", "graph.p3alpha", "graph.rp3beta", "implicit.AlternatingLeastSquares",
        "implicit.BM25Recommender", "implicit.CosineRecommender", "implicit.TFIDFRecommender", "lists",
        "logging-policy",
        "neighbours.item", "neighbours.user", "popularity", "random", "session.knn", "session.markov",
        "session.popularity", "session.rules", "sklearn.NMF", "sklearn.NearestNeighbors", "sklearn.TruncatedSVD",
        "slim",
    ]  # fmt: skip
    assert not MODELS.create("neighbours.user", {"inverted": True}).takes_history
    assert not MODELS.create("command", {"command": ["program", "{train}", "{out}"]}).takes_history
    assert MODELS.create("command", {"command": ["program", "{history}", "{out}"]}).takes_history


@pytest.mark.parametrize(("name", "params"), CASES)
def test_a_users_own_train_data_as_a_history_gives_the_scores_of_the_user(name, params):
    data = BOARD if name in APART else UNEVEN
    model = fitted(name, params, data)
    scores, answer = model.scores(EVERYBODY), model.recommend_for(EVERYBODY, data)
    assert answer.shape == scores.shape
    tolerance = 0.05 if name in APART else 1e-5 if params.get("precision") == "float32" else 1e-10
    np.testing.assert_allclose(answer, scores, atol=tolerance * np.abs(scores).max())


def test_factors_of_als_solve_the_equations_of_hu_koren_and_volinsky():
    params = {"factors": 3, "alpha": 2.0, "regularization": 0.1, "values": "binary"}
    model = fitted("implicit.AlternatingLeastSquares", params)
    items = model.item_factors.astype(np.float64)
    own = items[BOARD.rows[4]]
    left = items.T @ items + (2.0 - 1) * own.T @ own + 0.1 * np.eye(3)
    expected = items @ np.linalg.solve(left, 2.0 * own.sum(axis=0))
    answer = model.recommend_for(np.array([4], dtype=np.int32), BOARD)[0]
    np.testing.assert_allclose(answer, expected, atol=1e-4)


def test_neighbours_of_a_new_user_are_train_users_as_numpy_finds_them():
    [fold] = NewUsers(n_users=6, fold_in=0.5).split(BOARD, np.random.default_rng(3))
    model = fitted("neighbours.user", {"k": 4}, fold.train)
    train, told = np.zeros((2, BOARD.n_users, BOARD.n_items))
    train[fold.train.user, fold.train.item] = 1
    told[fold.history.user, fold.history.item] = 1
    users = np.unique(fold.test.user)
    norms = np.maximum(np.sqrt(train.sum(axis=1)), 1e-9)
    similar = told[users] @ train.T / np.sqrt(told[users].sum(axis=1))[:, None] / norms
    nearest = np.argsort(-similar, axis=1, kind="stable")[:, :4]
    expected = np.stack([s[n] @ train[n] for s, n in zip(similar, nearest, strict=True)])
    np.testing.assert_allclose(model.recommend_for(users, fold.history), expected, atol=1e-12)


class Answering(Recommender):
    """Scores items by their code; its answer by a history is set."""

    def __init__(self, answer):
        self.answer = answer

    def fit(self, train, rng): ...

    def scores(self, users):
        return np.broadcast_to(np.arange(BOARD.n_items, dtype=float), (len(users), BOARD.n_items))

    def recommend_for(self, users, history):
        return self.answer(users, history)


def lists_of(model, **options):
    [fold] = NewUsers(n_users=6, fold_in=0.5).split(BOARD, np.random.default_rng(3))
    candidates = Candidates.of("unseen", fold, np.random.default_rng(0))
    request = ListRequest(fold.train, np.unique(fold.test.user), 5, candidates, history=fold.history)
    return recommend(model, request, **options), fold


def writes(users, history):
    history.item[0] = 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda users, history: np.zeros((len(users), 3)), r"Answering.recommend_for must return float32"),
        (lambda users, history: np.full((len(users), 31), np.nan), r"recommend_for returned nan for user"),
        (writes, r"recommend_for: assignment destination is read-only: what a model is given"),
    ],
)
def test_what_recommend_for_returns_is_checked(answer, message):
    with pytest.raises(ModelError, match=message):
        lists_of(Answering(answer))


@pytest.mark.parametrize("cold_users", ["model", "popularity"])
def test_users_with_a_history_are_answered_by_it_whoever_answers_cold_users(cold_users):
    seen = []

    def answer(users, history):
        seen.extend(users.tolist())
        return -np.broadcast_to(np.arange(31, dtype=float), (len(users), 31))

    top, fold = lists_of(Answering(answer), cold_users=cold_users, block_bytes=2 * 31 * 8)
    assert seen == top.user.tolist()
    for user, listed in zip(top.user, top.item, strict=True):
        assert listed.tolist() == np.setdiff1d(np.arange(31), fold.known.rows[user])[:5].tolist()


def test_a_model_without_recommend_for_is_an_error():
    with pytest.raises(ModelError, match=r"SVD cannot list items for users who are not in the train data"):
        lists_of(MODELS.create("surprise.SVD"))


class Copying:
    """Answers new users by the histories of all of them together."""

    def fit(self, train, rng):
        self.n = train.n_items

    def scores(self, users):
        return ((users[:, None] % 2 == np.arange(self.n) % 2) & (np.arange(self.n) < 30)).astype(float)

    def recommend_for(self, users, history):
        return self.scores(users) + history.item_counts / 1000 * (np.arange(self.n) % 3)


class Ignoring(Copying):
    def recommend_for(self, users, history):
        return self.scores(users * 0)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Copying, "user code 38 depends on other users of the call, or their histories"),
        (Ignoring, "the first items of user code 39 must be"),
    ],
)
def test_check_recommender_looks_at_recommend_for(broken, message):
    with pytest.raises(AssertionError, match=message):
        check_recommender(lambda: broken())
