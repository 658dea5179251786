from __future__ import annotations

import numpy as np
import pytest
import surprise
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import coded
from surprise import dump

from evalplugin.base.seeding import generator
from evalplugin.models import MODELS, limit_threads
from evalplugin.models.surprise.trainset import InnerIds, matrix_of_lists

SIMILARITIES = ["cosine", "msd", "pearson", "pearson_baseline"]
SCALES = {
    "whole stars": np.arange(1, 6),
    "half stars": np.arange(1, 11) / 2,
    "signed": np.array([-10, -3.5, 0.5, 2, 10]),
    "tenths": np.arange(1, 51) / 10,
    "anything": None,
}


def random_data(seed, n_users, n_items, share, scale):
    rng = np.random.default_rng(seed)
    met = rng.random((n_users, n_items)) < share * np.linspace(0.2, 1.8, n_items)
    user, item = np.nonzero(met)
    order = rng.permutation(len(user))
    levels = SCALES[scale]
    rating = rng.normal(3, 1, len(user)) if levels is None else rng.choice(levels, len(user))
    return coded(
        user[order], item[order], rating, users=np.arange(n_users) + 50, items=np.arange(n_items) + 70
    )


def fit(name, data, **params):
    model = MODELS.create(f"surprise.{name}", params)
    model.fit(data, generator(5, name))
    return model


def assert_learned_as_by_surprise(model, **params):
    """What a model has learned is what Surprise learns from the same trainset."""
    ours, kind = model.algorithm, type(model.algorithm)
    if kind is not surprise.BaselineOnly:
        params = {"sim_options": {}, **params}  # Surprise changes its own default otherwise
    theirs = kind(**params, verbose=False).fit(ours.trainset)
    assert set(vars(ours)) == set(vars(theirs))
    for name, value in vars(theirs).items():
        if name not in ("trainset", "xr", "yr", "sim_options", "bsl_options") and value is not None:
            np.testing.assert_allclose(vars(ours)[name], value, rtol=1e-9, atol=1e-9, err_msg=name)
    return theirs


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_similarities_are_those_of_surprise(similarity, user_based, scale):
    data = random_data(1, 90, 70, 0.4, scale)
    options = {"name": similarity, "user_based": user_based, "min_support": 2}
    model = fit("KNNBasic", data, sim_options=options)
    theirs = assert_learned_as_by_surprise(model, sim_options=dict(options))
    np.testing.assert_array_equal(model.algorithm.sim, model.algorithm.sim.T)
    if scale in ("whole stars", "half stars", "signed"):  # every sum is exact: what ties there ties here
        np.testing.assert_array_equal(model.algorithm.sim, theirs.sim)


@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("name", ["KNNBasic", "KNNWithMeans", "KNNWithZScore", "KNNBaseline"])
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), scale=st.sampled_from(sorted(SCALES)), share=st.floats(0.3, 0.9))
def test_everything_that_is_learned_is_what_surprise_learns(name, user_based, seed, scale, share):
    data = random_data(seed, 14, 17, share, scale)
    options = {"user_based": user_based}
    if name == "KNNWithZScore" and data.rating_scale[0] == data.rating_scale[1]:
        return  # refused: there is no deviation to divide by
    model = fit(name, data, sim_options=options)
    assert_learned_as_by_surprise(model, sim_options=dict(options))


@pytest.mark.parametrize("name", ["BaselineOnly", "KNNBaseline"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_epochs": 3, "reg_u": 2.5, "reg_i": 7},
        {"method": "sgd"},
        {"method": "sgd", "n_epochs": 2, "reg": 0.1, "learning_rate": 0.02},
    ],
)
def test_options_of_baselines_are_those_of_surprise(options, name):
    data = random_data(2, 60, 50, 0.3, "half stars")
    assert_learned_as_by_surprise(fit(name, data, bsl_options=options), bsl_options=dict(options))


def test_the_trainset_is_what_surprise_builds_from_sorted_rows():
    data = random_data(3, 20, 15, 0.4, "half stars")
    ids = InnerIds.of(data)
    ours = ids.trainset(data)
    frame = data.to_frame().sort_values(["user", "item"])
    by_rows = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=data.rating_scale))
    built = by_rows.build_full_trainset()
    assert ours.global_mean == built.global_mean
    assert (ours.n_users, ours.n_items, ours.n_ratings) == (built.n_users, built.n_items, built.n_ratings)
    assert ours.rating_scale == built.rating_scale
    codes = {built.to_inner_iid(70 + code): inner for inner, code in enumerate(ids.item_codes.tolist())}
    assert {u: [(codes[i], r) for i, r in row] for u, row in built.ur.items()} == ours.ur
    assert {codes[i]: row for i, row in built.ir.items()} == ours.ir
    assert {type(value) for row in ours.ur.values() for pair in row for value in pair} == {int, float}


def test_a_matrix_of_lists_keeps_their_order():
    matrix = matrix_of_lists({0: [(2, 1.5), (0, 3.0)], 1: [(1, 2.0)]}, (2, 3))
    assert matrix.indptr.tolist() == [0, 2, 3]
    assert matrix.indices.tolist() == [2, 0, 1]
    assert matrix.data.tolist() == [1.5, 3.0, 2.0]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # Surprise leaves it open
@pytest.mark.parametrize("user_based", [True, False])
def test_the_fitted_algorithm_is_a_genuine_one(tmp_path, user_based):
    data = random_data(4, 30, 25, 0.4, "whole stars")
    algorithm = fit("KNNWithMeans", data, sim_options={"user_based": user_based}).algorithm
    dump.dump(str(tmp_path / "algorithm"), algo=algorithm)
    _, loaded = dump.load(str(tmp_path / "algorithm"))
    assert type(loaded) is surprise.KNNWithMeans
    assert loaded.get_neighbors(3, k=5) == algorithm.get_neighbors(3, k=5)
    assert loaded.predict(3, 4) == algorithm.predict(3, 4)
    again = algorithm.fit(algorithm.trainset)
    np.testing.assert_array_equal(again.sim, loaded.sim)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *(
            ("KNNBaseline", {"k": 7, "sim_options": {"name": similarity, "user_based": user_based}})
            for similarity in SIMILARITIES
            for user_based in (True, False)
        ),
        *((name, {}) for name in ("SVD", "SVDpp", "NMF", "BaselineOnly", "SlopeOne", "CoClustering")),
    ],
)
def test_threads_change_no_bit(name, params):
    data = random_data(5, 150, 140, 0.3, "tenths")
    users = np.arange(150, dtype=np.int32)
    results = []
    for threads in (1, 3):
        with limit_threads(threads):
            model = fit(name, data, **params)
            results.append((model.scores(users), model.predict(users, users[::-1] % 140)))
    for alone, together in zip(*results, strict=True):
        np.testing.assert_array_equal(alone, together)
