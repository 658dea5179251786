"""The parts of rules that the seeded defects do not have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from samples import small_config

from evalplugin.checks.base import Results, of_data, of_results
from evalplugin.comparison.comparison import compare
from evalplugin.comparison.contest import contests_of
from evalplugin.config import load
from evalplugin.data import Interactions, Split
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import BakeoffResult
from evalplugin.execution.runner import PreparedData, prepare
from tests.samples import bakeoff, model_result


def prepared(frame: pd.DataFrame, *, held_out: Any = None, **config: Any) -> tuple[Any, PreparedData]:
    """Return a config and the data of a table, of which some rows are held out."""
    checked = load(small_config(**config))
    (made,) = prepare(checked, None, Observer())
    data = Interactions.from_frame(frame, user="user", item="item", rating="rating", timestamp="time")
    test = np.arange(len(data)) % 5 == 0 if held_out is None else np.asarray(held_out)
    fold = Split(data.select(~test), data.select(test))
    info = made.info.__class__(**{**made.info.__dict__, "full": data, "train": fold.train, "test": fold.test})
    return checked, PreparedData(info, (fold,), made.candidates)


def table(counts: list[int], *, ratings: Any = None, n_items: int = 400) -> pd.DataFrame:
    """Return users with some numbers of random items."""
    rng = np.random.default_rng(0)
    item = np.concatenate([rng.choice(n_items, count, replace=False) for count in counts])
    user = np.repeat(np.arange(len(counts)), counts)
    rating = rng.integers(1, 6, len(user)) if ratings is None else ratings(user)
    return pd.DataFrame({"user": user, "item": item, "rating": rating, "time": rng.permutation(len(user))})


def texts(code: str, frame: pd.DataFrame, **changes: Any) -> list[str]:
    return [found.text for found in of_data[code].find(*prepared(frame, **changes))]


def test_bots_are_found_by_their_share_and_named() -> None:
    assert texts("EV110", table([4] * 100 + [300])) == [
        "1 of 101 users, with more than 50 times the median of 4 interactions, have 43 % of all; the most, 300, has "
        "user 100: look whether they are people"
    ]
    assert texts("EV110", table([4] * 100 + [150])) == []  # active, and no machine


def test_constant_raters_are_found_in_explicit_ratings_alone() -> None:
    def mostly_constant(user: Any) -> Any:
        return np.where(user % 4 == 0, 5, np.random.default_rng(0).integers(1, 6, len(user)))

    (found,) = texts("EV110", table([12] * 40, ratings=mostly_constant))
    assert found.startswith("10 of 40 users with 10 or more ratings (25 %) give the same to every item")
    assert (
        texts("EV110", table([12] * 40, ratings=lambda user: user % 2)) == []
    )  # 0 and 1: no explicit ratings


def test_times_that_are_no_dates_have_no_days() -> None:
    frame = table([10] * 30)
    assert texts("EV109", frame) == []
    days = pd.Series(np.arange(len(frame)) % 5 == 0)
    frame["time"] = np.where(days, 1_760_000_000, 1_750_000_000 + 86_400 * (np.arange(len(frame)) % 30))
    (found,) = texts("EV109", frame)
    assert "100 % of the test interactions are of one day, 2025-10-09" in found


def test_train_data_later_than_the_own_test_is_told_apart() -> None:
    frame = table([10] * 30).assign(time=1_750_000_000)
    assert texts("EV101", frame) == []  # all at once: nothing is later
    frame["time"] = np.arange(300)
    (found,) = texts("EV101", frame)
    assert "and 100 % of the test users have some of their own" in found


def test_a_large_sample_of_candidates_is_no_finding() -> None:
    few = {"candidates": "sampled", "negatives": 20}
    assert len(texts("EV107", table([10] * 30), recommend=few)) == 1
    assert texts("EV107", table([10] * 30, n_items=30), recommend=few) == []


def lists_of(scores: list[float], *, users: int = 60, short: int = 0) -> pa.Table:
    """Return the same list for every user, the first ``short`` of them with one item less."""
    lengths = [len(scores) - (user < short) for user in range(users)]
    return pa.table(
        {
            "user": np.repeat(np.arange(1, users + 1), lengths),
            "item": np.concatenate([np.arange(length) for length in lengths]),
            "rank": np.concatenate([np.arange(1, length + 1, dtype=np.int32) for length in lengths]),
            "score": np.concatenate([np.array(scores[:length]) for length in lengths]),
        }
    )


@pytest.mark.parametrize(
    ("scores", "type", "found"),
    [
        (np.arange(12, 0, -1), "ease", None),
        ([3.0] * 12, "ease", "the same score on the places 10 and 11"),
        ([3.0] * 12, "popularity", None),
        (np.arange(9, 0, -1), "ease", "57 of 60 lists (95 %) are shorter than 10"),
    ],
)
def test_ties_at_the_cutoff_and_short_lists(scores: Any, type: str, found: str | None) -> None:
    checked = load(small_config())
    (data,) = prepare(checked, None, Observer())
    result = model_result("mine", type=type, top_n=lists_of([float(score) for score in scores]))
    comparison = compare(contests_of(BakeoffResult(bakeoff(), (result,)))[0])
    texts = [one.text for one in of_results["EV106"].find(Results(checked, data, [result], comparison))]
    assert len(texts) == (found is not None)
    assert found is None or found in texts[0]
