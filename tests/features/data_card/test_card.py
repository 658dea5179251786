"""Data cards against counting by hand."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from samples import coded, interactions

from evalplugin.data import Interactions, LastN, NoSplit, Split, Temporal
from evalplugin.features.data_card.card import DataCard, DescribedData, _ratings, card_of, split_card
from evalplugin.features.data_card.report import card_facts, card_markdown, cuts_of, splits_table
from evalplugin.metrics import evaluate


def card(data: Interactions | None = None, **changes: Any) -> DataCard:
    data = data or interactions()
    folds = LastN(n=1).split(data, np.random.default_rng(0))
    return replace(card_of("toy", "synthetic", data, [split_card("latest", "last_n", folds)]), **changes)


def facts(data: Interactions) -> dict[str, str]:
    return dict(card_facts(card_of("toy", "csv", data)))


def test_times_within_a_second_have_periods_and_cuts() -> None:
    data = interactions()
    data = replace(
        data,
        timestamp=np.full(len(data), 1_700_000_000),
        fraction=np.arange(len(data), dtype=np.int32),
        ticks_per_second=1000,
    )
    [fold] = Temporal(quantile=0.5).split(data, np.random.default_rng(0))
    found = card_of("toy", "csv", data, [split_card("cut", "temporal", [fold])])
    middle = len(data) // 2
    assert found.times.first == 1_700_000_000
    assert found.times.last == pytest.approx(1_700_000_000 + (len(data) - 1) / 1000, abs=1e-6)
    assert sum(count > 0 for count in found.times.interactions) == 40
    assert cuts_of(found.splits[0]) == [pytest.approx(1_700_000_000 + middle / 1000, abs=1e-6)]
    again = TypeAdapter(DataCard).validate_json(json.dumps(asdict(found)))
    assert again == found
    whole = TypeAdapter(DataCard).validate_json(json.dumps(asdict(card())))
    assert type(whole.times.first) is int


def test_gini_is_the_metric_of_the_same_name() -> None:
    lists = [["a"], ["a"], ["b"]]
    (expected,) = evaluate("gini@1", lists=lists, truth=[{"a"}] * 3, catalogue="abcd")
    found = card_of("toy", "csv", coded([0, 1, 2], [0, 0, 1], users=3, items=4))
    assert found.by_item.gini == pytest.approx(expected)
    assert found.by_user.gini == 0.0
    # Of 4 items, the most popular is the head.
    assert found.long_tail == pytest.approx(1 / 3)
    assert found.by_item.sizes == (2, 1, 1)  # none, one, 2 to 3
    assert found.by_item.percentiles["0"] == 0
    assert found.by_item.percentiles["100"] == 2
    assert (found.ratings, found.times) == (None, None)
    assert found.density == pytest.approx(3 / 12)


def test_counts_are_those_of_the_data() -> None:
    data = interactions()
    found = card(data)
    by_user = sorted(Counter(data.user.tolist()).values())
    assert [found.by_user.percentiles[p] for p in ("0", "50", "100")] == [by_user[0], by_user[5], by_user[-1]]
    assert found.by_user.curve[0] == 0
    assert found.by_user.curve[-1] == 1
    assert list(found.by_user.curve) == sorted(found.by_user.curve)
    assert found.ratings is not None
    assert {one.low: one.interactions for one in found.ratings} == Counter(data.rating.tolist())
    assert (found.times.first, found.times.last) == (0, len(data) - 1)
    assert sum(found.times.interactions) == len(data)


def test_cold_shares_are_those_of_the_truth() -> None:
    data = interactions()
    test = (data.user < 2) | (data.item == 8)  # two users and an item that are in the truth alone
    fold = Split(data.select(~test), data.select(test))
    (found,) = split_card("s", "own", [fold]).folds
    warm = {int(u) for u in data.user[~test]}
    assert found.cold_users == 2
    assert found.cold_items == 1
    assert found.test_users == len(set(data.user[test].tolist()))
    assert found.cold_interactions == int(test.sum())
    assert found.test_items == len(set(data.item[test].tolist()))
    assert len(warm) == 10
    shares = split_card("s", "own", [fold, Split(data, data, overlap_allowed=True)]).cold_shares()
    assert shares["users"] == pytest.approx(2 / (found.test_users + 12))


def test_counts_with_a_long_tail_are_counted_in_powers_of_two() -> None:
    counts = np.concatenate([np.repeat(np.arange(1, 9), 20), np.arange(10, 25), [700]]).astype(np.float32)
    found = _ratings(counts)
    assert found is not None
    ranges = [(rating.low, rating.high, rating.interactions) for rating in found]
    assert ranges[:4] == [(1, 1, 20), (2, 3, 40), (4, 7, 80), (8, 15, 26)]
    assert ranges[4:] == [(16, 31, 9), (512, 1023, 1)]
    assert sum(rating.interactions for rating in found) == len(counts)
    shown = _ratings(np.arange(1, 101, dtype=np.float32))  # as of ratings in per cent
    assert shown is not None
    assert len(shown) == 20


def test_many_ratings_are_counted_in_ranges_without_loss() -> None:
    data = interactions()
    data = replace(data, rating=np.linspace(0, 10, len(data)).astype(np.float32))
    found = card_of("toy", "csv", data).ratings
    assert len(found) == 20
    assert sum(one.interactions for one in found) == len(data)
    assert (found[0].low, found[-1].high) == (0.0, 10.0)


def test_a_card_survives_json_and_has_no_nan() -> None:
    for data in (interactions(), replace(interactions(text_ids=True), timestamp=None)):
        found = card(data) if data.timestamp is not None else card_of("toy", "csv", data)
        plain = json.loads(json.dumps(DescribedData((found,)).as_mapping(), allow_nan=False))
        assert TypeAdapter(list[DataCard]).validate_python(plain["datasets"]) == [found]


def test_a_single_interaction_has_a_card() -> None:
    one = interactions().select(np.arange(len(interactions())) == 0)
    whole = split_card("all", "none", NoSplit().split(one, np.random.default_rng()))
    found = card_of("toy", "csv", one, [whole])
    json.dumps(asdict(found), allow_nan=False)
    assert found.times.first == found.times.last
    assert [cell.text for cell in splits_table(found).rows[0][5:]] == ["0 %", "0 %", "0 %"]


def test_what_does_not_apply_is_said_in_words() -> None:
    data = replace(interactions(), timestamp=None)
    assert facts(data)["time"] == "no timestamps"
    implicit = replace(data, rating=np.ones(len(data), dtype=np.float32))
    assert facts(implicit)["ratings"] == "none: every interaction counts 1"
    assert facts(interactions())["time"] == f"0 to {len(data) - 1}"
    dated = replace(data, timestamp=1_735_689_600 + 86_400 * np.arange(len(data)))
    assert facts(dated)["time"].startswith("2025-01-01 to ")


def test_folds_are_in_one_row() -> None:
    data = replace(interactions(), timestamp=np.arange(len(interactions())) * 86_400)
    folds = Temporal(folds=2, every="5d").split(data, np.random.default_rng(0))
    found = card_of("toy", "csv", data, [split_card("weeks", "temporal", folds)])
    (row,) = splits_table(found).rows
    assert (row[0].text, row[1].text) == ("weeks", "2")
    assert found.splits[0].folds[0].train_last < found.splits[0].folds[0].test_first


def test_markdown_has_the_sizes_of_an_earlier_bakeoff_where_there_is_one() -> None:
    without = card_markdown(card(), None)
    (line,) = set(card_markdown(card(), "3 interactions <b>then</b>")) - set(without)
    assert line == "3 interactions &lt;b&gt;then&lt;/b&gt;"
