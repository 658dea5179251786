"""What the made datasets promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalplugin.base.errors import ParameterError
from evalplugin.data import DATASETS, Interactions, LastN, LoadContext, Synthetic
from evalplugin.data.datasets import synthetic as module


def load(**params: Any) -> Interactions:
    return Synthetic(**params).load(LoadContext())


@pytest.fixture(scope="module")
def default() -> Interactions:
    return load()


def test_it_has_exactly_the_pairs_that_were_asked_for_each_once(default: Interactions) -> None:
    assert (len(default), default.n_users, default.n_items) == (100_000, 1000, 1700)
    pairs = default.user.astype(np.int64) * default.n_items + default.item
    assert len(np.unique(pairs)) == len(default)
    assert default.rows.counts.min() >= 100_000 // 1000 // 5
    assert default.users.tolist() == list(range(1, 1001))


def test_each_users_times_rise_with_the_rows(default: Interactions) -> None:
    same = default.user[1:] == default.user[:-1]
    assert same.sum() == len(default) - default.n_users
    assert (np.diff(default.timestamp)[same] > 0).all()


def test_popularity_and_activity_have_a_long_tail(default: Interactions) -> None:
    popularity = np.sort(default.item_counts)[::-1]
    assert popularity[:170].sum() > 0.25 * len(default)
    activity = default.rows.counts
    assert activity.max() > 5 * np.median(activity)
    assert np.median(activity) < activity.mean()


@pytest.mark.parametrize(("scale", "stars"), [("1-5", np.arange(1, 6)), ("0.5-5", np.arange(1, 11) / 2)])
def test_ratings_are_on_the_scale_and_all_its_stars_occur(scale: Any, stars: Any) -> None:
    assert np.unique(load(scale=scale).rating).tolist() == stars.tolist()


def test_implicit_data_has_no_ratings() -> None:
    assert load(implicit=True).rating_scale == (1.0, 1.0)


def test_the_seed_alone_decides(default: Interactions) -> None:
    assert load().digest == default.digest
    assert load(seed=1).digest != default.digest


@pytest.mark.parametrize(
    ("n_users", "n_items", "n_interactions"),
    [(1, 2, 1), (3, 4, 12), (3, 4, 11), (5, 50, 5), (20, 30, 500), (2, 1000, 900), (200, 20, 300)],
)
def test_any_possible_size_is_met_exactly(n_users: int, n_items: int, n_interactions: int) -> None:
    data = load(n_users=n_users, n_items=n_items, n_interactions=n_interactions)
    pairs = set(zip(data.user.tolist(), data.item.tolist(), strict=True))
    assert len(pairs) == len(data) == n_interactions
    assert len(set(data.user.tolist())) == n_users
    assert max(data.item.tolist()) < n_items


def test_work_in_many_blocks_gives_whole_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_ROWS", 300)
    told: list[float | None] = []
    data = Synthetic(n_users=100, n_items=200, n_interactions=5000).load(
        LoadContext(report=lambda _, done: told.append(done))
    )
    assert len(set(zip(data.user.tolist(), data.item.tolist(), strict=True))) == 5000
    assert told == sorted(told)
    assert told[-1] == 1.0
    assert len(told) > 10


@pytest.mark.parametrize("n_interactions", [999, 1_700_001])
def test_impossible_sizes_are_refused(n_interactions: int) -> None:
    with pytest.raises(ParameterError, match="must be from n_users to n_users x n_items, here 1000 to"):
        DATASETS.create("synthetic", {"n_interactions": n_interactions})


def test_a_personalised_model_beats_popularity_and_popularity_beats_chance(default: Interactions) -> None:
    from sklearn.decomposition import TruncatedSVD

    [fold] = LastN(n=5).split(default, np.random.default_rng(0))
    met = np.zeros((default.n_users, default.n_items), dtype=np.float32)
    met[fold.train.user, fold.train.item] = 1
    gain = np.zeros_like(met)
    gain[fold.test.user, fold.test.item] = fold.test.rating
    model = TruncatedSVD(16, random_state=0)

    def ndcg(scores: Any) -> float:
        best = np.argsort(-np.where(met > 0, -np.inf, scores), axis=1, kind="stable")[:, :10]
        discount = 1 / np.log2(np.arange(2, 12))
        ideal = -np.sort(-gain, axis=1)[:, :10] @ discount
        return float((np.take_along_axis(gain, best, axis=1) @ discount / ideal).mean())

    personal = ndcg(model.fit_transform(met) @ model.components_)
    popular = ndcg(np.broadcast_to(met.sum(axis=0), met.shape))
    chance = ndcg(np.random.default_rng(0).random(met.shape))
    assert personal > 1.5 * popular
    assert popular > 5 * chance


def test_ratings_say_what_users_like() -> None:
    # Two users of like taste agree more than a user and chance do: the spread of ratings is mostly not noise.
    data = load(factors=3, seed=2)
    by_item = np.bincount(data.item, data.rating) / np.maximum(data.item_counts, 1)
    assert np.corrcoef(by_item[data.item], data.rating)[0, 1] > 0.3
