"""Pictures of tuning, and the importance of parameters."""

from __future__ import annotations

import io
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from samples import tuning

from evalplugin.features.tuning.pictures import (
    FoldTrials,
    StudyCurve,
    StudyRequest,
    history_limits,
)
from evalplugin.features.tuning.summary import importance


def curve(
    model: str = "knn", values: tuple[float, ...] = (0.1, 0.3, np.nan, 0.2), **changes: object
) -> StudyCurve:
    trials = FoldTrials(np.array(values), np.array([v == v and v != 0.2 for v in values]))
    importance, best = {"k": 0.75, "reg": 0.25}, {"k": "40", "reg": "0.1"}
    made = StudyCurve(model, "ndcg@10", "#0072B2", (trials,), 0.3, 0.25, importance, best, "4 trials")
    return replace(made, **changes)  # type: ignore[arg-type]


def pixels(png: bytes) -> np.ndarray:
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(png)))


def histories(*curves: StudyCurve) -> dict[str, bytes]:
    return StudyRequest("history", curves, 4, history_limits(curves)).draw()


def test_every_tuned_model_gets_pictures_of_the_same_size() -> None:
    curves = [curve("knn"), curve("svd", (0.1, 0.15), colour="#D55E00")]
    for drawn in (histories(*curves), StudyRequest("importance", curves, 2).draw()):
        assert list(drawn) == ["knn", "svd"]
        assert {pixels(png).shape[:2] for png in drawn.values()} == {(440, 640)}
        assert drawn["knn"] != drawn["svd"]


def test_a_model_that_was_not_tuned_gets_pictures_on_the_same_axes() -> None:
    untuned = curve("popularity", folds=(), validation=float("nan"), importance="not tuned", best={})
    curves = [curve("knn"), untuned]
    drawn = histories(*curves)
    assert history_limits(curves) == history_limits([curve("knn")])
    assert drawn["knn"] == histories(curve("knn"))["knn"]
    assert drawn["popularity"] != drawn["knn"]
    assert {pixels(png).shape[:2] for png in StudyRequest("importance", curves, 2).draw().values()} == {
        (440, 640)
    }


def test_pictures_are_the_same_from_another_process() -> None:
    request = StudyRequest("history", [curve()], 4, (0.0, 1.0))
    assert request.draw() == pickle.loads(pickle.dumps(request)).draw()


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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert histories(curve(values=values, test=float("nan"), validation=float("nan")))


@pytest.mark.parametrize("changed", ["dropped", "failed", "others", "test", "folds"])
def test_a_history_shows(changed: str) -> None:
    plain = curve()
    (fold,) = plain.folds
    other = {
        "dropped": [curve(folds=(fold._replace(done=~np.isnan(fold.values)),))],
        "failed": [curve(values=(0.1, 0.3, 0.15, 0.2))],
        "others": [plain, curve("svd", (0.12, 0.2, 0.22, 0.25))],
        "test": [curve(test=0.2)],
        "folds": [curve(folds=(fold, fold._replace(values=fold.values * 0.9)))],
    }[changed]
    limits = history_limits([plain])
    first, second = (StudyRequest("history", curves, 4, limits).draw()["knn"] for curves in ([plain], other))
    assert first != second


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
