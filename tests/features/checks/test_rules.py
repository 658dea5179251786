"""The parts of rules that the seeded defects do not have."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from samples import bakeoff, model_result, small_config

from evalplugin.base.arrays import NO_ITEM
from evalplugin.comparison.comparison import compare
from evalplugin.data import Interactions, Split
from evalplugin.data.temporal import Temporal
from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import FoldLists, ModelResult
from evalplugin.execution.runner import PreparedData, jobs_of, prepare, results_of
from evalplugin.features.checks.base import SplitResults
from evalplugin.features.checks.catalogue import CHECKS
from evalplugin.features.config import load
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.models import TopN
from evalplugin.report.competition import competitions_of
from evalplugin.segments import Segmentation


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
    return [found.text for found in CHECKS[code].find(*prepared(frame, **changes))]


def results_of_models(
    checked: Any, data: PreparedData, results: list[ModelResult], segments: Any = ()
) -> SplitResults:
    """Return the results of models and how they compare, as checks of results get them."""
    (contest,) = competitions_of(bakeoff(tuple(r.model for r in results)), tuple(results))
    return SplitResults(checked, data, results, compare(replace(contest, segments=tuple(segments))))


def one_metric(name: str, column: Any) -> ModelResult:
    """Return a model with values of ndcg@10 for users 0, 1, 2 ..."""
    scores = PerUserScores(Units(np.arange(len(column))), column[:, None], ("ndcg@10",))
    return model_result(name, scores=scores)


def test_bots_are_found_by_their_share_and_named() -> None:
    assert texts("EV110", table([4] * 100 + [300])) == [
        "1 of 101 users, with more than 50 times the median of 4 interactions, have 43 % of all; the most, 300, has "
        "user 100: look whether they are people"
    ]
    assert texts("EV110", table([4] * 100 + [150])) == []  # active, and no machine


def with_copies(frame: pd.DataFrame, n: int, **changes: Any) -> pd.DataFrame:
    """Return a table with users 0 to n - 1 once more, as users from 1000 on, and their columns changed by functions."""
    copied = frame[frame["user"] < n]
    copied = copied.assign(user=copied["user"] + 1000, **{key: of(copied) for key, of in changes.items()})
    return pd.concat([frame, copied], ignore_index=True)


def other_ratings(frame: pd.DataFrame) -> Any:
    return np.random.default_rng(9).integers(1, 6, len(frame))


def test_copies_are_told_by_items_and_ratings_or_else_times() -> None:
    frame = table([12] * 100)
    copies = "4 of 104 users (4 %) are copies of another one, with the same 10 or more items and "
    assert texts("EV110", with_copies(frame, 4)) == [f"{copies}ratings: look at some, and keep one of each"]
    later = with_copies(frame, 4, time=lambda copied: copied["time"] + 10**6)
    assert texts("EV110", later) == [f"{copies}ratings: look at some, and keep one of each"]
    assert texts("EV110", with_copies(frame, 20, rating=other_ratings)) == []
    implicit = frame.assign(rating=1.0)
    assert texts("EV110", with_copies(implicit, 4)) == [f"{copies}times: look at some, and keep one of each"]
    (found,) = texts("EV110", with_copies(implicit.assign(time=0), 4))
    assert "4 of 104 users (4 %) have exactly the 10 or more items of another one, and the data" in found


def test_users_of_the_whole_catalogue_are_found() -> None:
    frame = table([30] * 200 + [400] * 5)
    assert texts("EV110", frame) == [
        "5 of 205 users have all or nearly all of the 400 items (360 or more), and so 25 % of all interactions, where "
        "the median user has 30: look whether they are people, and no crawlers, imports or test accounts"
    ]
    assert texts("EV110", table([300] * 60)) == []  # dense data: everyone has most of the items


def test_constant_raters_are_found_in_explicit_ratings_alone() -> None:
    def mostly_constant(user: Any) -> Any:
        return np.where(user % 4 == 0, 5, np.random.default_rng(0).integers(1, 6, len(user)))

    (found,) = texts("EV110", table([12] * 40, ratings=mostly_constant))
    assert found.startswith("10 of 40 users with 10 or more ratings (25 %) give the same to every item")
    zeros_and_ones = table([12] * 40, ratings=lambda user: user % 2)  # no explicit ratings
    assert texts("EV110", zeros_and_ones) == []


def test_times_that_are_no_dates_have_no_days() -> None:
    frame = table([10] * 30)
    assert texts("EV109", frame) == []
    days = pd.Series(np.arange(len(frame)) % 5 == 0)
    frame["time"] = np.where(days, 1_760_000_000, 1_750_000_000 + 86_400 * (np.arange(len(frame)) % 30))
    (found,) = texts("EV109", frame)
    assert "100 % of the test interactions are of one day, 2025-10-09" in found


@pytest.mark.parametrize(
    ("split", "advice"),
    [
        ({"type": "last_n", "n": 4}, "test a whole week: split: {type: temporal, cutoff: 2025-10-03}"),
        ({"type": "kfold", "k": 3}, "test a whole week: split: {type: temporal, cutoff: 2025-10-03}"),
        ({"type": "temporal", "quantile": 0.8}, "test a whole week, by an earlier cutoff or a lower"),
    ],
)
def test_the_advice_on_a_test_of_one_day_fits_the_split(split: dict[str, Any], advice: str) -> None:
    frame = table([10] * 30)
    in_test = np.arange(len(frame)) % 5 == 0
    frame["time"] = np.where(in_test, 1_760_000_000, 1_750_000_000 + 86_400 * (np.arange(len(frame)) % 30))
    (found,) = texts("EV109", frame, split=split)
    assert advice in found
    frame["time"] = np.where(in_test, 1_760_000_000, 1_760_000_000 - 86_400)  # no week to test
    (found,) = texts("EV109", frame, split=split)
    assert "cutoff: 20" not in found


def test_too_few_users_are_not_found_after_a_promotion() -> None:
    rng = np.random.default_rng(0)
    base = rng.random(30)
    values = {"random": base, "popularity": base + rng.normal(0.1, 0.2, 30)}
    checked, data = prepared(table([5] * 30), gate={"champion": "random", "min_gain": 0.001})
    decided = results_of_models(checked, data, [one_metric(*item) for item in values.items()])
    (found,) = CHECKS["EV108"].find(decided)
    assert "30 users are too few to find a true gain below" in found.text
    assert list(CHECKS["EV108"].find(replace(decided, promoted=True))) == []


def test_train_data_later_than_the_own_test_is_told_apart() -> None:
    frame = table([10] * 30).assign(time=1_750_000_000)
    assert texts("EV101", frame) == []  # all at once: nothing is later
    frame["time"] = np.arange(300)
    (found,) = texts("EV101", frame)
    assert "and 100 % of the test users have some of their own" in found


def within_a_second() -> pd.DataFrame:
    """Return 30 users with ten events 0.1 s apart, each user in a second of its own."""
    frame = table([10] * 30)
    milliseconds = 1000 * (1_750_000_000 + frame["user"]) + 100 * np.tile(np.arange(10), 30)
    return frame.assign(time=milliseconds.to_numpy().astype("M8[ms]"))


def test_train_data_later_within_a_second_is_from_the_future() -> None:
    frame = within_a_second()
    first, last = (np.tile(np.arange(10), 30) == place for place in (0, 9))
    assert "and 100 % of the test users have some of their own" in texts("EV101", frame, held_out=first)[0]
    assert "have some of their own" not in texts("EV101", frame, held_out=last)[0]
    _, data = prepared(frame)
    [cut] = Temporal(cutoff="2025-06-15T15:06:45.5").split(data.info.full, np.random.default_rng(0))
    later = np.isin(data.info.full.pairs(), cut.test.pairs())
    assert texts("EV101", frame.sort_values(["user", "item"]), held_out=later) == []


def test_events_of_a_second_are_no_equal_times() -> None:
    frame = within_a_second()
    last = np.tile(np.arange(10), 30) == 9
    assert texts("EV118", frame, held_out=last) == []
    frame["time"] = frame["time"].astype("M8[s]")
    (found,) = texts("EV118", frame, held_out=last)
    assert found.startswith("split last_n: 100 % of the test users (30 of 30)")


def test_copies_within_a_second_are_told_by_their_times() -> None:
    frame = within_a_second().assign(rating=1.0)
    [copies] = texts("EV110", with_copies(frame, 4))
    assert copies.startswith(
        "4 of 34 users (12 %) are copies of another one, with the same 10 or more items and times"
    )
    later = with_copies(frame, 4, time=lambda copied: copied["time"] + pd.Timedelta("50ms"))
    assert texts("EV110", later) == []


def test_the_remedy_for_the_future_says_whom_it_would_leave() -> None:
    """Every user is active for a short time, so that few of the last tenth have been there before."""
    frame = table([10] * 30)
    frame["time"] = frame["user"] * 7 + np.tile(np.arange(10), 30)
    (found,) = texts("EV101", frame)
    data = Interactions.from_frame(frame, rating="rating", timestamp="time")
    (split,) = Temporal(quantile=0.9).split(data, np.random.default_rng(0))
    left, cold = split.counts["test_users"], split.counts["cold_users"]
    assert 0 < cold < left
    assert found.endswith(
        f"split: {{type: temporal, quantile: 0.9}} does not, and leaves {left} of 30 users for the test, {cold} of "
        f"them without history"
    )
    frame["time"] = np.where(frame.index == 0, 2, 1)  # the cut would be before all interactions
    (found,) = texts("EV101", frame, held_out=[False, True] * 150)
    assert found.endswith("models learn from the future; times are too alike to split by time")


def test_a_large_sample_of_candidates_is_no_finding() -> None:
    few = {"candidates": "sampled", "negatives": 20}
    assert len(texts("EV107", table([10] * 30), recommend=few)) == 1
    assert texts("EV107", table([10] * 30, n_items=30), recommend=few) == []


def lists_of(scores: Any, data: PreparedData, *, reverse: bool = False) -> FoldLists:
    """Return the same list for every test user, with as many items as scores."""
    (fold,) = data.folds
    users, n = fold.test.active_users, len(scores)
    item, score = np.full((len(users), 20), NO_ITEM, dtype=np.int32), np.full((len(users), 20), np.nan)
    item[:, :n], score[:, :n] = np.arange(n)[:: -1 if reverse else 1], scores
    return FoldLists((TopN(users, item, score),), (fold.test,))


@pytest.mark.parametrize(
    ("scores", "type", "found"),
    [
        (np.arange(12, 0, -1), "ease", None),
        ([3.0] * 12, "ease", "the same score on the places 10 and 11"),
        ([3.0] * 12, "popularity", "the same score on the places 10 and 11"),
        (np.arange(9, 0, -1), "ease", "57 of 60 lists (95 %) are shorter than 10"),
    ],
)
def test_ties_at_the_cutoff_and_short_lists(scores: Any, type: str, found: str | None) -> None:
    checked = load(small_config())
    (data,) = prepare(checked, None, Observer())
    result = model_result("mine", type=type, lists=lists_of(scores, data))
    texts = [one.text for one in CHECKS["EV106"].find(results_of_models(checked, data, [result]))]
    assert len(texts) == (found is not None)
    assert found is None or found in texts[0]


@pytest.mark.parametrize(
    ("copies", "found"),
    [
        (1, "m0 and m1 list the same 10 items in the same order for"),
        (4, "m0, m1, m2, m3 and m4 list the same 10 items in the same order for at least"),
        (59, "m0, m1, m2, m3 and 56 more list the same 10 items in the same order for at least"),
    ],
)
def test_models_with_the_same_lists_are_one_finding(copies: int, found: str) -> None:
    checked = load(small_config())
    (data,) = prepare(checked, None, Observer())
    here, there = (lists_of(range(12, 0, -1), data, reverse=reverse) for reverse in (False, True))
    lists = {f"m{number}": here for number in range(copies + 1)} | {"other": there}
    results = [model_result(name, lists=own) for name, own in lists.items()]
    texts = [one.text for one in CHECKS["EV111"].find(results_of_models(checked, data, results))]
    assert texts == [f"{found} 100 % of the users: there is nothing to compare"]


def losses_in_groups(
    few: float, many: float, *, from_truth: bool = False, segments: int = 1, champion: str | None = None
) -> list[str]:
    """Return what EV119 finds where a model differs so much from others for 100 and for 300 users.

    The baseline is worse than these by 0.2 if there is a champion.
    """
    checked = load(small_config(**({} if champion is None else {"gate": {"champion": "popularity"}})))
    (data,) = prepare(checked, None, Observer())
    rng, users = np.random.default_rng(0), np.arange(400)
    group = np.repeat(np.arange(2, dtype=np.int32), [100, 300])
    base = rng.uniform(0.3, 0.5, 400)
    differences = np.where(group == 0, few, many) + rng.normal(0, 0.1, 400)
    values = {"random": base, "mine": base + differences}
    if champion is not None:
        values |= {"random": base - 0.2, champion: base}
    divided = [Segmentation(f"age {i}", ("few", "many"), users, group, from_truth) for i in range(segments)]
    results = results_of_models(checked, data, [one_metric(*item) for item in values.items()], divided)
    return [one.text for one in CHECKS["EV119"].find(results)]


def test_groups_that_pay_for_the_leader_are_named() -> None:
    (text,) = losses_in_groups(-0.1, 0.1)
    assert text.startswith("mine leads, and is worse than random for 1 group of age 0: few: −0.")
    assert re.search(r" ndcg@10 over 100 users \(p \(Holm\) . 0\.\d+\)$", text)
    assert len(losses_in_groups(-0.1, 0.1, segments=3)) == 3


def test_the_leader_is_compared_with_the_champion_of_a_gate() -> None:
    (text,) = losses_in_groups(-0.1, 0.1, champion="popularity")
    assert text.startswith("mine leads, and is worse than popularity for 1 group of age 0: few: −0.")
    assert losses_in_groups(-0.1, 0.1, champion="another") == []  # which is no champion, but the baseline is


@pytest.mark.parametrize(
    ("few", "many", "changes"),
    [
        (0.1, 0.1, {}),
        (-0.01, 0.1, {}),  # may be chance
        (0.1, -0.1, {}),  # the baseline leads
        (-0.1, 0.1, {"from_truth": True}),
    ],
)
def test_other_leaders_are_worse_for_no_group(few: float, many: float, changes: dict[str, Any]) -> None:
    assert losses_in_groups(few, many, **changes) == []


def ties_of(frame: pd.DataFrame, **changes: Any) -> list[str]:
    """Return what EV106 finds in the lists of a bake-off of popularity on a table, split by time."""
    frame.to_csv("tied.csv", index=False)  # in a folder of the test
    dataset = {"name": "tied", "type": "csv", "path": str(Path("tied.csv").absolute()), "timestamp": "time"}
    asked = {"models": ["popularity"], "compare": {}, **changes}
    config = small_config(datasets=[dataset], split={"type": "temporal", "cutoff": 100}, **asked)
    checked = load({**config, "relevance": {}})
    prepared = prepare(checked, None, Observer())
    results = list(dict(results_of(jobs_of(checked, prepared), sequential_executor(Observer()))).values())
    return [one.text for one in CHECKS["EV106"].find(results_of_models(checked, prepared[0], results))]


def flat(*, cold: bool) -> pd.DataFrame:
    """Return 100 users of whom each has met two of 100 items that are equally popular, and one of twenty later."""
    users = np.arange(100)
    item = np.column_stack([users, (users + 1) % 100, (users + 50) % 100 // 5 * 5]).ravel()
    frame = pd.DataFrame({"user": users.repeat(3), "item": item, "time": np.tile([1, 2, 200], 100)})
    later = frame["user"].where(frame["time"] < 100, frame["user"] + 1000)
    return frame.assign(user=later) if cold else frame


@pytest.mark.parametrize("n", [20, 10])
def test_ties_of_any_model_are_told_with_what_two_other_orders_give(n: int) -> None:
    (text,) = ties_of(flat(cold=False), recommend={"n": n})
    assert text.startswith(
        "popularity: 100 % of the lists of users with train data have the same score on the places 10 and 11: an order "
        "drawn by the seed decides what is listed: ndcg@10 is 0."
    )
    assert re.search(r"with two other orders 0\.\d+ and 0\.\d+; break ties in the model", text)
    (by_id,) = ties_of(flat(cold=False), recommend={"n": n, "ties": "id"})
    assert "the order of the ids decides" in by_id


def test_ties_that_decide_who_leads_say_so() -> None:
    frame = flat(cold=False)
    models = ["popularity", {"name": "chance", "type": "random"}]
    found = [ties_of(frame, recommend={"n": 20}, models=models, seed=seed) for seed in range(4)]
    texts = [text for (text,) in found]
    assert any(" of which popularity would lead; break ties" in text for text in texts)
    assert any(" of which popularity would not lead; break ties" in text for text in texts)


def test_ties_of_users_without_history_are_not_the_models() -> None:
    assert ties_of(flat(cold=True), recommend={"n": 20}) == []


def dated(*times: int) -> pd.DataFrame:
    return table([5] * 20).assign(time=np.resize(times, 100))


@pytest.mark.parametrize(
    ("times", "first"),
    [
        ((20260131, 20260201), "20260131, and are read as seconds since 1970: their order is right, days"),
        ((202601312359, 202602010000), "202601312359, and"),
        ((20260131235959, 20260201000000), "20260131235959, and"),
    ],
)
def test_times_that_are_dates_as_integers_are_found(times: tuple[int, ...], first: str) -> None:
    (text,) = texts("EV120", dated(*times))
    assert text.startswith(f"100 % of the times are dates written as integers, such as {first}")
    assert text.endswith("write them as text, such as 2026-01-31")


def test_a_few_markers_among_dates_as_integers_do_not_hide_them() -> None:
    (text,) = texts("EV120", dated(0, *[20260131] * 19))
    assert text.startswith("95 % of the times are dates")


@pytest.mark.parametrize(
    "times",
    [
        tuple(range(1_769_817_600, 1_769_817_700)),  # seconds
        tuple(range(1_769_817_600_000, 1_769_817_600_100)),  # milliseconds
        tuple(range(20260100, 20260200)),  # a running number: a third are dates
        (1, 2, 3),
        (20261331, 20260132),
        (-20260131, 0),
    ],
)
def test_other_times_are_no_dates_as_integers(times: tuple[int, ...]) -> None:
    assert texts("EV120", dated(*times)) == []


def rated(*ratings: float) -> pd.DataFrame:
    return table([5] * 20, ratings=lambda user: np.resize(ratings, len(user)))


def test_zeros_among_explicit_ratings_are_found_from_a_third_on() -> None:
    (text,) = texts("EV121", rated(0, 0, 0, 1, 5, 7, 8, 10))
    assert text == (
        '39 % of the ratings are 0, and the others are 1 to 10: 0 may mean "not rated", and models would learn it as '
        "the worst rating; leave these rows out by filters: [{type: rating, min: 1}]"
    )
    assert "min: 0.5}" in texts("EV121", rated(0, 0, 0, 0.5, 1, 1.5, 2, 5))[0]


@pytest.mark.parametrize(
    "ratings",
    [
        (0, 1, 2, 3, 4, 5),  # few zeros
        (0, 0, 0, 1, 2, 3, 4),  # judgements of relevance
        (0, 1),
        (0, 0, 0, -1, 1, 2, 3, 4, 5),  # 0 is in the middle
        (0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 5, 100),  # counts
    ],
)
def test_zeros_that_are_meant_are_not_found(ratings: tuple[float, ...]) -> None:
    assert texts("EV121", rated(*ratings)) == []
