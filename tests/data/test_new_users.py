"""Splits whose test users or test items are not in the train data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.data import SPLITS, Candidates, Interactions, NewItems, NewUsers, Split


def made(n_users: int = 40, n_items: int = 30, seed: int = 1) -> Interactions:
    """Users with 1 to 20 interactions; ratings number the rows."""
    rng = np.random.default_rng(seed)
    counts = np.r_[1, rng.integers(3, 21, n_users - 1)]
    item = np.concatenate([rng.permutation(n_items)[:count] for count in counts])
    frame = pd.DataFrame({"user": np.repeat(np.arange(n_users), counts) + 100, "item": item + 1000})
    frame = frame.assign(rating=np.arange(len(frame), dtype=float), time=rng.integers(0, 1000, len(frame)))
    return Interactions.from_frame(frame, rating="rating", timestamp="time")


DATA = made()


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def of(split: Any, data: Interactions = DATA, seed: int = 0) -> Split:
    [fold] = split.split(data, rng(seed))
    return fold


def history(fold: Split) -> Interactions:
    assert fold.history is not None
    return fold.history


def test_test_users_have_a_history_and_a_truth_and_no_train_data():
    fold = of(NewUsers(n_users=10, fold_in=0.75))
    train, told, truth = (set(np.unique(p.user)) for p in (fold.train, history(fold), fold.test))
    assert len(truth) == 10
    assert told == truth
    assert not train & truth
    rows = np.concatenate([p.rating for p in (fold.train, history(fold), fold.test)])
    np.testing.assert_array_equal(np.sort(rows), np.arange(len(DATA)))
    for user in truth:
        count = int(DATA.rows.counts[user])
        expected = max(1, int(0.25 * count + 0.5))  # halves up: 0.25 is exact
        assert fold.test.rows.counts[user] == expected
    assert fold.counts["cold_users"] == 0
    assert f"{len(history(fold))} of their interactions are their histories" in fold.notes[-1]


@pytest.mark.parametrize(
    ("share", "count", "truth"), [(0.8, 5, 1), (0.9, 5, 1), (0.9, 14, 1), (0.9, 15, 2), (0.5, 3, 2)]
)
def test_the_truth_is_rounded_halves_up(share, count, truth):
    frame = pd.DataFrame([(u, i) for u in range(6) for i in range(count)], columns=["user", "item"])
    fold = of(NewUsers(n_users=2, fold_in=share), Interactions.from_frame(frame))
    assert set(fold.test.rows.counts[np.unique(fold.test.user)]) == {truth}


def test_the_latest_interactions_are_the_truth_by_time():
    fold = of(NewUsers(fraction=0.3, fold_in="before_last_n", n=2))
    told = history(fold)
    users = np.unique(fold.test.user)
    np.testing.assert_array_equal(fold.test.rows.counts[users], 2)
    for user in users:
        assert told.timestamp[told.user == user].max() <= fold.test.timestamp[fold.test.user == user].min()


def test_equal_times_are_ordered_as_by_last_n():
    flat = replace(DATA, timestamp=np.zeros(len(DATA), dtype=np.int64))
    fold = of(NewUsers(n_users=10, fold_in="before_last_n", n=2), flat)
    assert "10 of 10 tested users have equal times on both sides of the cut" in " ".join(fold.notes)
    [all_users] = SPLITS.create("last_n", {"n": 2}).split(flat, rng())
    ours = set(fold.test.rating.tolist())
    assert ours <= set(all_users.test.rating.tolist())


def test_users_are_drawn_by_the_seed_alone():
    first, again, other = (of(NewUsers(n_users=10), seed=seed) for seed in (1, 1, 2))
    assert (first.test.digest, history(first).digest) == (again.test.digest, history(again).digest)
    assert set(first.test.user.tolist()) != set(other.test.user.tolist())


def test_users_with_one_interaction_stay_in_train():
    fold = of(NewUsers(n_users=39))
    assert 0 in fold.train.user
    assert "1 users with fewer than 2 interactions are not tested" in fold.notes


def test_test_interactions_with_items_without_train_data_are_counted_and_dropped():
    frame = pd.DataFrame(
        [(u, i) for u in range(4) for i in range(4)] + [(3, 9)] * 1, columns=["user", "item"]
    )
    data = Interactions.from_frame(frame)
    seeds = [s for s in range(40) if 4 in of(NewUsers(n_users=1, fold_in=0.5), data, s).test.item]
    kept = of(NewUsers(n_users=1, fold_in=0.5), data, seeds[0])
    dropped = of(NewUsers(n_users=1, fold_in=0.5, cold="drop"), data, seeds[0])
    assert kept.notes[-1] == "1 test interactions with items without train data are kept in the truth"
    assert dropped.notes[-1] == "1 test interactions with items without train data are dropped"
    assert len(dropped.test) == len(kept.test) - 1


@pytest.mark.parametrize(
    ("splitter", "message", "parameter"),
    [
        (NewUsers(n_users=40), "n_users is 40, but only 39 users have at least 2 interactions", "n_users"),
        (NewUsers(n_users=40), "lower n_users, or set fraction instead", "n_users"),
        (NewUsers(n_users=5, fold_in="before_last_n", n=30), "no user has the 31 interactions that", None),
    ],
)
def test_data_with_too_few_users_is_an_error(splitter, message, parameter):
    with pytest.raises(DataError, match=message) as caught:
        splitter.split(DATA, rng())
    assert caught.value.parameter == parameter


def test_somebody_must_be_left_to_learn_from():
    data = DATA.restrict(DATA.user > 0)
    with pytest.raises(DataError, match="all 39 users are test users, so that nobody is left to learn from"):
        NewUsers(n_users=39).split(data, rng())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_users": 5, "fold_in": 0}, "must be a share above 0 and below 1, or before_last_n, not 0"),
        ({"n_users": 5, "fold_in": 1.0}, "must be a share above 0 and below 1, or before_last_n, not 1"),
        ({"n_users": 5, "fold_in": "before_last_n"}, "fold_in: before_last_n needs n"),
        ({"n_users": 5, "n": 2}, "goes with fold_in: before_last_n, not with a share"),
        ({}, "new_users takes exactly one of n_users and fraction"),
        ({"n_users": 5, "fraction": 0.1}, "new_users takes exactly one of n_users and fraction"),
        ({"fraction": 1.0}, "fraction"),
        ({"n_users": 5, "fold_in": "last"}, "fold_in"),
    ],
)
def test_wrong_parameters_are_refused(params, message):
    with pytest.raises(ParameterError) as caught:
        SPLITS.create("new_users", params)
    assert message in str(caught.value)


def test_a_history_that_tells_the_truth_is_a_leak():
    fold = of(NewUsers(n_users=10))
    told = history(fold)
    leak = replace(told, user=np.r_[told.user, fold.test.user[:1]], item=np.r_[told.item, fold.test.item[:1]],
                   rating=np.r_[told.rating, fold.test.rating[:1]], timestamp=None)  # fmt: skip
    with pytest.raises(DataError, match="1 pairs are in both history and test data"):
        replace(fold, train=replace(fold.train, timestamp=None), history=leak)


def test_lists_leave_out_the_items_of_the_history():
    fold = of(NewUsers(n_users=10))
    excluded = Candidates.of("unseen", fold, rng()).excluded
    for user in np.unique(fold.test.user):
        np.testing.assert_array_equal(excluded[user], np.sort(history(fold).item[history(fold).user == user]))


def test_all_interactions_of_new_items_are_the_truth():
    fold = of(NewItems(fraction=0.2))
    new = set(fold.test.item.tolist())
    assert len(new) == 6
    assert not new & set(fold.train.item.tolist())
    assert len(fold.train) + len(fold.test) == len(DATA)
    first = ", ".join(map(str, DATA.items[np.unique(fold.test.item)][:5].tolist()))
    assert fold.notes == (
        f"6 of 30 items are new ({first}, ...): their {len(fold.test)} interactions are the truth",
    )
    few = of(NewItems(n_items=2))
    assert f"({', '.join(map(str, DATA.items[np.unique(few.test.item)].tolist()))}): " in few.notes[0]
    assert fold.counts["cold_items"] == 6


def test_the_latest_items_are_those_whose_first_interaction_is_latest():
    fold = of(NewItems(n_items=4, hold="latest"))
    first = pd.Series(DATA.timestamp).groupby(DATA.item).min()
    new = first.index.isin(np.unique(fold.test.item))
    assert first[new].min() >= first[~new].max()
    assert new.sum() == 4


@pytest.mark.parametrize("kind", ["unseen", "all"])
def test_lists_are_of_new_items_alone_or_of_the_catalogue(kind):
    fold = of(NewItems(n_items=4))
    candidates = Candidates.of(kind, fold, rng())
    assert candidates.kind == "offered"
    new = np.unique(fold.test.item)
    for user in np.unique(fold.test.user):
        np.testing.assert_array_equal(candidates.included[user], new)
    everything = of(NewItems(n_items=4, candidates="catalogue"))
    assert Candidates.of(kind, everything, rng()).included is None
    judged = Candidates.of("judged", fold, rng()).included
    np.testing.assert_array_equal(judged.item, fold.test.rows.item)


def test_offered_items_leave_out_what_is_known_of_the_user():
    fold = of(NewUsers(n_users=10))
    some = replace(fold, offered=np.ones(DATA.n_items, dtype=np.bool_))
    included = Candidates.of("unseen", some, rng()).included
    for user in np.unique(fold.test.user):
        known = history(fold).item[history(fold).user == user]
        np.testing.assert_array_equal(included[user], np.setdiff1d(np.arange(DATA.n_items), known))


def test_negatives_from_the_whole_catalogue_do_not_go_with_new_items():
    with pytest.raises(DataError, match="sampled draws from the whole catalogue"):
        Candidates.of("sampled", of(NewItems(n_items=4)), rng())


def test_a_truth_that_is_not_offered_is_an_error():
    fold = of(NewItems(n_items=4))
    with pytest.raises(DataError, match="the truth has items that are not offered"):
        replace(fold, offered=np.zeros(DATA.n_items, dtype=np.bool_))


@pytest.mark.parametrize("params", [{"n_items": 30}, {"n_items": 31}, {"fraction": 0.99}])
def test_too_many_new_items_are_an_error(params):
    with pytest.raises(DataError, match="of 30 items with interactions leaves no train data"):
        NewItems(**params).split(DATA, rng())


def test_new_items_take_a_number_or_a_share():
    with pytest.raises(ParameterError, match="new_items takes exactly one of n_items and fraction"):
        SPLITS.create("new_items", {})
