"""The temporal split with periods: folds that roll on, windows, gaps, and data that they do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evalplugin.base.errors import DataError, ParameterError
from evalplugin.data import SPLITS, Interactions, Split, Temporal
from evalplugin.testing import check_split
from tests.data.test_splits import interactions, made, numbers, rng, times

DAY = 86_400
START = 1_577_836_800  # 2020-01-01T00:00:00Z


def daily(days: int, *, step: int = DAY) -> Interactions:
    """One interaction a day, the first at midnight of 2020-01-01; the rating is the number of the day."""
    return made([(day % 7, day, START + day * step) for day in range(days)])


def parts(folds: list[Split]) -> list[tuple[list[int], list[int]]]:
    return [(numbers(fold.train), numbers(fold.test)) for fold in folds]


def days(first: int, until: int) -> list[int]:
    return list(range(first, until))


def test_rolling_folds_end_with_the_last_interaction_and_leave_the_gap_out() -> None:
    # The end is one second behind day 29, so that the cuts are one second behind days 21, 23, 25 and 27.
    folds = Temporal(folds=4, every="2d", window="5d", gap="1d").split(daily(30), rng())
    assert [fold.fold for fold in folds] == [0, 1, 2, 3]
    assert parts(folds) == [
        (days(16, 21), [22, 23]),
        (days(18, 23), [24, 25]),
        (days(20, 25), [26, 27]),
        (days(22, 27), [28, 29]),
    ]
    assert folds[0].notes == (
        "train from 2020-01-16T00:00:01Z until 2020-01-21T00:00:01Z, test from 2020-01-22T00:00:01Z until "
        "2020-01-24T00:00:01Z",
        "23 interactions are in neither: 16 before the window, 1 in the gap, 6 after the test period",
    )


def test_folds_from_a_cutoff_on_begin_there_and_without_a_window_learn_from_all_before() -> None:
    folds = Temporal(cutoff="2020-01-11", folds=2, every="1w").split(daily(30), rng())
    assert parts(folds) == [(days(0, 10), days(10, 17)), (days(0, 17), days(17, 24))]
    assert folds[1].notes == (
        "train from 2020-01-01T00:00:00Z until 2020-01-18T00:00:00Z, test from 2020-01-18T00:00:00Z until "
        "2020-01-25T00:00:00Z",
        "6 interactions are in neither: 6 after the test period",
    )


def test_folds_from_a_quantile_on_begin_at_its_interaction() -> None:
    folds = Temporal(quantile=0.5, folds=2, every=3 * DAY).split(daily(20), rng())
    assert parts(folds) == [(days(0, 10), [10, 11, 12]), (days(0, 13), [13, 14, 15])]


def test_the_last_of_the_folds_from_a_cutoff_on_may_end_behind_the_data_which_is_noted() -> None:
    folds = Temporal(cutoff="2020-01-08", folds=2, every="2d").split(daily(10), rng())
    assert parts(folds)[1] == (days(0, 9), [9])
    assert (
        folds[1]
        .notes[0]
        .endswith(
            "test from 2020-01-10T00:00:00Z until 2020-01-12T00:00:00Z, the last interaction is at 2020-01-10T00:00:00Z"
        )
    )


def test_a_window_that_begins_before_the_data_is_noted() -> None:
    [fold] = Temporal(every="1d", window="90d").split(daily(10), rng())
    assert parts([fold]) == [(days(0, 9), [9])]
    assert "train from 2019-10-11T00:00:01Z (before the data) until" in fold.notes[0]


@pytest.mark.parametrize("extra", [{"window": "3d"}, {"gap": "2d"}, {"window": 3 * DAY, "gap": 2 * DAY}])
def test_one_cut_takes_a_window_and_a_gap_too(extra: dict[str, Any]) -> None:
    [fold] = Temporal(cutoff="2020-01-09", **extra).split(daily(10), rng())
    until = 6 if "gap" in extra else 8
    assert parts([fold]) == [(days(until - 3 if "window" in extra else 0, until), [8, 9])]


def test_numbers_are_in_the_unit_of_the_timestamps() -> None:
    milliseconds = made([(i % 3, i, (START + i) * 1000) for i in range(10)])
    folds = Temporal(folds=2, every=2000, window=3000, gap=1000).split(milliseconds, rng())
    assert parts(folds) == [([2, 3, 4], [6, 7]), ([4, 5, 6], [8, 9])]
    with pytest.raises(DataError, match="is '2s', and timestamps up to 1577836809000 are not in seconds"):
        Temporal(folds=2, every="2s").split(milliseconds, rng())


@given(
    data=interactions(),
    folds=st.integers(1, 4),
    every=st.integers(1, 3),
    window=st.none() | st.integers(1, 4),
    gap=st.integers(0, 2),
    cutoff=st.none() | st.integers(0, 7),
)
def test_periods_hold_what_they_say_and_test_periods_are_disjoint(data, folds, every, window, gap, cutoff):
    try:
        found = Temporal(cutoff=cutoff, folds=folds, every=every, window=window, gap=gap).split(data, rng())
    except DataError:
        assume(False)  # each such message has a test of its own
        return
    time, seen = times(data), set[int]()
    first = int(time.max()) + 1 - folds * every if cutoff is None else cutoff
    for number, fold in enumerate(found):
        cut = first + number * every
        assert numbers(fold.test) == np.flatnonzero((time >= cut) & (time < cut + every)).tolist()
        low = cut - gap - (window if window is not None else 100)
        assert numbers(fold.train) == np.flatnonzero((time >= low) & (time < cut - gap)).tolist()
        assert not seen & set(numbers(fold.test))
        seen |= set(numbers(fold.test))


@pytest.mark.parametrize(
    ("params", "parameter", "message"),
    [
        (
            {"folds": 6, "every": "5d", "gap": "1d"},
            "folds",
            "6 folds of 5d and a gap of 1d leave no train data: the interactions are from 2020-01-01T00:00:00Z to "
            "2020-01-30T00:00:00Z, 29d; 5 folds fit, or make every at most 403200s",
        ),
        ({"every": "40d"}, "every", "a test period of 40d leaves no train data"),
        ({"every": "1d", "gap": "40d"}, "every", "not even one fits"),
        (
            {"cutoff": "2020-01-21", "folds": 4, "every": "5d"},
            "folds",
            "4 folds of 5d from 2020-01-21T00:00:00Z on do not fit: the interactions are from 2020-01-01T00:00:00Z to "
            "2020-01-30T00:00:00Z, 29d; 2 folds fit",
        ),
        (
            {"cutoff": "2020-01-02", "gap": "1d"},
            "cutoff",
            "no interaction is before 2020-01-01T00:00:00Z, which is the cut 2020-01-02T00:00:00Z less the gap",
        ),
        ({"cutoff": "2019-01-02", "every": "1d"}, "cutoff", "no interaction is before the cut 2019-01-02"),
        ({"cutoff": "2021-01-02", "every": "1d"}, "cutoff", "no interaction is at or after the cut"),
        ({"every": "1d", "window": "1d", "gap": "20h"}, "window", ""),
    ],
)
def test_periods_that_do_not_fit_the_time_span_are_refused(params, parameter, message):
    data = daily(30) if message else made([(1, 1, START), (1, 2, START + 20 * DAY)])
    message = message or (
        "no interaction is in the window from 2020-01-18T04:00:01Z until 2020-01-19T04:00:01Z; the last one before it "
        "is at 2020-01-01T00:00:00Z, which a window of at least 1569601s reaches"
    )
    with pytest.raises(DataError) as caught:
        Temporal(**params).split(data, rng())
    assert message in str(caught.value)
    assert caught.value.parameter == parameter


def test_a_test_period_without_interactions_names_its_dates_and_the_next_interaction() -> None:
    data = made([(1, 1, START), (1, 2, START + 5 * DAY), (2, 1, START + 9 * DAY)])
    with pytest.raises(DataError) as caught:
        Temporal(folds=3, every="2d").split(data, rng())
    assert str(caught.value) == (
        "split temporal: fold 2 of 3: no interaction is in the test period from 2020-01-06T00:00:01Z until "
        "2020-01-08T00:00:01Z; the next one is at 2020-01-10T00:00:00Z; make every longer, or lower folds"
    )
    assert caught.value.parameter == "every"


def test_the_window_and_the_number_that_an_error_names_are_enough() -> None:
    data = made([(1, 1, START), (1, 2, START + 20 * DAY)])
    [fold] = Temporal(every="1d", window=1_569_601, gap="20h").split(data, rng())
    assert parts([fold]) == [([0], [1])]
    assert len(Temporal(folds=5, every="5d", gap="1d").split(daily(30), rng())) == 5
    assert len(Temporal(folds=6, every=403_200, gap="1d").split(daily(30), rng())) == 6


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"folds": 3}, "folds: 3 folds need every, the length of a test period, such as 7d"),
        ({"folds": 3, "quantile": 0.5}, "folds: 3 folds need every"),
        ({"folds": 0, "every": "7d"}, "folds: must be greater than or equal to 1"),
        ({"window": "7d"}, "temporal takes exactly one of cutoff and quantile, or every"),
        ({"every": "7d", "cutoff": 1, "quantile": 0.5}, "temporal takes exactly one of cutoff and quantile"),
        ({"every": "a week"}, "every: must be a time such as 7d, 12h or 2w, or a number of seconds, not 'a"),
        ({"every": "7"}, "every: must be a time such as 7d, 12h or 2w, or a number of seconds, not '7'"),
        ({"every": "0.5s"}, "every: must be whole seconds, not '0.5s'"),
        ({"every": 0}, "every: must be at least 1s, not 0"),
        ({"every": 1.5}, "every: must be"),
        ({"every": "1d", "window": "0d"}, "window: must be at least 1s, not '0d'"),
        ({"every": "1d", "gap": -1}, "gap: must not be negative, not -1"),
        ({"every": "1d", "gap": "-1d"}, "gap: must be a time such as 7d, 12h or 2w"),
    ],
)
def test_periods_that_contradict_are_refused_at_their_parameter(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SPLITS.create("temporal", params)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "params",
    [
        {"folds": 3, "every": 200},
        {"folds": 2, "every": 200, "window": 300, "gap": 50},
        {"cutoff": 600, "folds": 2, "every": 150, "cold": "drop"},
        {"quantile": 0.7, "every": 100, "window": 400},
    ],
)
def test_rolling_folds_keep_the_contract_of_splits(params: dict[str, Any]) -> None:
    check_split("temporal", **params)


def test_train_data_is_tuned_on_its_last_test_period() -> None:
    outer = Temporal(cutoff="2020-01-21", folds=2, every="2d", window="10d", gap="1d")
    inner = outer.of_train_data()
    assert inner == Temporal(every="2d", gap="1d")
    train = outer.split(daily(30), rng())[0].train
    assert numbers(train) == days(9, 19)
    [validation] = inner.split(train, rng())
    assert (validation.train.rating.tolist(), validation.test.rating.tolist()) == (
        [9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0],
        [17.0, 18.0],
    )
    assert Temporal(quantile=0.5).of_train_data() == Temporal(quantile=0.5)


def test_a_registered_model_learns_from_the_last_window() -> None:
    assert numbers(Temporal(every="1d", window="3d").newest(daily(10))) == [7, 8, 9]
    assert len(Temporal(every="1d").newest(daily(10))) == 10
