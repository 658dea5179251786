from __future__ import annotations

import inspect
import re
import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
from samples import coded, matrix_of, random_data
from scipy.sparse import csr_array
from sklearn import decomposition, neighbors
from sklearn.metrics import pairwise_distances

from evalplugin.base.errors import ModelError, ParameterError
from evalplugin.base.seeding import generator
from evalplugin.models import MODELS, limit_threads


def fit(name, data, **params):
    model = MODELS.create(f"sklearn.{name}", params)
    model.fit(data, generator(5, name))
    return model


def all_scores(model, data):
    return model.scores(np.arange(data.n_users, dtype=np.int32))


@pytest.mark.parametrize("values", ["rating", "binary"])
def test_truncated_svd_projects_each_row_on_the_first_singular_vectors(values):
    data = random_data()
    matrix = matrix_of(data, values == "binary")
    _, _, v = np.linalg.svd(matrix)
    model = fit("TruncatedSVD", data, n_components=4, n_iter=30, values=values)
    np.testing.assert_allclose(all_scores(model, data), matrix @ v[:4].T @ v[:4], atol=2e-5)


def test_nmf_is_scikit_learns_factorisation():
    data = random_data()
    params = {"n_components": 3, "init": "nndsvda", "max_iter": 2000, "alpha_W": 0.01}
    estimator = decomposition.NMF(**params, random_state=0)
    expected = estimator.fit_transform(matrix_of(data)[:-1, :-1]) @ estimator.components_
    scores = all_scores(fit("NMF", data, **params, random_state=0), data)
    np.testing.assert_allclose(scores[:-1, :-1], expected, atol=1e-9)


def duplicated(data):
    """Each item twice, so that every similarity ties."""
    twice = {name: np.tile(getattr(data, name), 2) for name in ("user", "rating")}
    item = np.concatenate([data.item, data.item + data.n_items])
    return replace(data, item=item, items=np.arange(2 * data.n_items), **twice)


@pytest.mark.parametrize("n_neighbors", [1, 5, 30])
@pytest.mark.parametrize("values", ["rating", "binary"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("low", [1, -5])
def test_nearest_neighbors_sum_the_similarities_of_the_users_items(metric, values, low, n_neighbors):
    data = duplicated(random_data(low=low))
    matrix = csr_array(matrix_of(data, values == "binary"))
    present = np.flatnonzero(data.item_counts)
    distances = pairwise_distances(csr_array(matrix.T)[present], metric=metric)
    similarity = np.zeros((data.n_items, data.n_items))
    for j, distance in zip(present, distances, strict=True):
        distance[present == j] = np.inf
        nearest = np.argsort(distance, kind="stable")[: min(n_neighbors, len(present) - 1)]
        similarity[j, present[nearest]] = (1 - distance if metric == "cosine" else 1 / (1 + distance))[
            nearest
        ]
    expected = (matrix @ csr_array(similarity)).toarray()
    params = {"n_neighbors": n_neighbors, "metric": metric, "values": values}
    np.testing.assert_array_equal(all_scores(fit("NearestNeighbors", data, **params), data), expected)


def test_memory_of_nearest_neighbors_grows_with_the_items_not_with_their_pairs():
    n_items = 6000
    item = np.arange(n_items, dtype=np.int32).repeat(2)
    data = coded(np.arange(len(item)) * 7 % 997, item, users=997, items=n_items)
    model = MODELS.create("sklearn.NearestNeighbors", {})
    model.prepare()
    tracemalloc.start()
    with limit_threads(1):
        model.fit(data, generator(5, "x"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n_items**2 * 8 / 4


def test_more_neighbours_than_items_are_all_of_them():
    data = random_data()
    np.testing.assert_array_equal(
        all_scores(fit("NearestNeighbors", data, n_neighbors=500), data),
        all_scores(fit("NearestNeighbors", data, n_neighbors=18), data),
    )


def test_a_single_item_has_no_neighbours():
    data = random_data()
    single = data.select(data.item == 3)
    assert (all_scores(fit("NearestNeighbors", single), single) == 0).all()


@pytest.mark.parametrize("name", ["TruncatedSVD", "NMF", "NearestNeighbors"])
def test_users_and_items_without_train_data_score_zero(name):
    data = random_data()
    scores = all_scores(fit(name, data, **({} if name == "NearestNeighbors" else {"n_components": 3})), data)
    assert (scores[-1] == 0).all()
    assert (scores[:, -1] == 0).all()
    assert (scores[:-1, :-1] != 0).any()


@pytest.mark.parametrize(
    ("name", "theirs", "own"),
    [
        ("TruncatedSVD", decomposition.TruncatedSVD, {"n_components": 50, "n_iter": 20}),
        ("NMF", decomposition.NMF, {"n_components": 50}),
        ("NearestNeighbors", neighbors.NearestNeighbors, {"n_neighbors": 40, "metric": "cosine"}),
    ],
)
def test_parameters_and_defaults_are_scikit_learns_but_for_the_stated(name, theirs, own):
    signature = inspect.signature(theirs).parameters
    for f in fields(MODELS.entry(f"sklearn.{name}").cls):
        if f.init and f.name != "values":
            assert f.default == own.get(f.name, signature[f.name].default), f.name


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("TruncatedSVD", {"n_components": 20}, "n_components must be at most 19 for 29 users and 19 items"),
        ("NMF", {"n_components": 20}, "sklearn.NMF: n_components must be at most 19 for"),
    ],
)
def test_too_many_components_are_refused(name, params, message):
    with pytest.raises(ModelError, match=message):
        fit(name, random_data(), **params)


def test_nmf_refuses_negative_ratings_unless_they_are_not_used():
    data = random_data(low=-2)
    with pytest.raises(ModelError, match=r"ratings, and the lowest one is -2; set values to 'binary'"):
        fit("NMF", data, n_components=2)
    assert np.isfinite(all_scores(fit("NMF", data, n_components=2, values="binary"), data)).all()


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("NMF", {"alpha_H": -1}, "alpha_H must be 'same' or at least 0, not -1"),
        ("NMF", {"solver": "dc"}, "solver: must be 'cd' or 'mu', not 'dc'"),
        ("NearestNeighbors", {"metric": "cosin"}, "did you mean 'cosine'?"),
        ("NearestNeighbors", {"n_neighbours": 3}, "did you mean 'n_neighbors'?"),
    ],
)
def test_wrong_parameters_are_refused(name, params, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        MODELS.create(f"sklearn.{name}", params)
