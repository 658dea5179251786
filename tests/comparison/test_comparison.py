"""Models side by side."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from samples import Results, coded, data_info

from evalplugin.comparison import comparison
from evalplugin.comparison.compared import Cell, ComparedModel, metric_cells
from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.paired import Paired, compare_pairs
from evalplugin.data.background import HISTORY
from evalplugin.execution.results import ModelResult
from evalplugin.metrics import parse
from evalplugin.metrics.scores import PerUserScores, Units
from evalplugin.report.charts.palette import BASELINE_COLOUR, PALETTE, model_colours
from evalplugin.report.competition import competitions_of
from evalplugin.report.sentences.verdict import to_tell_apart, verdict
from evalplugin.segments import Segmentation


def scores(*values: float, metric: str = "ndcg@10") -> PerUserScores:
    column = np.array(values, dtype=np.float64)
    return PerUserScores(Units(np.arange(len(values))), column[:, None], (metric,))


def ranked_models(result: Results) -> list[ComparedModel]:
    return [row for contest in competitions_of(*result) for row in compare(contest).models]


def cells_of(make: SimpleNamespace, result: ModelResult) -> dict[str, Cell]:
    return metric_cells(result.per_user, list(map(parse, make.bakeoff().headline)), seed=10)


def test_the_primary_metric_comes_first(make: SimpleNamespace) -> None:
    assert make.bakeoff(primary="rr").headline == ("rr", "ndcg@10", "recall@10", "coverage@10")


def test_a_mean_is_over_the_defined_users_and_the_others_are_counted(make: SimpleNamespace) -> None:
    result = make.model_result("knn", scores=scores(0.2, math.nan, 0.6, 0.7))
    cell = cells_of(make, result)["ndcg@10"]
    assert cell.mean == pytest.approx((0.2 + 0.6 + 0.7) / 3)
    assert (cell.users, cell.undefined, cell.method) == (3, 1, "bootstrap")
    assert cell.low <= cell.mean <= cell.high


def test_a_metric_of_all_lists_together_has_no_interval(make: SimpleNamespace) -> None:
    cell = cells_of(make, make.model_result("knn", 0.3))["coverage@10"]
    assert cell.mean == 0.3
    assert math.isnan(cell.low)
    assert cell.summary is None


def test_models_are_ranked_best_first_and_failed_ones_last(make: SimpleNamespace) -> None:
    rows = ranked_models(make.whole())
    ranks = [(row.rank, row.model) for row in rows]
    assert ranks == [(1, "svd"), (2, "knn"), (3, "random"), (None, "broken")]
    assert rows[-1].error == "ValueError: k must be <= 12"


def test_an_error_metric_ranks_the_lowest_first(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("random", "knn"), metrics=("rmse",), primary="rmse")
    models = [
        make.model_result("random", scores=scores(*[1.0, 1.1, 1.2] * 3, metric="rmse")),
        make.model_result("knn", scores=scores(*[0.5, 0.6, 0.7] * 3, metric="rmse")),
    ]
    rows = ranked_models(Results(asked, tuple(models)))
    assert [row.model for row in rows] == ["knn", "random"]
    assert rows[0].cells["rmse"].mark == "+"


def test_equal_means_share_a_rank_in_config_order(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("a", "b", "c"), metrics=("ndcg@10",), baseline=None)
    columns = {"a": scores(0.5, 0.5), "b": scores(0.5, 0.5), "c": scores(0.1)}
    models = tuple(make.model_result(name, scores=own) for name, own in columns.items())
    ranks = [(r.rank, r.model) for r in ranked_models(Results(asked, models))]
    assert ranks == [(1, "a"), (1, "b"), (3, "c")]


def test_a_difference_is_paired_by_user_and_marked_where_it_leaves_out_zero(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("base", "up", "down", "same"), metrics=("ndcg@10",), baseline="base")
    base = np.linspace(0.2, 0.8, 40)
    wobble = np.where(np.arange(40) % 2 == 0, 0.05, -0.05)
    columns = {"base": base, "up": base + 0.1 + wobble, "down": base - 0.1 + wobble, "same": base + wobble}
    models = tuple(make.model_result(name, scores=scores(*column)) for name, column in columns.items())
    cells = {row.model: row.cells["ndcg@10"] for row in ranked_models(Results(asked, models))}
    marks = {model: cell.mark for model, cell in cells.items()}
    assert marks == {"up": "+", "same": "", "base": "", "down": "-"}
    assert cells["up"].difference is not None
    assert cells["up"].difference.paired.interval.mean == pytest.approx(0.1)
    assert cells["up"].difference.paired.users == 40
    assert cells["base"].difference is None


def test_users_are_matched_by_id_where_models_have_different_ones(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("base", "knn"), metrics=("ndcg@10",), baseline="base")
    base = dataclasses.replace(scores(0.1, 0.2, 0.3), units=Units(np.array([1, 2, 3])))
    knn = dataclasses.replace(scores(0.5, 0.6), units=Units(np.array([2, 3])))
    result = Results(asked, (make.model_result("base", scores=base), make.model_result("knn", scores=knn)))
    difference = ranked_models(result)[0].cells["ndcg@10"].difference
    assert difference.paired.users == 2
    assert difference.paired.interval.mean == pytest.approx(((0.5 - 0.2) + (0.6 - 0.3)) / 2)


def test_a_failed_baseline_leaves_no_differences(make: SimpleNamespace) -> None:
    models = (make.failed_result("random"), make.model_result("knn"))
    rows = ranked_models(Results(make.bakeoff(("random", "knn")), models))
    assert all(cell.difference is None for row in rows for cell in row.cells.values())


def test_a_model_without_a_defined_user_is_not_ranked(make: SimpleNamespace) -> None:
    models = (make.model_result("random", scores=scores(math.nan, math.nan)), make.model_result("knn"))
    rows = ranked_models(Results(make.bakeoff(("random", "knn")), models))
    assert [(row.model, row.rank) for row in rows] == [("knn", 1), ("random", None)]


def test_datasets_are_ranked_by_themselves(make: SimpleNamespace) -> None:
    models = tuple(
        make.model_result(model, level, info=make.data_info(dataset))
        for dataset, levels in (("b", (0.1, 0.3)), ("a", (0.5, 0.2)))
        for model, level in zip(("random", "knn"), levels, strict=True)
    )
    rows = ranked_models(Results(make.bakeoff(("random", "knn"), datasets=("b", "a")), models))
    assert [(r.rank, r.model) for r in rows] == [(1, "knn"), (2, "random"), (1, "random"), (2, "knn")]


def test_intervals_do_not_depend_on_the_other_models(make: SimpleNamespace) -> None:
    alone = Results(make.bakeoff(), (make.model_result("knn"),))
    together = Results(make.bakeoff(), (make.model_result("random", 0.1), make.model_result("knn")))
    cells = [next(r for r in ranked_models(x) if r.model == "knn").cells["rr"] for x in (alone, together)]
    assert (cells[0].low, cells[0].high) == (cells[1].low, cells[1].high)


def contest(make: SimpleNamespace, metric: str = "ndcg@10", **columns: list[float]) -> Contest:
    """Models ``base``, ... with given scores of users 0, 1, 2 ...; the first one is the baseline."""
    names = tuple(columns)
    asked = make.bakeoff(names, metrics=(metric,), primary=metric, baseline=names[0])
    models = (make.model_result(n, scores=scores(*c, metric=metric)) for n, c in columns.items())
    return competitions_of(asked, tuple(models))[0]


def test_all_pairs_are_compared_the_better_one_first(make: SimpleNamespace) -> None:
    compared = compare(contest(make, a=[0.1] * 8, b=[0.5] * 8, c=[0.3] * 8), pairs="all")
    assert [(p.model, p.against) for p in compared.pairs] == [("b", "c"), ("b", "a"), ("c", "a")]
    assert compared.models[0].cells["ndcg@10"].difference == compared.pair("ndcg@10", "b", "a")
    assert compared.pair("ndcg@10", "a", "b") is None


def test_a_mark_takes_more_evidence_where_more_is_compared(make: SimpleNamespace) -> None:
    base = [0.5] * 6
    better = [0.6] * 6  # the lowest p that six users can show: 2 of 2**6 sign patterns
    alone = compare(contest(make, base=base, better=better)).pairs[0]
    assert (alone.p, alone.p_holm, alone.mark) == (2 / 2**6, 2 / 2**6, "+")
    mixed = [0.6, 0.4] * 3
    among = compare(contest(make, base=base, better=better, mixed=mixed)).pairs[0]
    assert (among.model, among.p, among.p_holm, among.mark) == ("better", 2 / 2**6, 2 * 2 / 2**6, "")


def test_the_shares_of_users_follow_the_direction_of_the_metric(make: SimpleNamespace) -> None:
    columns = {"base": [1.0, 1.0, 1.0, 1.0], "other": [0.5, 0.7, 1.0, 1.2]}
    error = compare(contest(make, "rmse", **columns)).pairs[0]
    assert (error.better, error.worse, error.paired.equal) == (2 / 4, 1 / 4, 1 / 4)
    gain = compare(contest(make, "rr", **columns)).pairs[0]
    assert (gain.better, gain.worse) == (1 / 4, 2 / 4)
    neither = compare(contest(make, "popularity@10", **columns)).pairs[0]
    assert math.isnan(neither.better)
    assert neither.mark == ""


def test_groups_of_users_are_compared_by_themselves(make: SimpleNamespace) -> None:
    base = [0.1] * 10 + [0.5] * 10 + [0.3]
    other = [0.4] * 10 + [0.2] * 10 + [0.9]
    users, group = np.arange(20), np.repeat(np.array([1, 0], dtype=np.int32), 10)  # user 20 is in no group
    activity = Segmentation("activity", ("many", "few"), users, group)
    asked = dataclasses.replace(contest(make, base=base, other=other), segments=(activity,))
    cells = {(c.label, c.model): c for c in compare(asked).segments}
    assert list(cells) == [("many", "other"), ("many", "base"), ("few", "other"), ("few", "base")]
    assert cells["many", "base"].interval.mean == pytest.approx(0.5)
    assert cells["few", "other"].interval.n == 10
    few, many = cells["few", "other"].difference, cells["many", "other"].difference
    assert few.paired.interval.mean == pytest.approx(0.4 - 0.1)
    assert (few.mark, many.mark) == ("+", "-")
    assert few.p_holm == pytest.approx(2 * 2 / 2**10)  # two groups are one family
    assert cells["few", "base"].difference is None


def test_the_background_holds_the_truth_and_the_latest_history(make: SimpleNamespace) -> None:
    info = make.data_info()
    background = info.background
    assert background.truth.num_rows == len(info.test)
    history = background.history.to_pandas()
    train = info.train.to_frame()
    for user, rows in history.groupby("user"):
        latest = train[train["user"] == user].sort_values("timestamp", ascending=False)
        assert rows["item"].tolist() == latest["item"].tolist()[:HISTORY]
    assert set(history["user"]) == set(train["user"]) & set(background.truth["user"].to_pylist())


def test_only_so_much_history_is_kept_the_latest_of_equal_times_first() -> None:
    n = HISTORY + 5
    train = coded(np.zeros(n), np.arange(n), users=[7], items=n, timestamp=np.zeros(n, np.int64))
    info = replace(data_info(), full=train, train=train, test=train)
    assert info.background.history["item"].to_pylist() == list(range(n - 1, n - 1 - HISTORY, -1))


def test_colours_are_fixed_by_position_and_repeat_and_the_baseline_is_grey() -> None:
    colours = model_colours(["random", "a", "b"], "random")
    assert colours == {"random": BASELINE_COLOUR, "a": PALETTE[0], "b": PALETTE[1]}
    names = [f"m{i}" for i in range(len(PALETTE) + 1)]
    assert model_colours(names, None)[names[-1]] == PALETTE[0]


def test_all_colours_are_distinguishable() -> None:
    def rgb(colour: str) -> np.ndarray:
        return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)

    colours = [*PALETTE, BASELINE_COLOUR]
    assert min(np.abs(rgb(a) - rgb(b)).sum() for a in colours for b in colours if a != b) > 60


@pytest.mark.parametrize(("at_once", "n_metrics"), [(2**22, 2), (1, 1)])
def test_metrics_share_the_draws_of_a_group_as_far_as_memory_allows(make, monkeypatch, at_once, n_metrics):
    columns: list[int] = []

    def counted(a: np.ndarray, b: np.ndarray, **options: Any) -> list[Paired]:
        columns.append(a.shape[1])
        return compare_pairs(a, b, **options)

    halves = Segmentation("half", ("even", "odd"), np.arange(40), np.arange(40, dtype=np.int32) % 2)
    asked = dataclasses.replace(
        contest(make, base=[0.0], other=[0.0]),
        models=tuple(ComparedModel(name, two_metrics(seed)) for seed, name in enumerate(("base", "other"))),
        metrics=("ndcg@10", "rr"),
        segments=(halves,),
    )
    one_by_one = [compare(dataclasses.replace(asked, metrics=(metric,))) for metric in asked.metrics]
    apart = {(c.metric, c.label, c.model): c for one in one_by_one for c in one.segments}
    monkeypatch.setattr(comparison, "compare_pairs", counted)
    monkeypatch.setattr(comparison, "_VALUES_AT_ONCE", at_once)
    found = compare(asked)
    assert found.pairs == tuple(pair for one in one_by_one for pair in one.pairs)
    assert {(c.metric, c.label, c.model): c for c in found.segments} == apart
    assert set(columns) == {n_metrics}
    assert sum(columns) == 2 * 3  # of all users, and of both groups


def two_metrics(seed: int) -> PerUserScores:
    values = np.random.default_rng(seed).uniform(size=(40, 2))
    return PerUserScores(Units(np.arange(40)), values, ("ndcg@10", "rr"))


def test_seeds_of_models_widen_intervals_and_decide_who_may_be_the_best(make: SimpleNamespace) -> None:
    def compared(spread: float) -> Comparison:
        means = [{"ndcg@10": 0.3 + spread * step} for step in (-1, 0, 1)]
        models = [
            make.model_result("random", 0.3, seed_means=tuple(means)),
            make.model_result("knn", 0.4, seed_means=tuple(means)),
        ]
        return compare(competitions_of(make.bakeoff(("random", "knn")), tuple(models))[0])

    small, large = compared(1e-6), compared(0.1)
    assert (small.may_be_best, large.may_be_best) == (("knn",), ("knn", "random"))
    assert large.best["ndcg@10"].needs_seeds
    assert to_tell_apart(large.best["ndcg@10"], large.contest.units) == [
        "As far as is measured, it takes more seeds, not users, to tell knn from random."
    ]
    [before, after] = [one.pair("ndcg@10", "knn", "random") for one in (small, large)]
    assert (before.mark, after.mark) == ("+", "")
    assert after.paired.interval.low < before.paired.interval.low
    assert not before.is_within_seeds
    assert after.is_within_seeds
    assert "smaller than what another seed gives" in str(verdict(large, "ndcg@10"))
