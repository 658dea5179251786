from __future__ import annotations

import re

import numpy as np
import pytest
from samples import matrix_of, of_pairs, random_data

from evalplugin.base.errors import ModelError, ParameterError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates
from evalplugin.models import MODELS, limit_threads
from evalplugin.models.selection import select_candidates

ALL = {
    "neighbours.item": {},
    "neighbours.user": {},
    "graph.p3alpha": {},
    "graph.rp3beta": {},
    "slim": {"alpha": 0.01},
}


def fit(name, data, **params):
    model = MODELS.create(name, params)
    model.prepare()
    model.fit(data, generator(5, name))
    return model


def all_scores(model, data):
    return model.scores(np.arange(data.n_users, dtype=np.int32))


# Item 0 has the users 0, 1, 2, item 1 the users 1, 2, 3, 4, item 2 user 4, and item 3 nobody.
TINY = of_pairs([(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (3, 1), (4, 1), (4, 2)], 5, 4)


def weights(data, **params):
    return fit("neighbours.item", data, **params)._right.toarray()


@pytest.mark.parametrize(
    ("params", "of_0_and_1", "of_1_and_2"),
    [
        ({}, 2 / np.sqrt(3 * 4), 1 / np.sqrt(4 * 1)),
        ({"shrink": 5.0}, 2 / (np.sqrt(12) + 5), 1 / (2 + 5)),
        ({"normalize": False}, 2, 1),
        ({"similarity": "jaccard"}, 2 / 5, 1 / 4),
        ({"similarity": "jaccard", "shrink": 5.0}, 2 / 10, 1 / 9),
        ({"similarity": "dice", "shrink": 3.0}, 4 / 10, 2 / 8),
        # Of item 1 among the neighbours of 0, and of item 2 among those of 1.
        ({"similarity": "asymmetric", "alpha": 0.25}, 2 / (3**0.25 * 4**0.75), 1 / 4**0.25),
        ({"similarity": "tversky", "alpha": 2.0, "beta": 0.5}, 2 / (2 + 2 * 1 + 0.5 * 2), 1 / (1 + 2 * 3)),
    ],
)
def test_similarities_by_hand(params, of_0_and_1, of_1_and_2):
    found = weights(TINY, **params)
    assert found[1, 0] == pytest.approx(of_0_and_1, rel=1e-12)
    assert found[2, 1] == pytest.approx(of_1_and_2, rel=1e-12)
    assert found[2, 0] == found[0, 2] == 0
    assert (np.diag(found) == 0).all()


def test_weighted_averages_by_hand():
    scores = all_scores(fit("neighbours.item", TINY, average=True), TINY)
    # Three, four, one and none of five users have the items. The only neighbour of items 0 and 2 is item 1.
    means = (3 / 5, 4 / 5, 1 / 5, 0)
    has_1 = np.array([0, 1, 1, 1, 1])
    assert scores[:, 0] == pytest.approx(means[0] + has_1 - means[1], rel=1e-12)
    assert scores[:, 2] == pytest.approx(means[2] + has_1 - means[1], rel=1e-12)
    of_0, of_2 = 2 / np.sqrt(3 * 4), 1 / np.sqrt(4 * 1)
    has_0, has_2 = np.array([1, 1, 1, 0, 0]), np.array([0, 0, 0, 0, 1])
    average = (of_0 * (has_0 - means[0]) + of_2 * (has_2 - means[2])) / (of_0 + of_2)
    assert scores[:, 1] == pytest.approx(means[1] + average, rel=1e-12)
    assert (scores[:, 3] == 0).all()


def test_weighting_by_hand():
    # Users 1, 2 and 4 have two items of four, users 0 and 3 one.
    often, rare = np.log(4 / 3), np.log(4 / 2)
    cosine = 2 * often**2 / np.sqrt((rare**2 + 2 * often**2) * (3 * often**2 + rare**2))
    assert weights(TINY, weighting="tf-idf")[1, 0] == pytest.approx(cosine, rel=1e-12)
    # The items have 3, 4, 1 and 0 users, 2 on average.
    of_0, of_1 = (2.2 / (1.2 * (0.25 + 0.75 * length / 2) + 1) for length in (3, 4))
    dot = 2 * of_0 * of_1 * often**2
    assert weights(TINY, weighting="bm25", normalize=False)[1, 0] == pytest.approx(dot, rel=1e-12)


def test_walks_by_hand():
    # From item 1: to each of its users by 1/4; from users 1 and 2 by 1/2 to item 0, from user 4 by 1/2 to item 2.
    walks = fit("graph.p3alpha", TINY, normalize=False)._right.toarray()
    assert walks[1].tolist() == pytest.approx([2 / 8, 0, 1 / 8, 0])
    walks = fit("graph.p3alpha", TINY, alpha=2.0)._right.toarray()
    assert walks[1].tolist() == pytest.approx([2 / 3, 0, 1 / 3, 0])
    walks = fit("graph.rp3beta", TINY, beta=0.5, normalize=False)._right.toarray()
    assert walks[1].tolist() == pytest.approx([2 / 8 / 3**0.5, 0, 1 / 8, 0])


def top(matrix, k):
    """The k largest entries of each row, of equal ones the first."""
    kept = np.zeros_like(matrix)
    for row, values in enumerate(matrix):
        best = np.argsort(-values, kind="stable")[:k]
        kept[row, best] = values[best]
    return kept


def similar(x, params):
    """The k rows that are most similar to each row of a matrix, by the definition."""
    similarity, shrink = params.get("similarity", "cosine"), params.get("shrink", 0.0)
    alpha, beta = params.get("alpha", 0.5), params.get("beta", 0.5)
    if similarity in ("cosine", "asymmetric"):
        size = (x**2).sum(axis=1)
        power = alpha if similarity == "asymmetric" else 0.5
        below = np.outer(size**power, size ** (1 - power)) + shrink
        products = x @ x.T
    else:
        x = (x != 0).astype(float)
        size, products = x.sum(axis=1), x @ x.T
        alpha, beta = {"jaccard": (1, 1), "dice": (0.5, 0.5)}.get(similarity, (alpha, beta))
        shrink /= 2 if similarity == "dice" else 1
        below = products + alpha * (size[:, None] - products) + beta * (size - products) + shrink
    values = np.divide(products, below, out=np.zeros_like(products), where=products != 0)
    np.fill_diagonal(values, 0)
    return top(values, params["k"])


@pytest.mark.parametrize(
    "params",
    [
        {"k": 5, "shrink": 2.5},
        {"k": 3, "values": "rating"},
        {"k": 100, "similarity": "jaccard"},
        {"k": 4, "similarity": "dice", "shrink": 1.0},
        {"k": 6, "similarity": "asymmetric", "alpha": 0.2, "values": "rating"},
        {"k": 6, "similarity": "tversky", "alpha": 0.3, "beta": 1.4},
    ],
)
def test_neighbours_are_those_of_the_definition(params):
    data = random_data()
    x = matrix_of(data, params.get("values", "binary") == "binary")
    expected = x @ similar(x.T, params).T
    np.testing.assert_allclose(all_scores(fit("neighbours.item", data, **params), data), expected, atol=1e-9)
    own = similar(x, params)
    for inverted, neighbours in ((True, own.T), (False, own)):
        model = fit("neighbours.user", data, inverted=inverted, **params)
        np.testing.assert_allclose(all_scores(model, data), neighbours @ x, atol=1e-9)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("alpha", "beta", "k"), [(1.0, 0.0, 4), (0.7, 0.4, 6), (1.3, 0.0, 100)])
def test_walks_are_those_of_the_definition(alpha, beta, k, normalize):
    data = random_data()
    x = matrix_of(data)

    def steps(matrix):
        return (matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1e-300)) ** alpha

    present = np.maximum((x > 0).sum(axis=0), 1)
    walks = steps((x.T > 0).astype(float)) @ steps(x) / present**beta
    np.fill_diagonal(walks, 0)
    walks = top(walks, k)
    if normalize:
        walks /= np.maximum(walks.sum(axis=1, keepdims=True), 1e-300)
    name, further = ("graph.rp3beta", {"beta": beta}) if beta else ("graph.p3alpha", {})
    model = fit(name, data, k=k, alpha=alpha, normalize=normalize, values="rating", **further)
    np.testing.assert_allclose(all_scores(model, data), x @ top(walks.T, k).T, atol=1e-12)


def test_of_equally_similar_items_the_first_are_neighbours():
    # Four items with the same users: each has the others in the order of the catalogue.
    data = of_pairs([(user, item) for user in range(3) for item in range(4)], 3, 4)
    found = weights(data, k=2)
    assert [np.flatnonzero(found[:, item]).tolist() for item in range(4)] == [[1, 2], [0, 2], [0, 1], [0, 1]]


@pytest.mark.parametrize("name", ALL)
def test_threads_change_no_bit(name):
    rng = np.random.default_rng(2)
    data = of_pairs(list(zip(*np.nonzero(rng.random((150, 130)) < 0.2), strict=True)), 150, 130)
    with limit_threads(1):
        alone = all_scores(fit(name, data, k=7, **ALL[name]), data)
    with limit_threads(3):
        np.testing.assert_array_equal(all_scores(fit(name, data, k=7, **ALL[name]), data), alone)
    assert (alone != 0).any()


@pytest.mark.parametrize("name", ALL)
def test_users_and_items_without_train_data_score_zero(name):
    data = random_data()
    scores = all_scores(fit(name, data, **ALL[name]), data)
    assert (scores[-1] == 0).all()
    assert (scores[:, -1] == 0).all()
    assert (scores[:-1, :-1] != 0).any()


@pytest.mark.parametrize(
    ("name", "params", "step"),
    [
        ("neighbours.item", {"weighting": "tf-idf"}, "tf-idf"),
        ("neighbours.user", {"weighting": "bm25"}, "bm25"),
        ("graph.p3alpha", {}, "a random walk"),
        ("slim", {}, "slim"),
    ],
)
def test_negative_ratings_are_refused_where_they_mean_nothing(name, params, step):
    data = random_data(low=-2)
    message = f"{step} takes no negative ratings, and the lowest one is -2; set values to 'binary'"
    with pytest.raises(ModelError, match=message):
        fit(name, data, values="rating", **params)
    assert np.isfinite(all_scores(fit(name, data, **params), data)).all()
    assert np.isfinite(all_scores(fit("neighbours.item", data, values="rating"), data)).all()


@pytest.mark.parametrize("n", [1, 5, 100])
@pytest.mark.parametrize("kind", ["unseen", "all", "judged"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("name", "params"),
    [*ALL.items(), ("neighbours.item", {"average": True}), ("neighbours.item", {"values": "rating"})],
)
def test_lists_are_those_of_the_scores(name, params, ties, kind, n):
    # Small counts make many ties; ratings below zero make scores that no list may take for the best.
    data = random_data(n_users=60, n_items=150, low=-2 if params.get("values") else 1)
    model = fit(name, data, k=4, **params)
    rank = np.random.default_rng(1).permutation(data.n_items) if ties else None
    rows = {"unseen": {"excluded": data.rows}, "all": {}, "judged": {"included": data.rows}}[kind]
    candidates = Candidates(kind, tie_rank=rank, **rows)
    users = np.arange(3, data.n_users, dtype=np.int32)
    items, scores = model.recommend_candidates(users, n, candidates)
    expected = select_candidates(users, model.scores(users), n, candidates)
    np.testing.assert_array_equal(items, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"similarity": "asymmetric", "alpha": 1.5}, "asymmetric similarity must be at most 1, not 1.5"),
        ({"similarity": "cosin"}, "did you mean 'cosine'?"),
        ({"k": 0}, "k: must be greater than or equal to 1, not 0"),
    ],
)
def test_wrong_parameters_are_refused(params, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        MODELS.create("neighbours.item", params)


def test_elastic_nets_are_those_of_scikit_learn():
    from sklearn.linear_model import ElasticNet

    data = random_data(n_users=60)
    x = matrix_of(data)
    expected = np.zeros((data.n_items, data.n_items))
    for item in range(data.n_items - 1):
        others = x[:-1].copy()  # the last user has no interactions
        others[:, item] = 0
        net = ElasticNet(
            alpha=0.2, l1_ratio=0.3, positive=True, fit_intercept=False, tol=1e-12, max_iter=100_000
        )
        expected[:, item] = net.fit(others, x[:-1, item]).coef_
    model = fit("slim", data, alpha=0.2, l1_ratio=0.3, values="rating", k=1000)
    found = model._right.toarray()
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert (expected > 0).sum() > 50
    assert (expected == 0).sum() > 100
    few = fit("slim", data, alpha=0.2, l1_ratio=0.3, values="rating", k=3)
    np.testing.assert_array_equal(few._right.toarray(), top(found.T, 3).T)
