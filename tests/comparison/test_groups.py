"""Gap between groups of users and worst group: of each model, and against the baseline."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.groups import GroupStatistic
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.frames import group_statistics_frame
from evalplugin.report.tables import group_statistics_table
from evalplugin.segments import Segmentation

SIZES = {"young": 60, "middle": 200, "old": 90, "few": 29}
GROUP = np.repeat(np.arange(4, dtype=np.int32), list(SIZES.values()))
N = len(GROUP)
AGE = Segmentation("age", tuple(SIZES), np.arange(N), GROUP)
LEVELS = {"base": (0.3, 0.5, 0.4, 0.9), "fair": (0.45, 0.5, 0.47, 0.1), "unfair": (0.1, 0.7, 0.4, 0.9)}


def model(name: str, levels: Any, metric: str = "ndcg@10", **changes: Any) -> ComparedModel:
    values = np.clip(np.array(levels)[GROUP] + np.random.default_rng(len(name)).normal(0, 0.1, N), 0, 1)
    return ComparedModel(name, PerUserScores(Units(np.arange(N)), values[:, None], (metric,)), **changes)


def contest(*models: ComparedModel, segments: tuple[Segmentation, ...] = (AGE,), **changes: Any) -> Contest:
    metric = changes.pop("metric", "ndcg@10")
    return Contest("b-1", "toy", "last_n", models, (metric,), "base", 0, "test", segments, **changes)


def made(**changes: Any) -> Comparison:
    return compare(contest(*(model(name, levels) for name, levels in LEVELS.items()), **changes))


def by_name(comparison: Comparison) -> dict[tuple[str, str], GroupStatistic]:
    return {(s.statistic, s.model): s for s in comparison.group_statistics}


def test_statistics_are_those_of_the_groups_that_are_large_enough() -> None:
    comparison = made()
    found = by_name(comparison)
    assert list(found) == [(s, m.model) for s in ("gap", "worst") for m in comparison.models]
    for name in LEVELS:
        cells = {c.label: c.interval for c in comparison.segments if c.model == name and c.label != "few"}
        means = {label: cell.mean for label, cell in cells.items()}
        low, high = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
        gap, worst = found["gap", name], found["worst", name]
        assert gap.value == pytest.approx(means[high] - means[low])
        assert gap.groups == (high, low)
        assert (worst.value, worst.groups) == (means[low], (low,))
        assert worst.low == min(cell.low for cell in cells.values())
        assert gap.left_out == worst.left_out == ("few",)


def test_differences_are_those_of_the_statistics_and_marked_after_correction() -> None:
    found = by_name(made())
    for statistic in ("gap", "worst"):
        base = found[statistic, "base"]
        assert (base.against, base.difference, base.mark) == (None, None, "")
        for name, mark in (("fair", "+"), ("unfair", "-")):
            own = found[statistic, name]
            assert (own.against, own.mark) == ("base", mark)
            assert own.difference.value == pytest.approx(own.value - base.value)
            assert own.difference.p <= own.p_holm <= min(1, 2 * own.difference.p)


def test_without_two_large_groups_or_with_more_than_twenty_there_are_none() -> None:
    one = Segmentation("age", ("all",), np.arange(N), np.zeros(N, dtype=np.int32))
    assert made(segments=(one,)).group_statistics == ()
    assert made(segments=()).group_statistics == ()
    users, group = np.arange(30 * 21), np.repeat(np.arange(21, dtype=np.int32), 30)
    values = np.random.default_rng(0).random((len(users), 1))
    models = [ComparedModel(n, PerUserScores(Units(users), values, ("ndcg@10",))) for n in ("base", "other")]
    many = Segmentation("town", tuple(map(str, range(21))), users, group)
    assert compare(contest(*models, segments=(many,))).group_statistics == ()
    twenty = Segmentation("town", tuple(map(str, range(20))), users, group % 20)
    assert len(compare(contest(*models, segments=(twenty,))).group_statistics) == 4


def test_by_an_error_the_worst_group_is_the_highest_and_by_popularity_there_is_none() -> None:
    errors = [model(name, levels, "rmse") for name, levels in LEVELS.items()]
    found = by_name(compare(contest(*errors, metric="rmse")))
    assert found["worst", "unfair"].groups == ("middle",)
    assert found["worst", "unfair"].mark == "-"
    neither = [model(name, levels, "popularity@10") for name, levels in LEVELS.items()]
    found = by_name(compare(contest(*neither, metric="popularity@10")))
    assert {statistic for statistic, _ in found} == {"gap"}
    assert {s.mark for s in found.values()} == {""}
    assert all(s.difference is not None for s in found.values() if s.model != "base")


def test_models_without_values_have_no_statistics() -> None:
    failed = ComparedModel("broken", None, error="ValueError: k must be <= 12")
    undefined = model("undefined", LEVELS["fair"])
    undefined.scores.values[:] = np.nan
    base = model("base", LEVELS["base"])
    assert {s.model for s in compare(contest(base, failed, undefined)).group_statistics} == {"base"}
    no_base = contest(dataclasses.replace(undefined, model="base"), model("fair", LEVELS["fair"]))
    assert {s.difference for s in compare(no_base).group_statistics} == {None}


def test_other_seeds_widen_intervals_of_statistics_and_differences() -> None:
    fits = tuple({"ndcg@10": value} for value in (0.4, 0.45, 0.5))
    models = [model(name, levels) for name, levels in LEVELS.items()]
    once = by_name(compare(contest(*models)))
    often = by_name(compare(contest(*(dataclasses.replace(m, seed_means=fits) for m in models))))
    for key, statistic in often.items():
        assert statistic.value == once[key].value
        assert statistic.low <= once[key].low
        assert statistic.high > once[key].high
        if statistic.difference is not None:
            assert statistic.difference.low < once[key].difference.low
            assert statistic.difference.p > once[key].difference.p


def test_the_table_has_a_row_and_the_frame_two_for_each_model() -> None:
    comparison = made()
    table = group_statistics_table(comparison, "ndcg@10", "age")
    frame = group_statistics_frame([comparison], "age")
    assert 2 * len(table.rows) == len(frame) == 6
    assert table.heads == ("model", "gap", "between", "worst", "group")
    first = frame.iloc[0]
    gap = comparison.group_statistics[0]
    assert (first["statistic"], first["model"]) == ("gap", comparison.models[0].model)
    assert (first["value"], first["groups"]) == (gap.value, gap.groups)
    assert table.footnotes[-1] == "Groups of fewer than 30 users are left out: few."
    baseline = frame[frame["model"] == "base"]
    assert baseline[["difference", "p", "p_holm"]].isna().all(axis=None)


def test_a_group_of_rare_values_has_bounds_of_all_that_may_be() -> None:
    values = np.zeros(N)
    values[GROUP == 1] = np.random.default_rng(1).random(SIZES["middle"])
    rare = ComparedModel("base", PerUserScores(Units(np.arange(N)), values[:, None], ("ndcg@10",)))
    found = by_name(compare(contest(rare)))["worst", "base"]
    assert (found.value, found.low) == (0, 0)
    assert 0 < found.high < 1
    assert math.isfinite(found.high)
