"""Pictures of tuning, and the importance of parameters."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from samples import tuning

from evalplugin.features.tuning.pictures import (
    FoldTrials,
    StudyCurve,
    history_chart,
    history_limits,
    importance_picture,
)
from evalplugin.features.tuning.summary import importance


def curve(
    model: str = "knn", values: tuple[float, ...] = (0.1, 0.3, np.nan, 0.2), **changes: object
) -> StudyCurve:
    trials = FoldTrials(np.array(values), np.array([v == v and v != 0.2 for v in values]))
    importance, best = {"k": 0.75, "reg": 0.25}, {"k": "40", "reg": "0.1"}
    made = StudyCurve(model, "ndcg@10", "#0072B2", (trials,), 0.3, 0.25, importance, best, "4 trials")
    return replace(made, **changes)  # type: ignore[arg-type]


def trials(own: StudyCurve, *others: StudyCurve) -> list[Mapping[str, Any]]:
    """Return the rows of a history without lines."""
    rows = history_chart(own, others, 4, history_limits([own, *others])).rows
    return [row for row in rows if row["kind"] != "best"]


def lines(own: StudyCurve, *others: StudyCurve) -> dict[tuple[str, str], list[float]]:
    """Return the values of each line of a history, by its name and colour."""
    drawn: dict[tuple[str, str], list[float]] = {}
    for row in history_chart(own, others, 4, (0.0, 1.0)).rows:
        if row["kind"] == "best":
            drawn.setdefault((row["line"], row["colour"]), []).append(row["y"])
    return drawn


def test_every_tuned_model_gets_pictures_of_the_same_size() -> None:
    for own in (curve("knn"), curve("popularity", folds=(), importance="not tuned", best={})):
        pngs = [
            own.picture(history_chart(own, [curve("svd")], 4, (0.0, 1.0)), "note"),
            importance_picture(own, 3),
        ]
        assert {Image.open(io.BytesIO(png)).size for png in pngs} == {(960, 660)}


def test_a_model_that_was_not_tuned_does_not_change_the_axes() -> None:
    untuned = curve("popularity", folds=(), validation=float("nan"), importance="not tuned", best={})
    assert history_limits([curve("knn"), untuned]) == history_limits([curve("knn")])
    assert [row["kind"] for row in trials(untuned)] == ["test"]


def test_the_best_so_far_is_of_trials_that_are_done() -> None:
    dropped = FoldTrials(np.array([np.nan, 0.2, 0.9, 0.1, 0.4]), np.array([False, True, False, True, True]))
    np.testing.assert_equal(curve().best_so_far(dropped), [np.nan, 0.2, 0.2, 0.2, 0.4])
    np.testing.assert_equal(curve(metric="rmse").best_so_far(dropped), [np.nan, 0.2, 0.2, 0.1, 0.1])


def test_few_very_bad_trials_do_not_stretch_the_axis_and_the_best_is_on_it() -> None:
    values = (*np.linspace(0.2, 0.3, 30).tolist(), -1e6)
    low, high = history_limits([curve(values=values, test=0.1)])
    assert 0.05 < low < 0.1
    assert 0.3 < high < 0.32
    low, high = history_limits(
        [curve(values=tuple(-v for v in values), metric="rmse", test=-0.1, validation=-0.3)]
    )
    assert -0.32 < low < -0.3
    assert -0.1 < high < -0.05


@pytest.mark.parametrize("values", [(np.nan, np.nan), (0.2, 0.2), (0.2,)])
def test_any_trials_can_be_drawn(values: tuple[float, ...]) -> None:
    own = curve(values=values, test=float("nan"), validation=float("nan"))
    assert own.picture(history_chart(own, [], 4, history_limits([own])), "").startswith(b"\x89PNG")


def test_done_trials_are_filled_dropped_ones_hollow_and_failed_ones_crosses_on_the_axis() -> None:
    own = curve()
    *drawn, test = trials(own)
    blue, hollow = "#0072B2", "var(--surface)"
    assert [(row["colour"], row["fill"]) for row in drawn] == [
        (blue, blue), (blue, blue), ("var(--worse)", hollow), (blue, hollow),
    ]  # fmt: skip
    assert drawn[2]["y"] == history_limits([own])[0]
    assert (test["y"], test["text"]) == (0.25, "test 0.2500")


def test_the_best_so_far_of_each_fold_is_a_line_and_those_of_other_models_are_grey() -> None:
    (fold,) = curve().folds
    other = curve("svd", (0.12, 0.25), folds=(FoldTrials(np.array([0.12, 0.25]), np.array([True, True])),))
    assert lines(curve(folds=(fold, fold)), other) == {
        ("svd 0", "var(--equal)"): [0.12, 0.25],
        ("knn 0", "#0072B2"): [0.1, 0.3, 0.3, 0.3],
        ("knn 1", "#0072B2"): [0.1, 0.3, 0.3, 0.3],
    }


def test_the_parameter_that_decides_is_the_most_important() -> None:
    found = importance(tuning(40))
    assert not isinstance(found, str)
    assert next(iter(found)) == "k"
    assert found["k"] > 0.8
    assert sum(found.values()) == pytest.approx(1.0)
    assert set(found) == {"k", "sim_options.name", "sim_options.shrinkage"}


def test_lower_is_better_where_the_metric_says_so() -> None:
    up = tuning(40)
    turned = [
        {**row, "value": None if row["value"] is None else -row["value"]} for row in up.trials.to_pylist()
    ]
    down = replace(up, metric="rmse", trials=up.trials.from_pylist(turned, schema=up.trials.schema))
    assert importance(down) == importance(up)


def test_a_dropped_trial_is_none_of_the_best_whatever_its_value_on_few_users() -> None:
    plain = tuning(40)
    rows = [{**row, "value": 9.0} if row["state"] == "dropped" else row for row in plain.trials.to_pylist()]
    lucky = replace(plain, trials=plain.trials.from_pylist(rows, schema=plain.trials.schema))
    assert importance(lucky) == importance(plain)


def test_importance_of_several_folds_is_their_mean() -> None:
    found = importance(tuning(40, folds=3))
    assert not isinstance(found, str)
    assert sum(found.values()) == pytest.approx(1.0)


def test_importance_is_not_claimed_where_it_cannot_be_known() -> None:
    assert importance(tuning(20)) == "not known: 19 trials count, and it takes 20"
    assert importance(tuning(space={"k": [1, 2]})) == "only one parameter is tuned"
    plain = tuning(40)
    rows = [{**row, "state": "dropped"} if row["trial"] else row for row in plain.trials.to_pylist()]
    assert importance(replace(plain, trials=plain.trials.from_pylist(rows))) == (
        "not known: only 1 of 39 trials were not dropped"
    )


def test_values_outside_of_the_space_and_text_of_json_are_understood() -> None:
    rows = tuning(40).trials.to_pylist()
    rows[0]["params.k"] = 1000  # the defaults
    for row in rows:
        row["params.sim_options.name"] = {"cosine": "true", "msd": '"msd"'}[row["params.sim_options.name"]]
    found = importance(
        tuning(
            trials=tuning().trials.from_pylist(rows),
            space={"k": {"int": [1, 100]}, "sim_options.name": {"choices": [True, "msd"], "when": {"k": 3}}},
        )
    )
    assert not isinstance(found, str)
    assert found["k"] > 0.8
