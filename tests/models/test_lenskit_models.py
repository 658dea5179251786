"""LensKit brings PyTorch, so it has an environment of its own, in which ``nox -s lenskit`` runs these tests."""

from __future__ import annotations

from dataclasses import fields, replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from samples import matrix_of, random_data
from threadpoolctl import threadpool_info

from evalplugin.base.errors import ModelError, ParameterError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates
from evalplugin.models import MODELS, NO_ITEM, one_blas_thread, recommend
from evalplugin.models.base import ListRequest
from evalplugin.testing.model import RECOMMENDER_CHECKS

pytest.importorskip("lenskit", reason="needs LensKit: nox -s lenskit")

OWN = {  # each with parameters that a small set of ratings can be trained on
    "ItemKNNScorer": [{"max_nbrs": 5}, {"feedback": "implicit", "min_nbrs": 2, "save_nbrs": 8}],
    "UserKNNScorer": [{"max_nbrs": 5}, {"feedback": "implicit", "min_nbrs": 2}],
    "BiasedMFScorer": [
        {"embedding_size": 4},
        {"regularization": {"user": 0.5, "item": 0.2}, "damping": {"item": 3.0}},
    ],
    "ImplicitMFScorer": [{"embedding_size": 4}, {"weight": 5.0, "use_ratings": True}],
}
CASES = [(name, params) for name, cases in OWN.items() for params in cases]
# What decides speed alone; and user_embeddings, which as "prefer" takes factors of the epoch before the last update.
LEFT_OUT = {"block_size", "user_embeddings"}


def fit(name, params, data):
    model = MODELS.create(f"lenskit.{name}", params)
    model.fit(data, generator(5, name))
    return model


@pytest.mark.parametrize(("name", "params"), CASES)
def test_lists_are_those_of_lenskit_itself(name, params):
    from lenskit.data import from_interactions_df
    from lenskit.data.types import UIPair
    from lenskit.pipeline import topn_pipeline
    from lenskit.training import TrainingOptions

    data = random_data(n_users=60, n_items=40)
    model = fit(name, params, data)
    ours = recommend(
        model, ListRequest(data, np.arange(60, dtype=np.int32), 8, Candidates("unseen", excluded=data.rows))
    )

    frame = pd.DataFrame({"user_id": data.user, "item_id": data.item, "rating": data.rating})
    theirs = params | {k: UIPair(**v) for k, v in params.items() if k == "regularization"}
    if "MF" in name:
        theirs.setdefault("embedding_size", 50)  # LensKit's default depends on its version
    pipeline = topn_pipeline(
        getattr(import_module(MODELS.entry(f"lenskit.{name}").cls.module), name)(**theirs)
    )
    with one_blas_thread():
        dataset = from_interactions_df(frame, users=data.users, items=data.items)
        pipeline.node("scorer").component.train(dataset, TrainingOptions(rng=generator(5, name)))
        pipeline.train(dataset, TrainingOptions(retrain=False))
        for user in np.flatnonzero(data.rows.counts):
            listed = pipeline.run("recommender", query=int(user), n=8)
            items, scores = listed.ids(), listed.scores()
            # The scores at each rank are the same; of items with one score, each may stand in either list.
            np.testing.assert_allclose(ours.score[user, : len(items)], scores, rtol=2e-5, atol=1e-5)
            own = model.scores(np.array([user]))[0]
            np.testing.assert_allclose(own[items], scores, rtol=2e-5, atol=1e-5)
            assert (ours.item[user, len(items) :] == NO_ITEM).all()


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("of_items", [True, False])
def test_scores_of_neighbours_are_those_of_the_description(of_items, feedback):
    data = random_data(n_users=60, n_items=40)
    ratings, met = matrix_of(data), matrix_of(data, binary=True)
    if not of_items:
        ratings, met = ratings.T, met.T
    mean = ratings.sum(axis=0) / np.maximum(met.sum(axis=0), 1)  # of the items, or of the users
    vectors = np.where(met > 0, ratings - mean, 0) if feedback == "explicit" else met
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=0), 1e-30)
    similarity = unit.T @ unit
    np.fill_diagonal(similarity, 0)

    scores = fit(
        "ItemKNNScorer" if of_items else "UserKNNScorer", {"max_nbrs": 3, "feedback": feedback}, data
    )
    found = scores.scores(np.arange(60))
    found = found if of_items else found.T
    checked = 0
    for row, column in np.argwhere((met == 0) & np.isfinite(found)):
        near = np.flatnonzero((met[row] > 0) & (similarity[column] > 0))
        near = near[np.argsort(-similarity[column, near])][:3]
        weight = similarity[column, near]
        if feedback == "explicit":
            expected = mean[column] + weight @ vectors[row, near] / weight.sum()
        else:
            expected = weight.sum() * (1 if of_items else np.linalg.norm(met[:, column]))
        assert found[row, column] == pytest.approx(expected, rel=1e-4)
        checked += 1
    assert checked > 1000


def test_users_and_items_without_train_data():
    data = random_data(n_users=60, n_items=40)
    cold = np.array([59])
    for name in ("ItemKNNScorer", "UserKNNScorer"):
        scores = fit(name, {}, data).scores(np.arange(60))
        assert (scores[59] == -np.inf).all()
        assert (scores[:, 39] == -np.inf).all()
    implicit = fit("ImplicitMFScorer", {}, data).scores(np.arange(60))
    assert not implicit[59].any()
    assert not implicit[:, 39].any()
    biased = fit("BiasedMFScorer", {"damping": 0.0}, data)
    means = np.bincount(data.item, data.rating, 39) / data.item_counts[:39]
    np.testing.assert_allclose(biased.scores(cold)[0, :39], means, rtol=1e-6)
    np.testing.assert_allclose(biased.scores(cold)[0, 39], data.rating.mean(), rtol=1e-6)


@pytest.mark.parametrize("name", OWN)
def test_parameters_and_defaults_are_those_of_lenskit(name):
    cls = MODELS.entry(f"lenskit.{name}").cls
    theirs = getattr(import_module(cls.module), name).config_class().model_fields
    ours = {field.name: field.default for field in fields(cls) if field.init}
    defaults = {name: info.default for name, info in theirs.items() if name not in LEFT_OUT}
    if defaults.get("embedding_size") == 64:  # since LensKit 2026; ours is the same with any version
        defaults["embedding_size"] = 50
    assert ours == defaults


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("ItemKNNScorer", {"max_nbr": 5}, "unknown parameter 'max_nbr' .*; did you mean 'max_nbrs'"),
        ("UserKNNScorer", {"feedback": "Implicit"}, "must be 'explicit' or 'implicit'"),
        ("ImplicitMFScorer", {"regularization": 0}, "greater than 0"),
        ("BiasedMFScorer", {"regularization": {"users": 1.0}}, "must be 'user' or 'item'"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(name, params, message):
    with pytest.raises(ParameterError, match=message):
        MODELS.create(f"lenskit.{name}", params)


@pytest.mark.parametrize("check", RECOMMENDER_CHECKS)
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("ItemKNNScorer", {}),
        ("ItemKNNScorer", {"feedback": "implicit"}),
        ("UserKNNScorer", {}),
        ("UserKNNScorer", {"feedback": "implicit"}),
        ("BiasedMFScorer", {"embedding_size": 4, "regularization": 0.5}),
        ("ImplicitMFScorer", {"embedding_size": 2}),
        ("ImplicitMFScorer", {"embedding_size": 2, "weight": 1.0, "use_ratings": True}),
    ],
)
def test_every_model_keeps_the_contract(name, params, check):
    check(lambda: MODELS.create(f"lenskit.{name}", params))


@pytest.mark.parametrize("name", ["ItemKNNScorer", "UserKNNScorer"])
def test_equal_ratings_cannot_be_compared(name):
    data = replace(random_data(), rating=np.ones(len(random_data()), dtype=np.float32))
    with pytest.raises(ModelError, match="compares ratings, and all of them are 1; set feedback"):
        fit(name, {}, data)
    fit(name, {"feedback": "implicit"}, data)


def test_training_leaves_the_threads_of_linear_algebra_as_they_were():
    data = random_data()

    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    fit("ItemKNNScorer", {}, data)
    fit("ImplicitMFScorer", {}, data)
    assert threads() == before
