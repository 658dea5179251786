from __future__ import annotations

import pickle

import numpy as np
import pytest
import surprise
from hypothesis import given, settings
from hypothesis import strategies as st
from surprise import dump

from evalplugin.base.errors import ModelError
from evalplugin.base.seeding import generator
from evalplugin.data import Interactions
from evalplugin.models import MODELS, limit_threads, thread_count
from evalplugin.models.surprise import fit as surprise_fit
from evalplugin.models.surprise.ratings import RatingLists, Ratings, TrainsetArrays
from evalplugin.models.threads import for_ranges

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
    return Interactions(
        user=user[order].astype(np.int32),
        item=item[order].astype(np.int32),
        rating=rating.astype(np.float32),
        timestamp=None,
        users=np.arange(n_users) + 50,
        items=np.arange(n_items) + 70,
    )


def fit(name, data, **params):
    model = MODELS.create(f"surprise.{name}", params)
    model.fit(data, generator(5, name))
    return model


def theirs(model, **params):
    """Return what Surprise learns from the same trainset."""
    kind = type(model.algorithm)
    if kind is not surprise.BaselineOnly:
        params = {"sim_options": {}, **params}  # Surprise changes its own default otherwise
    return kind(**params, verbose=False).fit(model.algorithm.trainset)


def assert_same_attributes(ours, theirs):
    ours, theirs = vars(ours), vars(theirs)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        if name in ("trainset", "xr", "yr", "sim_options", "bsl_options"):
            continue  # the same objects, and options that stand for the same defaults
        assert type(ours[name]) is type(value), name
        np.testing.assert_array_equal(ours[name], value, err_msg=name)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_similarities_are_those_of_surprise_to_the_bit(similarity, user_based, scale):
    data = random_data(1, 90, 70, 0.4, scale)
    options = {"name": similarity, "user_based": user_based, "min_support": 2}
    model = fit("KNNBasic", data, sim_options=options)
    assert_same_attributes(model.algorithm, theirs(model, sim_options=dict(options)))


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
    assert_same_attributes(model.algorithm, theirs(model, sim_options=dict(options)))


@pytest.mark.parametrize("scale", ["half stars", "anything"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_epochs": 3, "reg_u": 2.5, "reg_i": 7},
        {"method": "sgd"},
        {"method": "sgd", "n_epochs": 2, "reg": 0.1, "learning_rate": 0.02},
    ],
)
def test_baselines_are_those_of_surprise_to_the_bit(options, scale):
    data = random_data(2, 60, 50, 0.3, scale)
    model = fit("BaselineOnly", data, bsl_options=options)
    assert_same_attributes(model.algorithm, theirs(model, bsl_options=dict(options)))
    model = fit("KNNBaseline", data, bsl_options=options)
    assert_same_attributes(model.algorithm, theirs(model, bsl_options=dict(options)))


def test_the_trainset_is_what_surprise_builds_from_sorted_rows():
    data = random_data(3, 20, 15, 0.4, "half stars")
    known = TrainsetArrays.of(data)
    ours = known.trainset()
    frame = data.to_frame().sort_values(["user", "item"])
    by_rows = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=data.rating_scale))
    built = by_rows.build_full_trainset()
    assert ours.global_mean == built.global_mean
    assert (ours.n_users, ours.n_items, ours.n_ratings) == (built.n_users, built.n_items, built.n_ratings)
    assert ours.rating_scale == built.rating_scale
    codes = {built.to_inner_iid(70 + code): inner for inner, code in enumerate(known.item_codes.tolist())}
    assert {u: [(codes[i], r) for i, r in row] for u, row in built.ur.items()} == ours.ur
    assert {codes[i]: row for i, row in built.ir.items()} == ours.ir
    assert {type(value) for row in ours.ur.values() for pair in row for value in pair} == {int, float}


def test_lists_of_a_trainset_keep_their_order():
    lists = RatingLists.of({0: [(2, 1.5), (0, 3.0)], 1: [(1, 2.0)]}, 2)
    assert lists.indptr.tolist() == [0, 2, 3]
    assert lists.other.tolist() == [2, 0, 1]
    assert lists.rating.tolist() == [1.5, 3.0, 2.0]
    assert not lists.ascending
    assert lists.transposed(3).ascending
    assert lists.to_surprise() == {0: [(2, 1.5), (0, 3.0)], 1: [(1, 2.0)]}


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


@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_threads_change_no_bit(similarity, user_based):
    data = random_data(5, 150, 140, 0.3, "tenths")
    users = np.arange(150, dtype=np.int32)
    found = []
    for threads in (1, 2, 5):
        with limit_threads(threads):
            model = fit("KNNBaseline", data, k=7, sim_options={"name": similarity, "user_based": user_based})
            found.append((model.algorithm.sim, model.scores(users), model.predict(users, users[::-1] % 140)))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["SVD", "SVDpp", "NMF", "BaselineOnly", "SlopeOne", "CoClustering"])
def test_threads_change_no_bit_of_other_models(name):
    data = random_data(6, 150, 140, 0.3, "half stars")
    model = fit(name, data)
    users = np.arange(150, dtype=np.int32)
    with limit_threads(1):
        alone = model.scores(users)
    with limit_threads(3):
        np.testing.assert_array_equal(model.scores(users), alone)


def test_similarity_kernels_are_tried_only_where_sums_round(monkeypatch):
    monkeypatch.setattr(surprise_fit, "_agrees", lambda name: False)
    stars, tenths = np.array([0.5, 4.5]), np.array([0.1, 4.0])
    for name in ("cosine", "msd", "pearson"):
        assert surprise_fit.similarity_is_ours(name, stars, 10**6)
        assert not surprise_fit.similarity_is_ours(name, stars, 10**8)  # sums beyond 2**53
        assert not surprise_fit.similarity_is_ours(name, tenths, 10)
    assert not surprise_fit.similarity_is_ours("pearson_baseline", stars, 10)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_similarity_falls_back_to_surprise_where_kernels_disagree(monkeypatch, similarity):
    data = random_data(7, 20, 15, 0.5, "tenths")
    options = {"name": similarity}
    expected = fit("KNNBaseline", data, sim_options=options).algorithm
    monkeypatch.setattr(surprise_fit, "_agrees", lambda name: False)
    for kernel in ("_our_similarity", "_our_baselines"):
        monkeypatch.setattr(surprise_fit, kernel, None)
    assert_same_attributes(fit("KNNBaseline", data, sim_options=options).algorithm, expected)


@pytest.mark.parametrize("name", [*SIMILARITIES, "baselines"])
def test_kernels_and_surprise_agree_on_this_machine(name):
    assert surprise_fit._agrees(name)


@pytest.mark.parametrize(
    "name",
    # LensKit has tests of its own, where it is installed; a model of MLflow needs one that is logged.
    [
        e.name
        for e in MODELS
        if hasattr(e.cls, "prepare") and e.name != "mlflow" and not e.name.startswith("lenskit.")
    ],
)
def test_models_that_can_be_prepared_are_the_same_afterwards(name):
    model = MODELS.create(name)
    assert model.prepare() is None
    assert pickle.dumps(model) == pickle.dumps(MODELS.create(name))


def test_thread_count_follows_limit_and_environment(monkeypatch):
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)
    assert thread_count() >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert thread_count() == 3
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    assert thread_count() == 2
    with limit_threads(1):
        assert thread_count() == 1
    monkeypatch.setenv("NUMBA_NUM_THREADS", "many")
    with pytest.raises(ModelError, match="NUMBA_NUM_THREADS must be a whole number from 1, not 'many'"):
        thread_count()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("n", "size"), [(0, 5), (1, 5), (10, 3), (9, 3)])
def test_ranges_cover_everything_once(threads, n, size):
    seen = []
    with limit_threads(threads):
        for_ranges(lambda start, stop: seen.extend(range(start, stop)), n, size)
    assert sorted(seen) == list(range(n))


def test_an_error_in_a_thread_is_raised():
    def work(start, stop):
        raise ValueError(f"in {start}")

    with limit_threads(2), pytest.raises(ValueError, match="in 0"):
        for_ranges(work, 10, 5)


def test_ratings_of_a_trainset_are_those_of_the_data():
    data = random_data(8, 12, 9, 0.5, "tenths")
    known = TrainsetArrays.of(data)
    again = Ratings.of(known.trainset())
    for ours, read in ((known.ratings.by_user, again.by_user), (known.ratings.by_item, again.by_item)):
        np.testing.assert_array_equal(ours.indptr, read.indptr)
        np.testing.assert_array_equal(ours.other, read.other)
        np.testing.assert_array_equal(ours.rating, read.rating)
