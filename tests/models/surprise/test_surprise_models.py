from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields

import numpy as np
import pytest
import surprise
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from samples import coded

from evalplugin.base import costs
from evalplugin.base.errors import ModelError, ParameterError
from evalplugin.base.seeding import generator
from evalplugin.data import Candidates
from evalplugin.models import MODELS, recommend
from evalplugin.models.base import ListRequest
from evalplugin.models.surprise.base import BslOptions, SimOptions

NAMES = [name.removeprefix("surprise.") for name in MODELS.names() if name.startswith("surprise.")]
KNN = [name for name in NAMES if name.startswith("KNN")]
SIMILARITIES = ["cosine", "msd", "pearson", "pearson_baseline"]


@st.composite
def interactions(draw, step=(1, 0.5, 0.3)):
    """Small data with many ties; some users and items of the vocabularies have no interactions."""
    n_users, n_items = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    cells = draw(
        st.lists(
            st.tuples(st.integers(0, n_users - 1), st.integers(0, n_items - 1)),
            min_size=3,
            max_size=n_users * n_items,
            unique=True,
        )
    )
    unit = draw(st.sampled_from(step))
    ratings = draw(st.lists(st.integers(1, 5), min_size=len(cells), max_size=len(cells)))
    return make([(u, i, r * unit) for (u, i), r in zip(cells, ratings, strict=True)], n_users, n_items)


def make(cells, n_users, n_items):
    user, item, rating = zip(*cells, strict=True)
    return coded(user, item, rating, users=np.arange(n_users) + 50, items=np.arange(n_items) + 70)


def fit(name, data, **params):
    model = MODELS.create(f"surprise.{name}", params)
    model.fit(data, generator(5, name))
    return model


def estimates(model, data, clip):
    return np.array(
        [
            [model.algorithm.predict(u, i, clip=clip).est for i in range(data.n_items)]
            for u in range(data.n_users)
        ]
    )


def assert_equal_to_surprise(model, data):
    """Scores and predictions are those of Surprise within 1e-9; scores depend on no other user."""
    users = np.arange(data.n_users, dtype=np.int32)
    unclipped, scores = estimates(model, data, clip=False), model.scores(users)
    np.testing.assert_allclose(scores, unclipped, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.scores(users[-2:]), scores[-2:])
    pairs = np.indices(unclipped.shape).reshape(2, -1)[:, ::-1].astype(np.int32)
    clipped = estimates(model, data, clip=True).ravel()[::-1]
    np.testing.assert_allclose(model.predict(*pairs), clipped, rtol=1e-9, atol=1e-9)


def refused(action):
    """Return whether an action is refused because a similarity, or a deviation, is undefined on the data."""
    try:
        action()
    except ModelError as error:
        return bool(re.search("is undefined on this data|all of them are", str(error)))
    return False


@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("name", KNN)
@settings(max_examples=25)
@given(data=interactions(), k=st.integers(1, 5), min_k=st.integers(1, 3), min_support=st.integers(1, 2))
def test_neighbours_estimate_what_surprise_does(name, similarity, user_based, data, k, min_k, min_support):
    options = {"name": similarity, "user_based": user_based, "min_support": min_support}
    params = {"k": k, "min_k": min(min_k, k), "sim_options": options}
    if not refused(lambda: fit(name, data, **params)):
        model = fit(name, data, **params)
        assume(not np.isnan(model.algorithm.sim).any())  # where Surprise's choice follows no rule
        assert_equal_to_surprise(model, data)


OTHERS = [
    ("BaselineOnly", {}),
    ("BaselineOnly", {"bsl_options": {"method": "sgd", "reg": 0.1, "learning_rate": 0.01, "n_epochs": 5}}),
    ("KNNBaseline", {"bsl_options": {"method": "sgd"}}),
    (
        "KNNBaseline",
        {"sim_options": {"name": "pearson_baseline", "shrinkage": 1}, "bsl_options": {"reg_u": 0}},
    ),
    ("KNNBasic", {"sim_options": {"name": "pearson_baseline"}, "bsl_options": {"n_epochs": 1}}),
    ("KNNWithMeans", {"min_k": 0}),
    ("SVD", {"n_factors": 3}),
    ("SVD", {"n_factors": 100, "n_epochs": 2}),
    ("SVD", {"biased": False, "random_state": 4}),
    ("SVD", {"init_std_dev": 0, "init_mean": 0.1, "n_factors": 7}),
    ("SVDpp", {}),
    ("SVDpp", {"n_factors": 1, "cache_ratings": True}),
    ("NMF", {}),
    ("NMF", {"biased": True, "n_factors": 2, "random_state": 0}),
    ("SlopeOne", {}),
    ("CoClustering", {}),
    ("CoClustering", {"n_cltr_u": 1, "n_cltr_i": 2, "n_epochs": 1}),
]


@pytest.mark.parametrize(("name", "params"), OTHERS)
@settings(max_examples=25)
@given(data=interactions())
def test_other_algorithms_estimate_what_surprise_does(name, params, data):
    if not refused(lambda: fit(name, data, **params)):
        assert_equal_to_surprise(fit(name, data, **params), data)


def many(seed, n_users, n_items, share):
    rng = np.random.default_rng(seed)
    met = rng.random((n_users, n_items)) < share * np.linspace(0.2, 1.8, n_items)
    return make(
        [(u, i, int(rng.integers(1, 6))) for u, i in zip(*np.nonzero(met), strict=True)], n_users, n_items
    )


@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("name", ["KNNBasic", "KNNBaseline"])
def test_neighbours_of_larger_data_fill_up_as_in_surprise(name, user_based):
    data = many(1, 70, 90, 0.3)
    assert_equal_to_surprise(fit(name, data, k=4, min_k=2, sim_options={"user_based": user_based}), data)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "NormalPredictor"])
def test_lists_are_those_of_ranking_every_estimate(name):
    data = many(2, 30, 60, 0.2)
    model = fit(name, data)
    top = recommend(
        model,
        ListRequest(data, np.arange(30, dtype=np.int32), 10, Candidates("unseen", excluded=data.rows)),
        block_bytes=7 * 60 * 8,
    )
    for user in range(30):
        seen = set(data.rows[user].tolist())
        ranked = sorted(
            (-model.algorithm.predict(user, i, clip=False).est, i) for i in range(60) if i not in seen
        )
        scored = {item: -score for score, item in ranked}
        assert len(set(top.item[user].tolist())) == 10
        for listed, score in zip(top.item[user].tolist(), top.score[user], strict=True):
            assert score == pytest.approx(scored[listed], rel=1e-9)
        assert top.score[user].tolist() == pytest.approx([-est for est, _ in ranked[:10]], rel=1e-9)


def test_normal_predictor_draws_from_the_distribution_of_the_ratings():
    data = many(4, 60, 80, 0.3)
    model = fit("NormalPredictor", data)
    users = np.arange(60, dtype=np.int32)
    scores = model.scores(users)
    deviation = data.rating.std(dtype=np.float64)
    assert abs(scores.mean() - data.rating.mean(dtype=np.float64)) < 4 * deviation / scores.size**0.5
    assert abs(scores.std() / deviation - 1) < 4 / (2 * scores.size) ** 0.5
    np.testing.assert_array_equal(model.scores(users[7:9]), scores[7:9])
    np.testing.assert_array_equal(
        model.predict(np.array([9, 3, 9], dtype=np.int32), np.array([1, 2, 4], dtype=np.int32)),
        scores[[9, 3, 9], [1, 2, 4]].clip(*data.rating_scale),
    )


def test_random_state_is_the_seed_of_the_algorithm():
    data = many(5, 20, 20, 0.4)
    model = fit("SVD", data, random_state=3, n_factors=4)
    theirs = surprise.SVD(n_factors=4, random_state=3).fit(model.algorithm.trainset)
    np.testing.assert_array_equal(model.algorithm.pu, theirs.pu)
    assert (fit("SVD", data, n_factors=4).algorithm.pu != theirs.pu).any()
    assert MODELS.create("surprise.SVD").random_state is None


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_surprise(name):
    signature = inspect.signature(getattr(surprise, name).__init__).parameters
    theirs = {p: s.default for p, s in signature.items() if p not in ("self", "verbose", "kwargs")}
    if "kwargs" in signature:
        theirs.setdefault("bsl_options", {})
    ours = {}
    for f in fields(MODELS.entry(f"surprise.{name}").cls):
        if f.init:
            ours[f.name] = f.default if f.default_factory is MISSING else f.default_factory()
    nested = {"sim_options": SimOptions(), "bsl_options": BslOptions()}
    assert list(ours) == list(theirs)
    assert ours == {p: nested[p] if default == {} else default for p, default in theirs.items()}


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("KNNBasic", {"kk": 3}, "unknown parameter 'kk' of surprise.KNNBasic; did you mean 'k'?"),
        ("KNNBasic", {"sim_options": {"nam": "msd"}}, "'nam' of surprise.KNNBasic; did you mean 'name'?"),
        ("KNNBasic", {"sim_options": {"name": "pearsn"}}, "did you mean 'pearson'?"),
        ("KNNBasic", {"sim_options": {"user_based": "no"}}, "user_based: must be true or false, not 'no'"),
        ("KNNBasic", {"sim_options": {"shrinkage": 3}}, "shrinkage goes with the name 'pearson_baseline'"),
        ("KNNBasic", {"min_k": 0}, "min_k: must be greater than or equal to 1, not 0"),
        ("KNNBasic", {"k": 2, "min_k": 3}, "min_k (3) must not be above k (2)"),
        ("KNNWithMeans", {"bsl_options": {"method": "sgd"}}, "of KNNWithMeans go with the similarity"),
        (
            "BaselineOnly",
            {"bsl_options": {"method": "sgd", "reg_i": 1}},
            "reg_i is not an option of the method 'sgd'; it takes",
        ),
        (
            "BaselineOnly",
            {"bsl_options": {"reg": 1}},
            "reg is not an option of the method 'als'; it takes reg_i, reg_u, n_epochs",
        ),
        ("BaselineOnly", {"bsl_options": {"method": "asl"}}, "did you mean 'als'?"),
        ("NMF", {"init_low": -1}, "init_low: must be greater than or equal to 0"),
        ("NMF", {"init_low": 2}, "init_low (2.0) must not be above init_high (1)"),
        ("SVD", {"verbose": True}, "unknown parameter 'verbose' of surprise.SVD"),
    ],
)
def test_wrong_parameters_are_refused(name, params, message):
    with pytest.raises(ParameterError, match=re.escape(message)):
        MODELS.create(f"surprise.{name}", params)


def test_fit_bytes_estimates_memory():
    data = many(7, 12, 15, 0.6)
    trainset = 250 * len(data)

    def needed(name, **params):
        return MODELS.create(f"surprise.{name}", params).fit_bytes(data) - trainset

    assert needed("KNNBasic") == 8 * 12**2
    assert needed("KNNBaseline", sim_options={"name": "pearson_baseline", "user_based": False}) == 8 * 15**2
    assert needed("SlopeOne") == 16 * 15**2
    assert needed("SVD", n_factors=7) == 8 * 7 * (12 + 15)
    assert needed("SVDpp", n_factors=7) == 2 * 8 * 7 * (12 + 15)
    assert needed("BaselineOnly") == 0


@pytest.mark.parametrize(
    ("name", "params", "words"),
    [
        (
            "KNNBasic",
            {"sim_options": {"user_based": False}},
            "surprise.KNNBasic: the similarity 'msd' of 15 items needs .* "
            "set sim_options.user_based to true, for 12 users, or take a sample",
        ),
        ("KNNWithMeans", {}, "'msd' of 12 users needs .*; take a sample of the data or another"),
        ("SlopeOne", {}, "surprise.SlopeOne on 15 items needs .* take a model without item differences"),
        ("SVD", {}, "surprise.SVD with 100 factors of 12 users and 15 items needs .* lower n_factors"),
        ("BaselineOnly", {}, "surprise.BaselineOnly needs .* take a sample of the data"),
    ],
)
def test_a_fit_without_enough_memory_is_refused_before_it_starts(monkeypatch, name, params, words):
    data = many(7, 12, 15, 0.6)
    needed = MODELS.create(f"surprise.{name}", params).fit_bytes(data)
    monkeypatch.setattr(costs, "_total_memory", lambda: needed)
    fit(name, data, **params)
    monkeypatch.setattr(costs, "_total_memory", lambda: needed - 1)
    with pytest.raises(ModelError, match=words) as refusal:
        fit(name, data, **params)
    assert f"needs {needed:,} bytes" in str(refusal.value)
    assert f"there are {needed - 1:,} " in str(refusal.value)


def test_the_memory_of_this_machine_is_known():
    assert costs._total_memory() > 2**28


def test_similarities_that_surprise_cannot_compute_are_explained():
    zeros = make([(0, 0, 0.0), (1, 0, 1.0), (2, 1, 4.0)], 3, 2)
    with pytest.raises(ModelError, match=r"is undefined on this data: two users have in common only ratings"):
        fit("KNNBasic", zeros, sim_options={"name": "cosine"})
    same = make([(u, i, 1.0) for u in range(3) for i in range(3)], 3, 3)
    with pytest.raises(ModelError, match=r"'pearson_baseline' is undefined .* equal the baseline"):
        fit("KNNBaseline", same, sim_options={"name": "pearson_baseline"})
    with pytest.raises(ModelError, match=r"divides by the deviation of the ratings, and all of them are 1"):
        fit("KNNWithZScore", same)
