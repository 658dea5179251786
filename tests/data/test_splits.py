"""Laws of the splits, and what each says of data it cannot divide."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.data import (
    SPLITS,
    Holdout,
    Interactions,
    KFold,
    LastN,
    NewItems,
    NewUsers,
    NoSplit,
    SampleUsers,
    Split,
    Splitter,
    Temporal,
)
from evalplugin.testing import check_split

Row = tuple[int, int, int]


@st.composite
def interactions(draw: st.DrawFn) -> Interactions:
    """Up to 8 users and 10 items; times with many ties; the rating tells rows apart."""
    pairs = draw(
        st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), min_size=6, max_size=50, unique=True)
    )
    times = draw(st.lists(st.integers(0, 6), min_size=len(pairs), max_size=len(pairs)))
    return made([(user, item, time) for (user, item), time in zip(pairs, times, strict=True)])


def made(rows: list[Row]) -> Interactions:
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    frame["rating"] = np.arange(len(frame), dtype=float)
    return Interactions.from_frame(frame, rating="rating", timestamp="time")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def numbers(data: Interactions) -> list[int]:
    """The rows' places in the data they come from."""
    return data.rating.astype(int).tolist()


def times(data: Interactions) -> Any:
    assert data.timestamp is not None
    return data.timestamp


SPLITTERS: list[Splitter] = [
    Holdout(),
    Holdout(fraction=0.5, by="interactions"),
    KFold(k=3),
    LastN(n=1),
    LastN(n=2, min_train=2),
    Temporal(quantile=0.5),
    SampleUsers(n_users=1, n=1),
    SampleUsers(fraction=0.5, n=2, hold="random"),
]


@given(data=interactions())
def test_every_interaction_is_in_one_part_or_dropped_and_counted(data: Interactions) -> None:
    for splitter, cold in product(SPLITTERS, ("keep", "drop")):
        asked = replace(splitter, cold=cold)
        try:
            folds = asked.split(data, rng())
        except DataError:
            continue  # too little data for this split: every such message has its own test
        for fold in folds:
            train, test = set(numbers(fold.train)), set(numbers(fold.test))
            assert not train & test, asked
            dropped = set(range(len(data))) - train - test
            noted = [int(note.split()[1]) for note in fold.notes if note.startswith("dropped")]
            assert noted == ([len(dropped)] if dropped else []), asked
            assert cold == "drop" or not dropped, asked
            if cold == "drop":
                assert (fold.counts["cold_users"], fold.counts["cold_items"]) == (0, 0), asked
            assert numbers(fold.train) == sorted(train), asked
            assert numbers(fold.test) == sorted(test), asked


@pytest.mark.parametrize("splitter", SPLITTERS, ids=repr)
def test_the_same_generator_gives_the_same_split_whatever_numpys_global_state(splitter: Any) -> None:
    data = made([(user, item, item) for user in range(6) for item in range(6)])
    np.random.seed(1)  # noqa: NPY002
    first = splitter.split(data, rng(5))
    np.random.seed(2)  # noqa: NPY002
    again = splitter.split(data, rng(5))
    assert [numbers(fold.test) for fold in first] == [numbers(fold.test) for fold in again]


@given(data=interactions(), k=st.integers(2, 6))
def test_kfold_tests_every_interaction_once_in_folds_of_even_size(data: Interactions, k: int) -> None:
    folds = KFold(k=k).split(data, rng())
    assert [fold.fold for fold in folds] == list(range(k))
    assert Counter(n for fold in folds for n in numbers(fold.test)) == Counter(range(len(data)))
    sizes = [len(fold.test) for fold in folds]
    assert max(sizes) - min(sizes) <= 1


@given(data=interactions(), n=st.integers(1, 4), min_train=st.integers(1, 3))
def test_last_n_takes_each_users_latest_interactions(data: Interactions, n: int, min_train: int) -> None:
    expected: list[tuple[int, int]] = []
    for user in range(data.n_users):
        own = sorted(times(data)[data.user == user].tolist())
        if len(own) >= n + min_train:
            expected += [(user, time) for time in own[-n:]]
    if expected:
        [fold] = LastN(n=n, min_train=min_train).split(data, rng())
        held_out = zip(fold.test.user.tolist(), times(fold.test).tolist(), strict=True)
        assert sorted(held_out) == sorted(expected)


def pairs(data: Interactions) -> set[tuple[int, int]]:
    return set(zip(data.users[data.user].tolist(), data.items[data.item].tolist(), strict=True))


@given(data=interactions(), seed=st.integers(0, 9), shuffle=st.randoms(use_true_random=False))
def test_the_order_of_rows_decides_nothing(data: Interactions, seed: int, shuffle: Any) -> None:
    order = list(range(len(data)))
    shuffle.shuffle(order)
    other = data.select(np.array(order))
    further = (NewUsers(fraction=0.5, fold_in=0.5), NewUsers(n_users=1, fold_in="before_last_n", n=1))
    of_items = (NewItems(fraction=0.5), NewItems(n_items=1, hold="latest"))
    for splitter in (*SPLITTERS, LastN(n=3), SampleUsers(fraction=1.0, n=3), *further, *of_items):
        try:
            folds = splitter.split(data, rng(seed))
        except DataError:
            continue  # too little data for this split
        again = splitter.split(other, rng(seed))
        assert [pairs(fold.test) for fold in folds] == [pairs(fold.test) for fold in again], splitter
        assert [fold.notes for fold in folds] == [fold.notes for fold in again], splitter


def test_equal_times_at_the_cut_favour_no_item_over_seeds() -> None:
    data = made([(user, item, 7) for user in range(40) for item in range(10)])
    held_out = np.zeros(10)
    for seed in range(100):
        held_out += LastN(n=2).split(data, rng(seed))[0].test.item_counts
    assert held_out.sum() == 100 * 40 * 2
    assert np.abs(held_out / (100 * 40) - 0.2).max() < 4 * (0.2 * 0.8 / 4000) ** 0.5


def test_users_with_equal_times_on_both_sides_of_the_cut_are_noted() -> None:
    rows = [(1, 1, 1), (1, 2, 2), (1, 3, 2), (2, 1, 1), (2, 2, 2), (2, 3, 3), (3, 1, 9), (3, 2, 9)]
    note = "1 of 2 tested users have equal times on both sides of the cut: which of these interactions are held out is "
    for splitter in (LastN(n=1, min_train=2), SampleUsers(n_users=2, n=1, min_train=2)):
        [fold] = splitter.split(made(rows), rng())
        assert fold.notes[-1] == f"{note}drawn by the seed"
    [fold] = SampleUsers(n_users=2, n=1, min_train=2, hold="random").split(made(rows), rng())
    assert "equal times" not in " ".join(fold.notes)


@given(data=interactions(), quantile=st.floats(0.05, 0.95))
def test_temporal_has_no_train_interaction_at_or_after_the_first_test_one(data, quantile):
    if int(quantile * len(data)) == 0 or times(data).min() == np.sort(times(data))[int(quantile * len(data))]:
        with pytest.raises(DataError, match="no interaction is before the cut"):
            Temporal(quantile=quantile).split(data, rng())
        return
    [fold] = Temporal(quantile=quantile).split(data, rng())
    assert times(fold.train).max() < times(fold.test).min()
    assert len(fold.train) <= quantile * len(data)


@given(data=interactions(), fraction=st.floats(0.05, 0.95))
def test_holdout_by_user_rounds_each_users_share_and_leaves_one_in_train(data, fraction):
    counts = data.rows.counts
    expected = [min(int(fraction * c + 0.5), int(c) - 1) for c in counts]
    if sum(expected):
        [fold] = Holdout(fraction=fraction).split(data, rng())
        assert fold.test.rows.counts.tolist() == expected
        untested = expected.count(0)
        note = (f"{untested} users have too few interactions for one to be held out",)
        assert fold.notes == (note if untested else ())


def test_holdout_over_all_interactions_takes_the_fraction_of_them() -> None:
    data = made([(user, item, 0) for user in range(5) for item in range(5)])
    [fold] = Holdout(fraction=0.3, by="interactions").split(data, rng())
    assert len(fold.test) == int(0.3 * 25 + 0.5)


def test_holdout_draws_every_interaction_equally_often() -> None:
    data = made([(user, item, 0) for user in range(2) for item in range(5)])
    generator, drawn = rng(3), np.zeros(10)
    for _ in range(1000):
        [fold] = Holdout(fraction=0.4).split(data, generator)
        drawn[numbers(fold.test)] += 1
    # Four standard deviations of a binomial with 1000 trials of chance 0.4.
    assert np.abs(drawn / 1000 - 0.4).max() < 4 * (0.4 * 0.6 / 1000) ** 0.5


@given(data=interactions(), n=st.integers(1, 3), hold=st.sampled_from(["last", "random"]))
def test_sample_users_tests_the_drawn_users_alone_and_keeps_the_rest_in_train(data, n, hold):
    eligible = np.flatnonzero(data.rows.counts >= n + 1)
    if len(eligible):
        [fold] = SampleUsers(n_users=1, n=n, hold=hold).split(data, rng())
        [user] = set(fold.test.user.tolist())
        assert user in eligible
        assert len(fold.test) == n
        assert len(fold.train) == len(data) - n
        if hold == "last":
            own = times(data)[data.user == user]
            assert sorted(times(fold.test).tolist()) == sorted(own.tolist())[-n:]


def test_sample_users_takes_a_fraction_of_those_who_have_enough() -> None:
    data = made([(user, item, item) for user in range(10) for item in range(2 if user < 4 else 6)])
    [fold] = SampleUsers(fraction=0.5, n=3).split(data, rng())
    assert fold.counts["test_users"] == 3
    assert fold.notes == ("4 users with fewer than 4 interactions are not tested",)


def test_no_split_trains_and_tests_on_everything() -> None:
    data = made([(1, 1, 0), (2, 1, 0)])
    [fold] = NoSplit().split(data, rng())
    assert fold.train is data
    assert fold.test is data
    assert fold.overlap_allowed


def test_users_with_too_few_interactions_stay_in_train_and_are_noted() -> None:
    data = made([(1, 1, 1), (1, 2, 2), (1, 3, 3), (2, 1, 1), (2, 2, 2)])
    [fold] = LastN(n=2).split(data, rng())
    assert numbers(fold.test) == [1, 2]
    assert fold.notes == ("1 users with fewer than 3 interactions are not tested",)


def test_cold_users_and_items_are_counted_and_dropped_on_demand() -> None:
    # After the cut: a known pair's user with a new item, a new user with a known item, and one of each known.
    data = made([(1, 1, 0), (2, 2, 0), (1, 9, 5), (7, 1, 5), (2, 1, 5), (1, 2, 5)])
    [kept] = Temporal(cutoff=5).split(data, rng())
    assert kept.counts == {
        "train_interactions": 2,
        "test_interactions": 4,
        "test_users": 3,
        "cold_users": 1,
        "cold_items": 1,
        "test_interactions_on_cold_items": 1,
    }
    [dropped] = Temporal(cutoff=5, cold="drop").split(data, rng())
    assert numbers(dropped.test) == [4, 5]
    assert dropped.notes[-1] == "dropped 2 test interactions of users or items without train interactions"


SMALL = made([(1, 1, 1), (1, 2, 2), (2, 1, 3)])
TIMELESS = replace(SMALL, timestamp=None)


@pytest.mark.parametrize(
    ("splitter", "data", "message"),
    [
        (KFold(k=5), SMALL, "split kfold: 3 interactions cannot make 5 folds; lower k"),
        (LastN(), TIMELESS, "split last_n needs timestamps, and the data has none: name its timestamp"),
        (Temporal(cutoff=1), TIMELESS, "split temporal needs timestamps"),
        (SampleUsers(n_users=1, n=1), TIMELESS, "split sample_users needs timestamps"),
        (LastN(n=2), SMALL, "no user has the 3 interactions that are needed (n + min_train); the most"),
        (SampleUsers(n_users=2, n=1), SMALL, "n_users is 2, but only 1 users have at least 2 interactions"),
        (Temporal(cutoff=1), SMALL, "no interaction is before the cut 1; timestamps are from 1 to 3"),
        (Temporal(cutoff=4), SMALL, "no interaction is at or after the cut 4; timestamps are from 1 to 3"),
        (Holdout(fraction=0.1), SMALL, "fold 1 of the split has no test interactions"),
        (Temporal(cutoff=3, cold="drop"), SMALL, "fold 1 of the split has no test interactions"),
    ],
)
def test_data_that_cannot_be_divided_is_a_clear_error(splitter, data, message):
    with pytest.raises(DataError) as caught:
        splitter.split(data, rng())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("temporal", {}, "temporal takes exactly one of cutoff and quantile"),
        ("temporal", {"cutoff": 1, "quantile": 0.5}, "temporal takes exactly one of cutoff and quantile"),
        ("temporal", {"cutoff": "yesterday"}, "cutoff must be a timestamp or an ISO 8601 date such as"),
        ("temporal", {"quantile": 1.0}, "less than 1"),
        ("sample_users", {}, "sample_users takes exactly one of n_users and fraction"),
        ("last_n", {"n": 0}, "greater than or equal to 1"),
        ("holdout", {"fraction": 0}, "greater than 0"),
        ("holdout", {"by": "item"}, "must be 'user' or 'interactions'"),
        ("kfold", {"folds": 3}, "unknown parameter 'folds' of kfold"),
    ],
)
def test_parameters_that_make_no_split_are_refused(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SPLITS.create(name, params)
    assert message in str(caught.value)


def test_a_split_refuses_a_pair_in_both_parts() -> None:
    with pytest.raises(DataError, match="are in both train and test data, the first is user 2 with item 1"):
        Split(SMALL, SMALL.select(np.array([False, False, True])))


def test_a_split_refuses_parts_of_different_vocabularies() -> None:
    with pytest.raises(DataError, match="train and test data differ in their users"):
        Split(SMALL, made([(5, 1, 0), (6, 2, 0)]))
    with pytest.raises(DataError, match="train and test data differ in their items"):
        Split(SMALL, made([(1, 7, 0), (2, 8, 0)]))


def test_a_split_compares_vocabularies_by_their_values() -> None:
    copied = replace(SMALL, users=SMALL.users.copy(), items=SMALL.items.copy()).select(
        np.array([False, False, True])
    )
    assert len(Split(SMALL.select(np.array([True, True, False])), copied).test) == 1


@pytest.mark.parametrize("name", SPLITS.names())
def test_every_registered_split_keeps_the_contract(name: str) -> None:
    params = {
        "new_items": {"n_items": 5},
        "next_item": {"test": "n_sessions", "n_sessions": 20},
        "new_users": {"n_users": 20, "fold_in": 0.5},
        "sample_users": {"n_users": 20},
        "temporal": {"quantile": 0.8},
    }.get(name, {})
    check_split(name, **params)


@dataclass
class Broken:
    """A split that breaks one rule."""

    rule: str

    def split(self, data: Interactions, rng: np.random.Generator) -> list[Split]:
        """Return folds as the rule says."""
        held_out = np.arange(len(data)) % 3 == 0
        if self.rule == "global state":
            held_out = np.random.random(len(data)) < 0.5  # noqa: NPY002
        if self.rule == "no fold":
            return []
        if self.rule == "lost":
            return [Split(data.select(np.arange(len(data)) % 3 == 1), data.select(held_out))]
        if self.rule == "ratings":
            data = replace(data, rating=data.rating[::-1])
        return [Split(data.select(~held_out), data.select(held_out), fold=int(self.rule == "numbers"))]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("global state", "the same generator must give the same folds"),
        ("no fold", "a split must have a fold"),
        ("lost", "are in neither part, and no note says so"),
        ("ratings", "must belong together as in the data|must be in the order of the data"),
        ("numbers", "folds must be numbered from 0"),
    ],
)
def test_the_contract_names_the_rule_that_is_broken(rule: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_split(Broken, rule=rule)
