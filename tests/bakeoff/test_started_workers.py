"""Worker processes of a bake-off: none is started where nothing is computed, and no more than there are tasks."""

from __future__ import annotations

import pytest
from bakeoffs import run_bakeoff
from samples import CHANCE, small_config
from tuning_samples import dial_config

from evalplugin.config import load
from evalplugin.features.tuning.command import tune
from evalplugin.workspace import Workspace

pytestmark = pytest.mark.usefixtures("no_drawing", "store")


def test_no_process_is_started_where_all_is_cached(started: list[int]) -> None:
    config = small_config()
    computed = run_bakeoff(load(config))
    again = run_bakeoff(load(config), workers=2)
    assert started == []
    means = [[model.fold_means for model in outcome.result.models] for outcome in (computed, again)]
    assert means[0] == means[1]


def test_one_process_is_started_for_one_missing_task(started: list[int]) -> None:
    run_bakeoff(load(small_config()))
    outcome = run_bakeoff(load(small_config(models=["random", "popularity", CHANCE])), workers=2)
    assert len(started) == 1
    assert all(model.error is None for model in outcome.result.models)


def test_no_process_is_started_where_all_trials_are_cached(started: list[int]) -> None:
    config = dial_config(tune={"budget": {"trials": 5}})
    tune(Workspace.open(load(config)))
    run_bakeoff(load(config))
    tune(Workspace.open(load(config)), workers=2)
    run_bakeoff(load(config), workers=2)
    assert started == []
