"""Studies: what a trial sees, how they resume and grow, budgets, races, failures, folds."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bakeoffs import fits
from samples import RecordingObserver
from tuning_samples import DIAL, Counted, dial_config, rows, run, tuning

from evalplugin.base.errors import DataError
from evalplugin.execution.engines import Needs
from evalplugin.execution.engines.local import Processes
from evalplugin.execution.executor import task_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare
from evalplugin.execution.tasks import run_task
from evalplugin.execution.worker import Limits
from evalplugin.features.config import load
from evalplugin.features.tuning.feature import studies_of


def ratings(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    chance = np.arange(1, 41) ** -0.8
    items = np.concatenate([rng.choice(40, 15, replace=False, p=chance / chance.sum()) for _ in range(80)])
    return pd.DataFrame(
        {"user": np.repeat(np.arange(80), 15), "item": items, "time": np.tile(np.arange(15), 80)}
    ).assign(rating=rng.integers(1, 6, 1200))


def with_other_test_data(data: pd.DataFrame, n: int) -> pd.DataFrame:
    """Return the ratings with other items and values in the last n of each user, which are no news to the catalogue."""
    changed = data.copy()
    for _, group in data.groupby("user"):
        known = set(group["item"])
        others = [item for item in range(40) if item not in known][:n]
        changed.loc[group.index[-n:], "item"] = others
    changed.loc[changed["time"] >= 15 - n, "rating"] = 5
    return changed


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param(
            {"recommend": {"n": 10, "candidates": "sampled", "negatives": 15}}, marks=pytest.mark.slow
        ),
        pytest.param({"tune": {"split": "holdout"}}, marks=pytest.mark.slow),
    ],
    ids=["plain", "sampled", "holdout"],
)
def test_no_trial_depends_on_the_test_data(changes: dict[str, Any]) -> None:
    csv = {"name": "r", "type": "csv", "path": "r.csv", "user": "user", "item": "item"}
    data = csv | {"rating": "rating", "timestamp": "time"}
    config = dial_config(datasets=[data], split={"type": "last_n", "n": 3}, **changes)
    config["tune"] = config["tune"] | {"budget": {"trials": 8}}
    found, studies = {}, {}
    frames = {"before": ratings(), "after": with_other_test_data(ratings(), 3)}
    differs = (frames["before"] != frames["after"]).any(axis=1)
    assert set(frames["before"]["time"][differs]) == {12, 13, 14}
    for name, frame in frames.items():
        frame.to_csv("r.csv", index=False)
        execute = Counted()
        jobs, studies[name] = run(config, execute, fresh=True)
        found[name] = jobs[1].tuning
        assert len(execute.tasks) == 8
    before, after = (jobs_of_study[0].base for jobs_of_study in studies.values())
    assert before.split.train.digest == after.split.train.digest
    assert rows(found["before"]) == rows(found["after"])
    assert found["before"].best == found["after"].best


def test_the_job_gets_the_best_parameters_and_the_defaults_are_the_first_trial() -> None:
    (popularity, dial), (study,) = run(dial_config(tune={"budget": {"trials": 20}}))
    found = dial.tuning
    table = found.trials.to_pandas()
    assert len(table) == 20
    assert table["params.x"][0] == 0.0
    assert table["best"].sum() == 1
    best = table[table["best"]].iloc[0]
    assert best["value"] == table.loc[table["state"] == "done", "value"].max() == found.validation
    assert found.best == ({"x": best["params.x"]},)
    assert abs(best["params.x"] - 3) < 1
    assert best["value"] > table["value"][0]
    assert dial.model.params == {"x": best["params.x"], "kind": "plain", "shift": 2}
    assert [task.model.params for task in dial.tasks] == [dial.model.params]
    assert dial.tasks[0].race is None
    assert study.base.split is not dial.tasks[0].split
    assert popularity.tuning is None


def test_results_in_any_order_make_the_same_study() -> None:
    config = dial_config(tune={"budget": {"trials": 8}})
    expected = rows(tuning(config, Counted(order=list)))
    Path(".evalplugin").rename("elsewhere")
    assert rows(tuning(config, Counted(order=reversed))) == expected


@pytest.mark.slow
def test_worker_processes_make_the_same_study(tmp_path: Path) -> None:
    config = dial_config(models=[{"type": "ease", "tune": {"l2": {"float": [1, 1000], "log": True}}}])
    config["compare"] = {}
    expected = rows(tuning(config, model="ease"))
    Path(".evalplugin").rename("elsewhere")
    with closing(Processes(Needs(workers=2, limits=Limits(), plugins=(), folder=tmp_path))) as session:
        assert rows(tuning(config, task_executor(session, Observer()), model="ease")) == expected


def test_a_study_that_was_stopped_goes_on() -> None:
    config = dial_config(tune={"budget": {"trials": 10}})
    expected = rows(tuning(config))
    Path(".evalplugin").rename("elsewhere")
    with pytest.raises(KeyboardInterrupt):
        run(config, Counted(stop_after=6))
    again = Counted()
    found = tuning(config, again)
    assert len(again.tasks) == 10 - 6
    assert rows(found) == expected
    assert found.trials["cached"].to_pylist().count(True) == 6


def test_ten_more_trials_compute_ten() -> None:
    before = tuning(dial_config(tune={"budget": {"trials": 6}}))
    more = Counted()
    after = tuning(dial_config(tune={"budget": {"trials": 16}}), more)
    assert len(more.tasks) == 10
    columns = ("trial", "state", "value", "users", "params.x")
    assert rows(after, *columns)[:6] == rows(before, *columns)


def test_another_metric_scores_the_lists_anew_and_fits_nothing() -> None:
    config = dial_config(tune={"budget": {"trials": 4}, "prune": "none"})
    tuning(config)
    before = fits()
    config["tune"] = config["tune"] | {"metric": "recall@10"}
    assert tuning(config).metric == "recall@10"
    assert fits() == before


def test_all_studies_share_the_rounds() -> None:
    other = {**DIAL, "name": "other", "params": {"x": 1.0}}
    execute = Counted()
    run(dial_config(models=["popularity", DIAL, other]), execute)
    assert execute.calls == [8, 8, 4]


# ---- the budget


def seconds_config(seconds: float) -> dict[str, Any]:
    return dial_config(tune={"budget": {"seconds": seconds}})


def test_seconds_are_counted_from_the_costs_that_trials_had_when_they_were_computed(monkeypatch):
    first = tuning(dial_config(tune={"budget": {"trials": 12}}))
    costs = sum(first.trials[f"{step}_seconds"].to_numpy() for step in ("fit", "recommend", "score"))
    spent = np.cumsum(costs)
    none = Counted()
    found = tuning(seconds_config(float(spent[6])), none)
    assert len(none.tasks) == 0  # what the trials cost now is not what counts
    assert len(found.trials) == 8  # the generation in which the budget ends is finished
    assert len(tuning(seconds_config(float(spent[3]) / 2)).trials) == 4


def test_the_first_limit_that_is_reached_ends_a_study() -> None:
    assert len(tuning(dial_config(tune={"budget": {"trials": 5, "seconds": 1000}})).trials) == 5


@pytest.mark.parametrize("budget", [{"trials": 10}, {"seconds": 1000}])
def test_a_study_tries_each_point_once_and_ends_when_all_are_used(budget: dict[str, Any]) -> None:
    config = dial_config(
        models=["popularity", {**DIAL, "tune": {"x": [0.0, 1.0, 3.0]}}],
        tune={"budget": budget, "prune": "none"},
    )
    execute = Counted()
    found = tuning(config, execute)
    assert sorted(found.trials["params.x"].to_pylist()) == [0.0, 1.0, 3.0]
    assert len(execute.tasks) == 3
    assert found.best == ({"x": 3.0},)
    assert "the study ended after 3 trials: all points of the search space have been tried" in found.notes


@pytest.mark.parametrize(
    "space",
    [
        {"x": {"int": [0, 13]}},
        {"kind": ["plain", "shifted"], "shift": {"int": [1, 7]}},
        {"kind": ["plain", "shifted"], "x": {"float": [0, 1]}},
    ],
)
def test_no_point_is_tried_twice(space: dict[str, Any]) -> None:
    config = dial_config(models=["popularity", {**DIAL, "tune": space}], tune={"budget": {"trials": 14}})
    points = rows(tuning(config), *(f"params.{key}" for key in space))
    assert len({str(point) for point in points}) == 14
    Path(".evalplugin").rename("elsewhere")
    assert rows(tuning(config), *(f"params.{key}" for key in space)) == points


def test_defaults_outside_of_the_search_space_are_said_with_the_best() -> None:
    far = {**DIAL, "params": {"x": 3.0}, "tune": {"x": {"float": [5.0, 8.0]}}}
    observer = RecordingObserver()
    found = tuning(dial_config(models=["popularity", far]), observer=observer)
    assert found.best == ({"x": 3.0},)
    assert found.notes[:2] == (
        "the defaults are outside of the search space (x=3, allowed: 5 to 8), and are the first trial all the same",
        "no trial was better than the defaults on validation data",
    )
    told = "tuned dial: x=3 (the defaults, outside of the search space), ndcg@10 "
    assert observer.lines[-1].startswith(told)


# ---- the race


def test_a_race_drops_bad_trials_on_a_part_of_the_users_and_never_the_incumbent() -> None:
    jobs, (study,) = run(dial_config(seed=2, tune={"budget": {"trials": 20}}))
    found = jobs[1].tuning
    raced = found.trials.to_pandas()
    n = int(raced["users"].max())
    dropped = raced["state"] == "dropped"
    assert dropped.sum() > 2
    assert set(raced["users"][dropped]) <= {n // 8, n // 4, n // 2}
    assert set(raced["users"][~dropped]) == {n}
    assert not dropped[:4].any()  # there is no incumbent yet
    text = f"race: {dropped.sum()} of 20 trials were dropped early, which saved "
    assert any(note.startswith(text) for note in found.notes)

    best, sizes = None, []
    for number, trial in enumerate(study.trials):
        if number % 4 == 0:
            incumbent = best
        race = trial.task.race
        assert (race is None) == (incumbent is None)
        if race is not None:
            assert incumbent is not None
            assert np.nanmean(race.values) == pytest.approx(incumbent.value)
            sizes.append(len(race.users))
        if trial.state == "done" and (best is None or trial.value > best.value):
            best = trial
    assert best is study.best
    assert set(sizes) == {n}


def test_a_trial_that_a_race_keeps_has_the_value_that_it_has_without_one() -> None:
    _, (study,) = run(dial_config(tune={"budget": {"trials": 12}}))
    kept = [trial for trial in study.trials if trial.task.race is not None and trial.state == "done"]
    assert kept
    for trial in kept:
        alone = replace(trial)
        study.end(alone, run_task(replace(trial.task, race=None), "", Observer()), cached=False)
        assert (alone.value, alone.users) == (trial.value, trial.users)
        assert np.array_equal(alone.scores, trial.scores, equal_nan=True)


def test_errors_are_raced_as_well() -> None:
    config = dial_config(
        metrics=["ndcg@10", "rmse"],
        models=[
            "popularity",
            {"name": "svd", "type": "surprise.SVD", "tune": {"lr_all": {"float": [1e-4, 0.1], "log": True}}},
        ],
        tune={"metric": "rmse", "budget": {"trials": 12}},
    )
    found = tuning(config, model="svd")
    table = found.trials.to_pandas()
    done = table[table["state"] == "done"]
    assert found.validation == done["value"].min()
    assert (table["state"] == "dropped").any()


# ---- failures, folds


def test_a_trial_that_fails_is_a_row_and_the_study_goes_on() -> None:
    config = dial_config(models=["popularity", {**DIAL, "tune": {"x": {"float": [0, 16]}}}])
    config["tune"] = {"budget": {"trials": 16}}
    found = tuning(config)
    table = found.trials.to_pandas()
    failed = table[table["state"] == "failed"]
    assert len(failed) > 0
    assert failed["value"].isna().all()
    assert (failed["params.x"] > 8).all()
    assert failed["error"].str.startswith("dial.py:23: RuntimeError: no dial goes to").all()
    assert table.loc[table["state"] != "failed", "error"].isna().all()
    assert any(f"{len(failed)} of 16 trials failed" in note for note in found.notes)


def test_defaults_that_fail_do_not_end_a_study() -> None:
    broken = {**DIAL, "params": {"kind": "broken"}, "tune": {"kind": ["plain", "shifted", "broken"]}}
    found = tuning(dial_config(models=["popularity", broken]))
    assert found.trials["state"].to_pylist()[0] == "failed"
    assert found.best == ({"kind": "plain"},)


def test_each_fold_has_a_study_of_its_own() -> None:
    config = dial_config(split={"type": "kfold", "k": 2}, tune={"budget": {"trials": 8}})
    jobs, studies = run(config)
    found = jobs[1].tuning
    assert found.trials["fold"].to_pylist() == [1] * 8 + [2] * 8
    assert [study.label for study in studies] == ["dial, fold 1 of 2", "dial, fold 2 of 2"]
    assert [task.model.params["x"] for task in jobs[1].tasks] == [values["x"] for values in found.best]
    assert found.best[0] != found.best[1]
    assert jobs[1].model.params["x"] == found.best[1]["x"]
    best = found.trials.to_pandas().query("best")["value"]
    assert found.validation == pytest.approx(best.mean())
    assert any(note.startswith("folds chose different parameters (fold 1: x=") for note in found.notes)


# ---- validation data


def test_the_validation_data_is_inside_the_train_data() -> None:
    checked = load(dial_config(tune={"split": {"type": "holdout", "fraction": 0.3}}))
    prepared = prepare(checked, None, Observer())
    (study,) = studies_of(checked, prepared, jobs_of(checked, prepared))
    (fold,) = prepared[0].folds
    parts = (study.base.split.train, study.base.split.test)
    train = set(zip(fold.train.user.tolist(), fold.train.item.tolist(), strict=True))
    for part in parts:
        assert set(zip(part.user.tolist(), part.item.tolist(), strict=True)) < train
        assert np.array_equal(part.users, fold.train.users)
    assert sum(map(len, parts)) == len(fold.train)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"split": {"type": "last_n", "n": 4}, "tune": {"split": {"type": "last_n", "n": 500}}},
            "tune: the train data of tiny, last_n, fold 1 cannot be split for validation: split last_n: no user has",
        ),
        (
            {"split": {"type": "temporal"}},
            "(tune.split is left out, so that it is split like all data): split temporal: no interaction is",
        ),
    ],
)
def test_train_data_that_cannot_be_split_is_an_error(changes: Mapping[str, Any], expected: str) -> None:
    if changes["split"]["type"] == "temporal":
        times = prepare(load(dial_config()), None, Observer())[0].info.full.timestamp
        changes = {"split": {"type": "temporal", "cutoff": int(np.quantile(times, 0.8))}}
    checked = load(dial_config(**changes))
    prepared = prepare(checked, None, Observer())
    with pytest.raises(DataError) as caught:
        studies_of(checked, prepared, jobs_of(checked, prepared))
    assert expected in str(caught.value)


def test_the_best_value_at_an_end_of_its_range_is_noted() -> None:
    narrow = {**DIAL, "params": {"x": 8.0}, "tune": {"x": {"float": [4.0, 8.0], "step": 2.0}}}
    found = tuning(dial_config(models=["popularity", narrow], tune={"budget": {"trials": 12}}))
    assert found.best == ({"x": 4.0},)
    assert found.notes[0] == (
        "the best x, 4, is at an end of its range, 4 to 8: a wider range may hold a better one"
    )
