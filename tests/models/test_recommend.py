from __future__ import annotations

import re
import tracemalloc

import numpy as np
import pytest
from samples import coded

from evalplugin.base.errors import ModelError
from evalplugin.data import Candidates, Rows
from evalplugin.models import NO_ITEM, Recommender, predict_ratings, recommend, select_top_n
from evalplugin.models.base import ListRequest

N_USERS, N_ITEMS = 23, 300
USERS = np.arange(N_USERS, dtype=np.int32)
DATA = coded([0], [0], users=N_USERS, items=N_ITEMS)
SCORES = np.random.default_rng(0).integers(0, 40, (N_USERS, N_ITEMS)).astype(np.float64)


class Model(Recommender):
    def __init__(self, scores=SCORES):
        self.table = scores
        self.table.flags.writeable = False

    def fit(self, train, rng):
        pass


class ByScores(Model):
    def scores(self, users):
        return self.table[users]


class ByLists(Model):
    """The same model, as one that makes lists itself, in another order among equal scores."""

    def recommend(self, users, n):
        reverse, score = select_top_n(self.table[users][:, ::-1], n)
        return np.where(reverse == NO_ITEM, NO_ITEM, N_ITEMS - 1 - reverse), score


def random_rows(seed, share):
    met = np.random.default_rng(seed).random((N_USERS, N_ITEMS)) < share
    met[3] = False
    met[4] = True
    item = np.nonzero(met)[1].astype(np.int32)
    return Rows(np.concatenate([[0], np.cumsum(met.sum(axis=1))]), item, np.ones(len(item), np.float32)), met


def expected(allowed, n):
    return select_top_n(np.where(allowed, SCORES, -np.inf), n)


ROWS, MET = random_rows(1, 0.2)
KINDS = {
    "unseen": (Candidates("unseen", excluded=ROWS), ~MET),
    "all": (Candidates("all"), np.ones_like(MET)),
    "judged": (Candidates("judged", included=ROWS), MET),
    "sampled": (Candidates("sampled", included=ROWS), MET),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 10, N_ITEMS + 5])
@pytest.mark.parametrize("block_users", [1, 7, 1000])
def test_recommend_selects_best_candidates(kind, n, block_users):
    candidates, allowed = KINDS[kind]
    top = recommend(
        ByScores(), ListRequest(DATA, USERS, n, candidates), block_bytes=block_users * N_ITEMS * 8
    )
    item, score = expected(allowed, n)
    np.testing.assert_array_equal(top.user, USERS)
    np.testing.assert_array_equal(top.item, item)
    np.testing.assert_array_equal(top.score, score)


class SameForAll(Model):
    """Scores of some levels and without some items, the same for every user."""

    def __init__(self):
        row = SCORES[0] // 4
        row[::7] = -np.inf
        super().__init__(row)

    def scores(self, users):
        return np.broadcast_to(self.table, (len(users), N_ITEMS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 10, N_ITEMS + 5])
@pytest.mark.parametrize("block_users", [1, 7, 1000])
def test_one_row_of_scores_for_all_users_makes_the_lists_of_whole_scores(kind, n, block_users):
    candidates, allowed = KINDS[kind]
    model = SameForAll()
    top = recommend(model, ListRequest(DATA, USERS, n, candidates), block_bytes=block_users * N_ITEMS * 8)
    item, score = select_top_n(np.where(allowed, model.table, -np.inf), n)
    np.testing.assert_array_equal(top.item, item)
    np.testing.assert_array_equal(top.score, score)


def test_memory_of_one_row_of_scores_for_all_users_grows_with_the_excluded_items():
    many = np.arange(20_000, dtype=np.int32) % N_USERS
    few = Rows(np.arange(N_USERS + 1), np.zeros(N_USERS, dtype=np.int32), np.ones(N_USERS, np.float32))
    tracemalloc.start()
    recommend(SameForAll(), ListRequest(DATA, many, 3, Candidates("unseen", excluded=few)), block_bytes=2**30)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(many) * N_ITEMS * 8 / 4  # a quarter of all scores


def test_recommend_removes_excluded_from_included_items():
    other, met = random_rows(2, 0.5)
    candidates = Candidates("judged", included=ROWS, excluded=other)
    for model in (ByScores(), ByLists()):
        top = recommend(model, ListRequest(DATA, USERS, N_ITEMS, candidates))
        np.testing.assert_array_equal(top.item, expected(MET & ~met, N_ITEMS)[0])


@pytest.mark.parametrize("kind", ["unseen", "judged", "sampled"])
@pytest.mark.parametrize("block_users", [1, 7, 1000])
def test_list_recommender_loses_items_that_are_no_candidates(kind, block_users):
    # Asked for whole lists, so that no tie is cut off by the model: then both kinds of model must agree.
    candidates, allowed = KINDS[kind]
    top = recommend(
        ByLists(), ListRequest(DATA, USERS, N_ITEMS, candidates), block_bytes=block_users * N_ITEMS * 8
    )
    item, score = expected(allowed, N_ITEMS)
    np.testing.assert_array_equal(top.item, item)
    np.testing.assert_array_equal(top.score, score)


def test_list_recommender_is_asked_for_extra_items():
    asked = []

    class Spy(ByLists):
        def recommend(self, users, n):
            asked.append(n)
            return super().recommend(users, n)

    few = Rows(np.minimum(np.arange(N_USERS + 1), 5), np.arange(5, dtype=np.int32), np.ones(5, np.float32))
    recommend(Spy(), ListRequest(DATA, USERS, 10, Candidates("all")))
    recommend(Spy(), ListRequest(DATA, USERS, 10, Candidates("unseen", excluded=few)))
    recommend(Spy(), ListRequest(DATA, USERS, 10, Candidates("unseen", excluded=ROWS)))
    recommend(Spy(), ListRequest(DATA, USERS, 10, Candidates("judged", included=few)))
    assert asked == [10, 10 + 1, N_ITEMS, N_ITEMS]


def test_progress_counts_the_users_of_each_block():
    done = []
    recommend(
        ByScores(),
        ListRequest(DATA, USERS, 1, Candidates("all")),
        block_bytes=10 * N_ITEMS * 8,
        progress=done.append,
    )
    assert done == [10, 10, 3]


def test_a_subset_of_users_gets_the_same_lists():
    some = np.array([2, 4, 11], dtype=np.int32)
    top = recommend(ByScores(), ListRequest(DATA, some, 5, KINDS["unseen"][0]))
    np.testing.assert_array_equal(top.item, expected(KINDS["unseen"][1], 5)[0][some])


def test_float32_scores_and_minus_infinity_are_allowed():
    scores = SCORES.astype(np.float32)
    scores[0] = -np.inf
    top = recommend(ByScores(scores), ListRequest(DATA, USERS, 3, Candidates("all")))
    assert top.item[0].tolist() == [NO_ITEM] * 3
    np.testing.assert_array_equal(top.item[1:], expected(KINDS["all"][1], 3)[0][1:])


def changed(value):
    scores = SCORES.copy()
    scores[5, 17] = value
    return scores


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (changed(np.nan), "ByScores.scores returned nan for user 5 and item 17; a score is a number"),
        (changed(np.inf), "ByScores.scores returned inf for user 5 and item 17"),
        (SCORES[:, 1:].copy(), "must return float32 or float64 scores of shape (23, 300), not float64 of"),
        (SCORES.astype(int), "not int64 of shape (23, 300)"),
        (SCORES.astype(np.longdouble), "must return float32 or float64 scores"),
    ],
)
def test_scores_that_break_the_contract_are_refused(scores, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        recommend(ByScores(scores), ListRequest(DATA, USERS, 3, Candidates("all")))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_row_of_scores_must_be_numbers(value):
    model = SameForAll()
    model.table = np.where(np.arange(N_ITEMS) == 17, value, model.table)
    with pytest.raises(ModelError, match=f"returned {value} for user 0 and item 17"):
        recommend(model, ListRequest(DATA, USERS, 3, KINDS["unseen"][0]))


def test_messages_name_raw_ids_where_they_are_known():
    ids = {"users": np.array([f"u{n:02}" for n in range(23)], dtype=object), "items": np.arange(1000, 1300)}
    data = coded([0], [0], **ids)
    everything = Candidates("all")
    with pytest.raises(ModelError, match="returned nan for user 'u05' and item 1017; a score is a number"):
        recommend(ByScores(changed(np.nan)), ListRequest(data, USERS, 3, everything))
    with pytest.raises(ModelError, match="the list of user 'u00' has item 1001 twice"):
        recommend(listing([[1, 2, 1]], [[3.0, 2, 1]]), ListRequest(data, USERS[:1], 3, everything))
    with pytest.raises(ModelError, match=r"user 'u00' has an item code outside 0 to 299 .*: item code 300"):
        recommend(listing([[1, 300, 3]], [[3.0, 2, 1]]), ListRequest(data, USERS[:1], 3, everything))


def listing(items, scores):
    class Broken(ByLists):
        def recommend(self, users, n):
            return np.array(items), np.array(scores)

    return Broken()


@pytest.mark.parametrize(
    ("items", "scores", "message"),
    [
        ([[1, 2]], [[2.0, 1.0]], "integer item codes of shape (1, 3), not int64 of shape (1, 2)"),
        ([[1.0, 2, 3]], [[2.0, 1, 1]], "integer item codes of shape (1, 3), not float64"),
        ([[1, 2, 3]], [[3, 2, 1]], "float32 or float64 scores of shape (1, 3), not int64"),
        ([[1, 300, 3]], [[3.0, 2, 1]], "user 0 has an item code outside 0 to 299 (position 2: item code 300"),
        ([[1, -2, 3]], [[3.0, 2, 1]], "outside 0 to 299 (position 2: item code -2"),
        ([[1, -1, 3]], [[3.0, np.nan, 1]], "goes on behind its end (position 3: item 3"),
        ([[1, 2, 1]], [[3.0, 2, 1]], "the list of user 0 has item 1 twice"),
        ([[1, 2, 3]], [[3.0, np.nan, 1]], "has a score that is not a finite number (position 2"),
        (
            [[1, 2, -1]],
            [[3.0, 4.0, np.nan]],
            "is not in descending order of score (position 2: item 2, score 4.0)",
        ),
    ],
)
def test_lists_that_break_the_contract_are_refused(items, scores, message):
    with pytest.raises(ModelError, match=re.escape(message)):
        recommend(listing(items, scores), ListRequest(DATA, USERS[:1], 3, Candidates("all")))


def test_a_list_model_must_return_two_arrays():
    class OneArray(ByLists):
        def recommend(self, users, n):
            return super().recommend(users, n)[0]

    with pytest.raises(ModelError, match=r"must return two arrays, items and scores, not ndarray"):
        recommend(OneArray(), ListRequest(DATA, USERS, 3, Candidates("all")))


def test_a_model_without_scores_or_lists_is_refused():
    class Neither(Recommender):
        def fit(self, train, rng):
            pass

    with pytest.raises(ModelError, match=r"Neither has neither scores\(users\) nor recommend\(users, n\)"):
        recommend(Neither(), ListRequest(DATA, USERS, 3, Candidates("all")))


def truth():
    rng = np.random.default_rng(3)
    row, code = np.nonzero(MET)
    order = rng.permutation(len(row))
    return coded(row[order], code[order], users=np.arange(N_USERS) + 100, items=np.arange(N_ITEMS) + 500)


class Rating(ByScores):
    def predict(self, users, items):
        return self.table[users, items]


def test_predicted_ratings_are_in_the_order_of_the_truth():
    data = truth()
    for block_bytes in (1, 7 * N_ITEMS * 8, 2**30):
        predicted = predict_ratings(Rating(), data, block_bytes=block_bytes)
        np.testing.assert_array_equal(predicted, SCORES[data.user, data.item])


def test_a_model_without_ratings_predicts_none():
    assert predict_ratings(ByScores(), truth()) is None


def test_predictions_that_break_the_contract_are_refused():
    scores = SCORES.copy()
    scores[4, 17] = np.nan
    with pytest.raises(ModelError, match=r"returned nan for user 104 and item 517; ratings must be finite"):
        predict_ratings(Rating(scores), truth())
    with pytest.raises(ModelError, match=r"must return floats of shape \(\d+,\), not int64 of shape"):
        predict_ratings(Rating(SCORES.astype(int)), truth())
