"""Pictures of tuning, and the importance of parameters."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from samples import model_result, tuning, whole

from evalplugin.execution.results import ModelResult
from evalplugin.features.tuning.pictures import (
    history_chart,
    history_limits,
    importance_chart,
    study_pictures,
)
from evalplugin.features.tuning.summary import importance

BLUE = "#0072B2"


def tuned(
    *folds: tuple[float | None, ...], dropped: float = 0.2, name: str = "knn", **changes: Any
) -> ModelResult:
    """A model with trials of these values on each fold: None is a failed one, ``dropped`` one that was dropped."""
    states = {None: "failed", dropped: "dropped"}
    rows = [
        {"fold": fold, "trial": trial, "state": states.get(value, "done"), "value": value}
        for fold, values in enumerate(folds, 1)
        for trial, value in enumerate(values)
    ]
    plain = tuning()
    kept = plain.trials.slice(0, 1).to_pylist()[0]
    trials = pa.Table.from_pylist([{**kept, **row} for row in rows], schema=plain.trials.schema)
    return model_result(name, 0.25, tuning=replace(plain, trials=trials, **changes))


def rows_of(
    own: ModelResult, *others: ModelResult, kind: str, metric: str = "ndcg@10"
) -> list[Mapping[str, Any]]:
    chart = history_chart(own, others, metric, BLUE, 4, (0.05, 1.0))
    return [row for row in chart.rows if row["kind"] == kind]


def lines(*models: ModelResult, metric: str = "ndcg@10") -> dict[tuple[str, str], list[float]]:
    """Return the values of each line of the first model's history, by its name and colour."""
    drawn: dict[tuple[str, str], list[float]] = {}
    for row in rows_of(*models, kind="best", metric=metric):
        drawn.setdefault((row["line"], row["colour"]), []).append(row["y"])
    return drawn


def test_tuned_models_get_pictures_of_the_same_size() -> None:
    result = whole()
    models = (result.models[0], replace(result.models[1], tuning=tuning()))
    pictures = list(study_pictures(*replace(result, models=models)))
    names = ["tune_history.png", "tune_importance.png"]
    assert [(p.model, p.path) for p in pictures] == [(models[1].model, name) for name in names]
    assert {Image.open(io.BytesIO(picture.draw())).size for picture in pictures} == {(960, 660)}
    assert not list(study_pictures(*result))


def test_the_best_so_far_is_of_trials_that_are_done() -> None:
    dropped = tuned((None, 0.2, 0.9, 0.1, 0.4), dropped=0.9)
    assert lines(dropped) == {("knn 1", BLUE): [0.2, 0.2, 0.2, 0.4]}
    assert lines(dropped, metric="rmse") == {("knn 1", BLUE): [0.2, 0.2, 0.1, 0.1]}


def test_the_best_so_far_of_each_fold_is_a_line_and_those_of_other_models_are_grey() -> None:
    assert lines(tuned((0.1, 0.3), (0.4, 0.3)), tuned((0.12, 0.25), name="svd")) == {
        ("svd 1", "var(--equal)"): [0.12, 0.25],
        ("knn 1", BLUE): [0.1, 0.3],
        ("knn 2", BLUE): [0.4, 0.4],
    }


def test_done_trials_are_filled_dropped_ones_hollow_and_failed_ones_crosses_on_the_axis() -> None:
    drawn = rows_of(tuned((0.1, 0.3, None, 0.2)), kind="trial")
    hollow = "var(--surface)"
    assert [(row["colour"], row["fill"]) for row in drawn] == [
        (BLUE, BLUE), (BLUE, BLUE), ("var(--worse)", hollow), (BLUE, hollow),
    ]  # fmt: skip
    assert [row["y"] for row in drawn] == [0.1, 0.3, 0.05, 0.2]


def test_the_mean_on_the_test_data_is_a_line() -> None:
    model = model_result("knn", tuning=tuning())
    (row,) = rows_of(model, kind="test")
    assert (row["y"], row["text"]) == (model.mean("ndcg@10"), f"test {model.mean('ndcg@10'):.4f}")
    assert not rows_of(replace(model, per_user=None), kind="test")


def test_few_very_bad_trials_do_not_stretch_the_axis_and_the_best_is_on_it() -> None:
    values = (*np.linspace(0.2, 0.3, 30).tolist(), -1e6)
    low, high = history_limits([replace(tuned(values), per_user=None)], "ndcg@10")
    assert 0.19 < low < 0.21
    assert 0.3 < high < 0.32
    errors = tuned(tuple(-v for v in values), validation=-0.3)
    low, high = history_limits([replace(errors, per_user=None)], "rmse")
    assert -0.32 < low < -0.3
    assert -0.21 < high < -0.19


def test_the_axis_has_the_test_values_of_models_that_were_not_tuned() -> None:
    low, high = history_limits([tuned((0.2, 0.3)), model_result("popularity", 0.05)], "ndcg@10")
    assert low < model_result("popularity", 0.05).mean("ndcg@10") < high


@pytest.mark.parametrize("values", [(None, None), (0.2, 0.2), (0.21,)])
def test_an_axis_is_never_empty(values: tuple[float | None, ...]) -> None:
    model = replace(tuned(values, validation=math.nan), per_user=None)
    low, high = history_limits([model], "ndcg@10")
    assert low < high


def test_importance_is_a_bar_for_each_parameter_or_a_reason() -> None:
    chart, note = importance_chart(model_result("knn", tuning=tuning(40)), BLUE, 5)
    assert chart.rows[0]["model"] == "k"
    assert chart.rows[0]["text"].endswith(f" % · best {tuning(40).best[0]['k']}")
    assert len(set(chart.values["names"])) == 5
    assert note == "by PED-ANOVA: what the best trials share"
    chart, note = importance_chart(model_result("knn", tuning=tuning(20)), BLUE, 5)
    assert {row["share"] for row in chart.rows} == {0.0}
    assert note == "not known: 19 trials count, and it takes 20"


def test_the_parameter_that_decides_is_the_most_important() -> None:
    found = importance(tuning(40))
    assert not isinstance(found, str)
    assert next(iter(found)) == "k"
    assert found["k"] > 0.7
    assert sum(found.values()) == pytest.approx(1.0)
    assert set(found) == {"k", "sim_options.name", "sim_options.shrinkage"}


def test_lower_is_better_where_the_metric_says_so() -> None:
    up = tuning(40)
    turned = [{**row, "value": row["value"] and -row["value"]} for row in up.trials.to_pylist()]
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
            space={"k": {"int": [1, 100]}, "sim_options.name": {"choices": [True, "msd"]}},
        )
    )
    assert not isinstance(found, str)
    assert found["k"] > 0.7
