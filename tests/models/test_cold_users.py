"""Users without train data: who answers them, and that the arrays that models are given stay as they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from samples import coded

from evalplugin.base.errors import DataError, ModelError
from evalplugin.data import Candidates, Split
from evalplugin.models import MODELS, Recommender, predict_ratings, recommend
from evalplugin.models.base import ListRequest, cold_answer
from evalplugin.models.selection import TopN
from evalplugin.testing.model import checkerboard

BOARD = checkerboard()
COLD = np.array([BOARD.n_users - 1], dtype=np.int32)
EVERYBODY = np.arange(BOARD.n_users, dtype=np.int32)
UNSEEN = Candidates("unseen", excluded=BOARD.rows)
JUDGED = Candidates("judged", included=BOARD.rows)


def fitted(name, data=BOARD, **params):
    model = MODELS.create(name, params)
    model.fit(data, np.random.default_rng(1))
    return model


def lists_of(model, users=EVERYBODY, candidates=UNSEEN, **options):
    return recommend(model, ListRequest(BOARD, users, 5, candidates), **options)


def popular(candidates=UNSEEN):
    return lists_of(fitted("popularity"), candidates=candidates).item


def test_every_model_of_evalplugin_declares_how_it_answers_users_without_history():
    undeclared = [entry.name for entry in MODELS if entry.is_own and not cold_answer(entry.cls)]
    assert undeclared == []


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("ease", {}),
        ("graph.p3alpha", {}),
        ("neighbours.user", {}),
        ("slim", {}),
        ("sklearn.NearestNeighbors", {}),
        ("sklearn.TruncatedSVD", {"n_components": 2}),
        ("surprise.KNNBasic", {}),
        ("surprise.SVD", {"biased": False, "n_epochs": 1}),
    ],
)
def test_models_that_cannot_know_a_user_answer_with_popularity(name, params):
    np.testing.assert_array_equal(lists_of(fitted(name, **params), COLD).item[0], popular()[-1])


def test_a_model_with_item_biases_answers_with_them():
    model = fitted("surprise.SVD", n_epochs=3)
    assert model.cold_users == "the mean of all ratings plus the bias of the item"
    best = np.argsort(-model.scores(COLD)[0], kind="stable")[:5]
    np.testing.assert_array_equal(lists_of(model, COLD).item[0], best)


@dataclass
class OwnAnswer(Recommender):
    """Lists the last items of the catalogue, and records who is asked for."""

    def fit(self, train, rng):
        self.n, self.asked = train.n_items, []

    def scores(self, users):
        self.asked += users.tolist()
        return np.broadcast_to(np.arange(self.n, dtype=float), (len(users), self.n))


class AtOnce(OwnAnswer):
    def recommend_task(self, request: ListRequest):
        return recommend(
            OwnAnswerFitted(self.n, self.asked),
            ListRequest(BOARD, request.users, request.n, request.candidates),
        )


class OwnAnswerFitted(OwnAnswer):
    def __init__(self, n, asked):
        self.n, self.asked = n, asked


@pytest.mark.parametrize("candidates", [UNSEEN, JUDGED, Candidates("all")])
@pytest.mark.parametrize("type", [OwnAnswer, AtOnce])
def test_popularity_can_answer_users_without_history_for_every_model(type, candidates):
    model = type()
    model.fit(BOARD, np.random.default_rng(0))
    own = lists_of(model, candidates=candidates)
    assert COLD[0] in model.asked
    model.asked.clear()
    top = lists_of(model, candidates=candidates, cold_users="popularity", block_bytes=7 * BOARD.n_items * 8)
    assert COLD[0] not in model.asked
    np.testing.assert_array_equal(top.item[-1], popular(candidates)[-1])
    np.testing.assert_array_equal(top.item[:-1], own.item[:-1])
    np.testing.assert_array_equal(top.user, EVERYBODY)


def test_a_model_without_known_users_is_not_asked():
    model = AtOnce()
    model.fit(BOARD, np.random.default_rng(0))
    assert isinstance(lists_of(model, COLD, cold_users="popularity"), TopN)
    assert model.asked == []


def some_cold(train_users, test_users):
    data = coded([*train_users, *test_users], range(len(train_users) + len(test_users)), users=5, items=20)
    held_out = np.arange(len(data)) >= len(train_users)
    return Split(data.select(~held_out), data.select(held_out))


def test_users_without_history_can_be_left_out_of_the_truth():
    split = some_cold([0, 0, 1], [0, 1, 3, 4, 4]).without_cold_users()
    assert split.test.user.tolist() == [0, 1]
    assert split.counts["cold_users"] == 0
    assert split.notes == ("2 of 4 test users without train data are left out (recommend.cold_users: skip)",)
    assert some_cold([0, 1], [0, 1]).without_cold_users().notes == ()
    with pytest.raises(DataError, match=r"fold 1: 2 of 2 test users .* nobody is left to test"):
        some_cold([0, 1], [3, 4]).without_cold_users()


class Shifting(OwnAnswer):
    """Numbers the users anew in the array that it is given."""

    def scores(self, users):
        users -= users[0]
        return super().scores(users)


class ShiftingLists(OwnAnswer):
    scores = None

    def recommend(self, users, n):
        users[:] = 0
        return np.tile(np.arange(n), (len(users), 1)), np.tile(-np.arange(n, dtype=float), (len(users), 1))


class ShiftingPairs(OwnAnswer):
    def predict(self, users, items):
        items.sort()
        return np.ones(len(users))


class Unlocking(OwnAnswer):
    """Changes memory that NumPy has as read-only, as compiled code does."""

    def scores(self, users):
        users.flags.writeable = True
        users[:] = 0
        return super().scores(users)


@pytest.mark.parametrize(
    ("type", "message"),
    [
        (Shifting, "Shifting.scores: .*what a model is given .* is read-only; copy what it changes"),
        (ShiftingLists, "ShiftingLists.recommend: .*read-only"),
        (Unlocking, "Unlocking.scores has changed the array of codes that it was given"),
    ],
)
def test_a_model_that_changes_the_users_it_is_given_fails(type, message):
    model = type()
    model.fit(BOARD, np.random.default_rng(0))
    users = EVERYBODY.copy()
    with pytest.raises(ModelError, match=message):
        lists_of(model, users)
    np.testing.assert_array_equal(users, EVERYBODY)


def test_a_model_that_changes_the_items_it_is_given_fails():
    model = ShiftingPairs()
    model.fit(BOARD, np.random.default_rng(0))
    with pytest.raises(ModelError, match=r"ShiftingPairs.predict: .*read-only"):
        predict_ratings(model, BOARD)
