"""Lists of factor models: those of their scores to the bit, though most scores are computed in float32 alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from samples import coded

from evalplugin.base.errors import ModelError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates, Rows
from evalplugin.models import MODELS, FactorModel, recommend
from evalplugin.models.base import ListRequest


@dataclass
class Factors(FactorModel):
    def fit(self, train, rng):
        pass


class Whole(Factors):
    """The same model, of which all scores are asked for."""

    def scores(self, users):
        return self.scores_of(self.user_factors, users)


def lists(kind, users, items, n=10, candidates=Candidates("all"), **options):  # noqa: B008
    model = kind()
    model.user_factors, model.item_factors = users, items
    data = coded([0], [0], users=len(users), items=len(items))
    return recommend(
        model, ListRequest(data, np.arange(len(users), dtype=np.int32), n, candidates), **options
    )


def rows_of(met):
    start = np.concatenate([[0], np.cumsum(met.sum(axis=1))])
    return Rows(start, np.nonzero(met)[1].astype(np.int32), np.ones(start[-1], np.float32))


SCALES = [1.0, 0.0, 1e-3, 1e4, 1e-30, 1e30, 1e-160, 1e-320, 1e150]


@example(seed=0, scale=1e-320, of_user=1.0, levels=0, single=False, candidates="unseen", ties=True)
@example(seed=1, scale=1e-200, of_user=1e-200, levels=0, single=False, candidates="all", ties=True)
@given(
    seed=st.integers(0, 2**32),
    scale=st.sampled_from(SCALES),
    of_user=st.sampled_from(SCALES),
    levels=st.sampled_from([0, 1, 2, 5]),  # 0: factors are real numbers; else products tie
    single=st.booleans(),
    candidates=st.sampled_from(["all", "unseen", "judged"]),
    ties=st.booleans(),
)
def test_lists_are_those_of_all_scores(seed, scale, of_user, levels, single, candidates, ties):
    rng = np.random.default_rng(seed)
    n_users, n_items, d = rng.integers(1, 40), rng.integers(1, 700), rng.integers(0, 70)
    users, items = (
        rng.normal(size=(n_users, d)),
        rng.normal(size=(n_items, d)) * rng.lognormal(size=(n_items, 1)),
    )
    if levels:
        users, items = (
            rng.integers(-levels, levels + 1, users.shape),
            rng.integers(-levels, levels + 1, items.shape),
        )
    users = users * scale
    users[rng.random(n_users) < 0.3] *= of_user
    items = items * scale
    if single:
        with np.errstate(over="ignore"):
            users, items = users.astype(np.float32), items.astype(np.float32)
            users[~np.isfinite(users)] = items[~np.isfinite(items)] = 1.0
    met = rows_of(rng.random((n_users, n_items)) < rng.random())
    order = rng.permutation(n_items) if ties else None
    chosen = {
        "all": Candidates("all", tie_rank=order),
        "unseen": Candidates("unseen", excluded=met, tie_rank=order),
        "judged": Candidates("judged", included=met, tie_rank=order),
    }[candidates]
    n = int(rng.integers(1, 30))
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        try:
            expected = lists(Whole, users, items, n=n, candidates=chosen)
        except ModelError:  # products beyond the largest number
            with pytest.raises(ModelError, match=r"scores returned (nan|inf|-inf) .* a score is a number"):
                lists(Factors, users, items, n=n, candidates=chosen)
            return
        own = lists(Factors, users, items, n=n, candidates=chosen, block_bytes=int(rng.integers(1, 10**6)))
    assert (own.item == expected.item).all()
    assert own.score.tobytes() == expected.score.tobytes()


def test_most_scores_are_not_computed_exactly(monkeypatch):
    rng = np.random.default_rng(0)
    users, items = rng.normal(size=(50, 16)), rng.normal(size=(20_000, 16))
    users[7] = 0.0  # all its scores are equal
    asked = []
    monkeypatch.setattr(Factors, "scores_of", lambda self, of_users, users: asked.extend(users), raising=True)
    with pytest.raises(ModelError):  # what stands in for the scores returns none
        lists(Factors, users, items)
    assert asked == [7]


@pytest.mark.parametrize("place", ["user", "item"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_factors_that_are_no_numbers_are_refused(place, value):
    users, items = np.ones((3, 4)), np.ones((200, 4))
    (users if place == "user" else items)[2, 1] = value
    with pytest.raises(ModelError, match=r"Factors.scores returned (nan|inf) for user \d and item \d"):
        lists(Factors, users, items)


def _random_data():
    rng = np.random.default_rng(5)
    user, item = np.nonzero(rng.random((80, 400)) < 0.1)
    known = (user != 3) & (item != 7)  # a user and an item without train data
    return coded(user[known], item[known], rng.integers(1, 6, known.sum()), users=80, items=400)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("sklearn.TruncatedSVD", {"n_components": 5}),
        ("sklearn.NMF", {"n_components": 5, "tol": 0.05}),
        ("implicit.AlternatingLeastSquares", {"factors": 5, "iterations": 2}),
        ("implicit.BayesianPersonalizedRanking", {"factors": 5, "iterations": 2}),
        ("implicit.LogisticMatrixFactorization", {"factors": 5, "iterations": 2}),
        ("surprise.SVD", {"n_factors": 5}),
        ("surprise.SVD", {"n_factors": 5, "biased": False}),
        ("surprise.SVD", {"n_epochs": 0}),
        ("surprise.SVDpp", {"n_factors": 5, "n_epochs": 2}),
        ("surprise.NMF", {}),
        ("surprise.NMF", {"biased": True}),
    ],
)
def test_models_list_by_their_factors_what_they_list_by_their_scores(name, params, monkeypatch):
    data, model = _random_data(), MODELS.create(name, params)
    model.fit(data, generator(1, name))
    request = ListRequest(data, np.arange(80, dtype=np.int32), 20, Candidates("unseen", excluded=data.rows))
    assert model.product() is not None
    own = recommend(model, request)
    monkeypatch.setattr(type(model), "product", lambda self: None)
    whole = recommend(model, request)
    assert (own.item == whole.item).all()
    assert own.score.tobytes() == whole.score.tobytes()
