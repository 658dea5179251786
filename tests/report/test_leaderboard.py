"""The rows of the final table."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from evalplugin.report import headline, headline_metrics, leaderboard_rows, model_colours
from evalplugin.report.palette import BASELINE_COLOUR, PALETTE
from evalplugin.results import BakeoffResult
from evalplugin.scoring import PerUserScores


def scores(*values: float, metric: str = "ndcg@10") -> PerUserScores:
    column = np.array(values, dtype=np.float64)
    return PerUserScores(np.arange(len(values)), column[:, None], (metric,))


def test_the_primary_metric_comes_first(make: SimpleNamespace) -> None:
    assert headline_metrics(make.bakeoff(primary="rr")) == ("rr", "ndcg@10", "recall@10", "coverage@10")


def test_a_mean_is_over_the_defined_users_and_the_others_are_counted(make: SimpleNamespace) -> None:
    result = make.model_result("knn", scores=scores(0.2, math.nan, 0.6, 0.7))
    cell = headline(make.bakeoff(), result)["ndcg@10"]
    assert cell.mean == pytest.approx((0.2 + 0.6 + 0.7) / 3)
    assert (cell.users, cell.undefined, cell.method) == (3, 1, "bootstrap")
    assert cell.low <= cell.mean <= cell.high


def test_a_metric_of_all_lists_together_has_no_interval(make: SimpleNamespace) -> None:
    cell = headline(make.bakeoff(), make.model_result("knn", 0.3))["coverage@10"]
    assert cell.mean == 0.3
    assert math.isnan(cell.low)
    assert cell.summary is None


def test_models_are_ranked_best_first_and_failed_ones_stand_last(make: SimpleNamespace) -> None:
    rows = leaderboard_rows(make.whole())
    assert [(row.rank, row.model) for row in rows] == [
        (1, "svd"),
        (2, "knn"),
        (3, "random"),
        (None, "broken"),
    ]
    assert rows[-1].error == "ValueError: k must be <= 12"


def test_an_error_metric_ranks_the_lowest_first(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("random", "knn"), metrics=("rmse",), primary="rmse")
    models = [
        make.model_result("random", scores=scores(1.0, 1.1, 1.2, metric="rmse")),
        make.model_result("knn", scores=scores(0.5, 0.6, 0.7, metric="rmse")),
    ]
    rows = leaderboard_rows(BakeoffResult(asked, tuple(models)))
    assert [row.model for row in rows] == ["knn", "random"]
    assert rows[0].cells["rmse"].mark == "+"


def test_equal_means_share_a_rank_in_config_order(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("a", "b", "c"), metrics=("ndcg@10",), baseline=None)
    models = tuple(
        make.model_result(n, scores=s)
        for n, s in (("a", scores(0.5, 0.5)), ("b", scores(0.5, 0.5)), ("c", scores(0.1)))
    )
    assert [(r.rank, r.model) for r in leaderboard_rows(BakeoffResult(asked, models))] == [
        (1, "a"),
        (1, "b"),
        (3, "c"),
    ]


def test_a_difference_is_paired_by_user_and_marked_where_it_leaves_out_zero(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("base", "up", "down", "same"), metrics=("ndcg@10",), baseline="base")
    base = np.linspace(0.2, 0.8, 40)
    wobble = np.where(np.arange(40) % 2 == 0, 0.05, -0.05)
    columns = {"base": base, "up": base + 0.1 + wobble, "down": base - 0.1 + wobble, "same": base + wobble}
    models = tuple(make.model_result(name, scores=scores(*column)) for name, column in columns.items())
    cells = {row.model: row.cells["ndcg@10"] for row in leaderboard_rows(BakeoffResult(asked, models))}
    assert {model: cell.mark for model, cell in cells.items()} == {
        "up": "+",
        "same": "",
        "base": "",
        "down": "-",
    }
    assert cells["up"].difference is not None
    assert cells["up"].difference.mean == pytest.approx(0.1)
    assert cells["up"].difference.users == 40
    assert cells["base"].difference is None


def test_users_are_matched_by_id_where_models_have_different_ones(make: SimpleNamespace) -> None:
    asked = make.bakeoff(("base", "knn"), metrics=("ndcg@10",), baseline="base")
    base = dataclasses.replace(scores(0.1, 0.2, 0.3), users=np.array([1, 2, 3]))
    knn = dataclasses.replace(scores(0.5, 0.6), users=np.array([2, 3]))
    result = BakeoffResult(
        asked, (make.model_result("base", scores=base), make.model_result("knn", scores=knn))
    )
    difference = leaderboard_rows(result)[0].cells["ndcg@10"].difference
    assert difference is not None
    assert difference.users == 2
    assert difference.mean == pytest.approx(((0.5 - 0.2) + (0.6 - 0.3)) / 2)


def test_a_failed_baseline_leaves_no_differences(make: SimpleNamespace) -> None:
    models = (make.failed_result("random"), make.model_result("knn"))
    rows = leaderboard_rows(BakeoffResult(make.bakeoff(("random", "knn")), models))
    assert all(cell.difference is None for row in rows for cell in row.cells.values())


def test_a_model_without_a_defined_user_is_not_ranked(make: SimpleNamespace) -> None:
    models = (make.model_result("random", scores=scores(math.nan, math.nan)), make.model_result("knn"))
    rows = leaderboard_rows(BakeoffResult(make.bakeoff(("random", "knn")), models))
    assert [(row.model, row.rank) for row in rows] == [("knn", 1), ("random", None)]


def test_datasets_are_ranked_by_themselves(make: SimpleNamespace) -> None:
    models = tuple(
        make.model_result(model, level, info=make.data_info(dataset))
        for dataset, levels in (("b", (0.1, 0.3)), ("a", (0.5, 0.2)))
        for model, level in zip(("random", "knn"), levels, strict=True)
    )
    rows = leaderboard_rows(BakeoffResult(make.bakeoff(("random", "knn"), datasets=("b", "a")), models))
    assert [(r.dataset, r.rank, r.model) for r in rows] == [
        ("b", 1, "knn"),
        ("b", 2, "random"),
        ("a", 1, "random"),
        ("a", 2, "knn"),
    ]


def test_intervals_do_not_depend_on_the_other_models(make: SimpleNamespace) -> None:
    alone = BakeoffResult(make.bakeoff(), (make.model_result("knn"),))
    together = BakeoffResult(make.bakeoff(), (make.model_result("random", 0.1), make.model_result("knn")))
    cells = [next(r for r in leaderboard_rows(x) if r.model == "knn").cells["rr"] for x in (alone, together)]
    assert (cells[0].low, cells[0].high) == (cells[1].low, cells[1].high)


def test_colours_are_fixed_by_place_and_the_baseline_is_grey() -> None:
    colours = model_colours(["random", "a", "b"], "random")
    assert colours == {"random": BASELINE_COLOUR, "a": PALETTE[0], "b": PALETTE[1]}


def test_colours_come_round_again_when_there_are_many_models() -> None:
    names = [f"m{i}" for i in range(len(PALETTE) + 1)]
    assert model_colours(names, None)[names[-1]] == PALETTE[0]


def test_all_colours_can_be_told_apart() -> None:
    def rgb(colour: str) -> np.ndarray:
        return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], dtype=float)

    colours = [*PALETTE, BASELINE_COLOUR]
    assert min(np.abs(rgb(a) - rgb(b)).sum() for a in colours for b in colours if a != b) > 60
