from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import surprise
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import evalplugin
from evalplugin.base.errors import ModelError
from evalplugin.models import SlowEstimates, surprise_top_n

KNN = ["KNNBasic", "KNNWithMeans", "KNNWithZScore", "KNNBaseline"]


def trainset_of(rows, scale=(1, 5)):
    frame = pd.DataFrame(rows, columns=["user", "item", "rating"])
    return surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=scale)).build_full_trainset()


def shuffled_rows(seed, n_users, n_items, share, levels):
    """Rows in random order of text ids; the first two differ so that no algorithm is undefined."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < share)
    order = rng.permutation(len(user))
    rating = rng.choice(levels, len(user))
    rating[:2] = levels[0], levels[-1]
    return [(f"u{u}", f"i{i}", r) for u, i, r in zip(user[order], item[order], rating, strict=True)]


def by_asking(algorithm, n, users=None, exclude_seen=True):
    """Return the lists that the documented way makes, of unclipped estimates."""
    trainset, rows = algorithm.trainset, []
    for user in users or [trainset.to_raw_uid(u) for u in trainset.all_users()]:
        seen = {i for i, _ in trainset.ur[trainset.to_inner_uid(user)]} if exclude_seen else set()
        asked = [
            (-algorithm.predict(user, trainset.to_raw_iid(i), clip=False).est, i)
            for i in trainset.all_items()
            if i not in seen
        ]
        rows += [
            (user, trainset.to_raw_iid(i), rank, -score)
            for rank, (score, i) in enumerate(sorted(asked)[:n], start=1)
        ]
    return pd.DataFrame(rows, columns=["user", "item", "rank", "score"])


def assert_same(algorithm, n=10, **options):
    """The lists are those of the documented way, but for items whose scores are equal within 1e-9."""
    ours, theirs = surprise_top_n(algorithm, n, **options), by_asking(algorithm, n, **options)
    pd.testing.assert_frame_equal(
        ours.drop(columns="item"), theirs.drop(columns="item"), check_dtype=False, rtol=1e-9, atol=1e-9
    )
    assert not ours.duplicated(["user", "item"]).any()
    for user, item, score in ours[["user", "item", "score"]].itertuples(index=False):
        assert score == pytest.approx(algorithm.predict(user, item, clip=False).est, rel=1e-9, abs=1e-9)
    if not options.get("exclude_seen", True):
        return
    trainset = algorithm.trainset
    seen = {
        (trainset.to_raw_uid(u), trainset.to_raw_iid(i)) for u, row in trainset.ur.items() for i, _ in row
    }
    assert not seen & set(zip(ours.user, ours.item, strict=True))


@pytest.mark.parametrize("user_based", [True, False])
@pytest.mark.parametrize("name", KNN)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 6),
    similarity=st.sampled_from(["msd", "cosine", "pearson", "pearson_baseline"]),
    levels=st.sampled_from([(1, 2), (1, 2, 3, 4, 5), (0.5, 1.5, 4.5), (1.1, 2.3, 4.7)]),
    share=st.sampled_from([0.3, 0.6, 1.0]),
)
def test_ties_between_neighbours_are_broken_by_the_order_of_the_rows(
    name, user_based, seed, k, similarity, levels, share
):
    trainset = trainset_of(shuffled_rows(seed, 11, 12, share, levels))
    options = {"name": similarity, "user_based": user_based}
    try:
        algorithm = getattr(surprise, name)(k=k, sim_options=options, verbose=False).fit(trainset)
    except ZeroDivisionError:
        return
    assume(not np.isnan(algorithm.sim).any())  # where Surprise's choice follows no rule
    assert_same(algorithm)


@pytest.mark.parametrize("user_based", [True, False])
def test_many_equal_similarities_in_any_order_are_cut_as_surprise_cuts_them(user_based):
    trainset = trainset_of(shuffled_rows(1, 70, 60, 0.5, (1, 5)))
    algorithm = surprise.KNNBasic(
        k=5, sim_options={"user_based": user_based, "min_support": 5}, verbose=False
    ).fit(trainset)
    algorithm.sim = np.round(algorithm.sim, 1)  # ten levels: most neighbours tie
    assert_same(algorithm, 60, exclude_seen=False)


@pytest.mark.parametrize("user_based", [True, False])
def test_ties_in_lists_longer_than_a_byte_are_broken_by_their_order(user_based):
    shape = (600, 8) if user_based else (8, 600)
    trainset = trainset_of(shuffled_rows(7, *shape, 0.9, (1, 2, 3, 4, 5)))
    algorithm = surprise.KNNWithMeans(k=40, sim_options={"user_based": user_based}, verbose=False).fit(
        trainset
    )
    algorithm.sim = np.round(algorithm.sim, 1)
    assert max(map(len, (trainset.ir if user_based else trainset.ur).values())) > 500
    users = [trainset.to_raw_uid(u) for u in range(min(8, trainset.n_users))]
    assert_same(algorithm, 20, users=users, exclude_seen=False)


@pytest.mark.parametrize("name", ["SVD", "SVDpp", "NMF", "SlopeOne", "CoClustering", "BaselineOnly"])
def test_surprise_top_n_of_other_algorithms_equals_predict(name):
    np.random.seed(3)  # noqa: NPY002 - what Surprise's algorithms start from
    algorithm = getattr(surprise, name)().fit(trainset_of(shuffled_rows(2, 25, 30, 0.3, (1, 2, 3, 4, 5))))
    assert_same(algorithm)
    assert_same(algorithm, 100, exclude_seen=False)
    assert_same(algorithm, 3, users=["u7", "u2"])


def test_small_blocks_make_the_same_lists():
    algorithm = surprise.KNNBasic(sim_options={"user_based": False}, verbose=False)
    algorithm.fit(trainset_of(shuffled_rows(3, 25, 30, 0.3, (1, 2, 3, 4, 5))))
    done = []
    pd.testing.assert_frame_equal(
        surprise_top_n(algorithm, 5, block_bytes=1000, progress=done.append), surprise_top_n(algorithm, 5)
    )
    assert done == [1000 // (30 * 8)] * 6 + [1]


def test_the_algorithm_is_not_changed():
    algorithm = surprise.SlopeOne().fit(trainset_of(shuffled_rows(4, 12, 30, 0.1, (1, 5))))
    assert (algorithm.freq == 0).any()
    before = algorithm.dev.copy()
    assert_same(algorithm)
    np.testing.assert_array_equal(algorithm.dev, before)


class Halved(surprise.SVD):
    def estimate(self, u, i):
        if i == 2:
            raise surprise.PredictionImpossible("not this one")
        return super().estimate(u, i) / 2, {"halved": True}


class Renamed(surprise.SVD):
    """Learns in another way, and estimates as SVD does."""


def test_unknown_estimate_warns_slow_estimates():
    rows = shuffled_rows(5, 10, 12, 0.4, (1, 2, 3, 4, 5))
    algorithm = Halved(random_state=1).fit(trainset_of(rows))
    done = []
    with pytest.warns(
        SlowEstimates, match=r"test_surprise_top_n.Halved estimates in a way of its own.* 120 pairs"
    ):
        lists = surprise_top_n(algorithm, 4, progress=done.append)
    pd.testing.assert_frame_equal(lists, by_asking(algorithm, 4), check_dtype=False, check_exact=True)
    assert done == [1] * 10


def test_surprise_top_n_of_a_subclass_uses_block_estimates():
    assert_same(Renamed(random_state=1).fit(trainset_of(shuffled_rows(5, 10, 12, 0.4, (1, 2, 3, 4, 5)))))


def test_normal_predictor_draws_from_the_global_generator():
    algorithm = surprise.NormalPredictor().fit(trainset_of(shuffled_rows(6, 10, 12, 0.4, (1, 2, 3, 4, 5))))
    np.random.seed(4)  # noqa: NPY002 - the generator that NormalPredictor draws from
    with pytest.warns(SlowEstimates, match=r"NormalPredictor estimates in a way of its own"):
        lists = surprise_top_n(algorithm, 12, exclude_seen=False)
    np.random.seed(4)  # noqa: NPY002
    pd.testing.assert_frame_equal(lists, by_asking(algorithm, 12, exclude_seen=False), check_dtype=False)


def test_raw_ids_keep_their_type():
    rows = [(1, "a", 3.0), (1, "b", 4.0), (2, "b", 2.0), (2, "c", 5.0)]
    lists = evalplugin.surprise_top_n(surprise.BaselineOnly(verbose=False).fit(trainset_of(rows)))
    assert lists.columns.tolist() == ["user", "item", "rank", "score"]
    assert lists[["user", "item", "rank"]].values.tolist() == [[1, "c", 1], [2, "a", 1]]
    assert lists["user"].dtype == np.int64


@pytest.mark.parametrize(
    ("algorithm", "options", "message"),
    [
        (object(), {}, "surprise_top_n takes a scikit-surprise algorithm, not object"),
        (surprise.SVD(), {}, "SVD is not fitted; call its fit(trainset) first"),
        ("fitted", {"n": 0}, "n must be at least 1, not 0"),
        ("fitted", {"users": ["u1", "nobody"]}, "user 'nobody' is not in the trainset"),
        ("no minimum", {}, "KNNBasic estimates nan for user 'u0' and item 'b'; it must be finite"),
        ("broken", {}, "SVD estimates nan for user 'u0' and item 'a'; it must be finite"),
    ],
)
def test_surprise_top_n_refuses_invalid_requests(algorithm, options, message):
    trainset = trainset_of([("u0", "a", 1), ("u1", "b", 5), ("u1", "c", 2)])
    if algorithm == "fitted":
        algorithm = surprise.SVD().fit(trainset)
    elif algorithm == "no minimum":
        algorithm = surprise.KNNBasic(min_k=0, sim_options={}, verbose=False).fit(trainset)
    elif algorithm == "broken":
        algorithm = surprise.SVD().fit(trainset)
        algorithm.bu[0] = np.nan
    with pytest.raises(ModelError, match=re.escape(message)):
        surprise_top_n(algorithm, **{"n": 3, **options})
