"""Bake-offs with tuned models: the plan, what is skipped, cut off, continued, synchronised, promoted and registered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from bakeoffs import fits, run_bakeoff
from mlflow import MlflowClient
from samples import RecordingObserver
from tuning_samples import DIAL, dial_config

from evalplugin.bakeoff.dry_run import dry_run
from evalplugin.base.errors import UnchangedError
from evalplugin.execution.results import ModelResult
from evalplugin.features.base import Bakeoff
from evalplugin.features.config import load
from evalplugin.features.tuning.study import Study
from evalplugin.workspace import Workspace

pytestmark = pytest.mark.usefixtures("no_drawing", "store")


def bake(config: dict[str, Any], **options: Any) -> tuple[Bakeoff, list[str]]:
    observer = RecordingObserver()
    return run_bakeoff(load(config), observer=observer, **options), observer.lines


def of(outcome: Bakeoff, model: str) -> ModelResult:
    return next(result for result in outcome.models if result.model == model)


@contextmanager
def stopped_at(owner: type, name: str, when: Callable[..., bool] = lambda *arguments: True) -> Iterator[None]:
    """End the bake-off as Ctrl-C does when a method is called."""
    method = getattr(owner, name)

    def stopping(*arguments: Any, **options: Any) -> Any:
        if when(*arguments):
            raise KeyboardInterrupt
        return method(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, stopping)
        yield


def test_a_tuned_model_is_tested_with_its_best_parameters() -> None:
    outcome, lines = bake(dial_config(tune={"budget": {"trials": 12}}))
    dial, popularity = of(outcome, "dial"), of(outcome, "popularity")
    assert dial.params == {"x": dial.tuning.best[0]["x"], "kind": "plain", "shift": 2}
    assert dial.per_user is not None
    assert popularity.tuning is None
    assert "tuned dial: x=" in "\n".join(lines)
    assert "compute 2 tasks" not in lines

    before = fits()
    again, lines = bake(dial_config(tune={"budget": {"trials": 12}}))
    assert fits() == before
    assert of(again, "dial").params == dial.params
    assert any("12 of them from the store" in line for line in lines)


def test_the_plan_has_the_trials_of_each_model() -> None:
    config = dial_config(split={"type": "kfold", "k": 2}, tune={"budget": {"trials": 12}})
    assert [planned.trials for planned in dry_run(Workspace.open(load(config))).jobs] == [0, 24]
    config["tune"] = {"budget": {"seconds": 5}}
    assert [planned.trials for planned in dry_run(Workspace.open(load(config))).jobs] == [0, None]
    assert fits() == 0


@pytest.mark.slow
def test_nothing_is_done_where_nothing_has_changed() -> None:
    config = dial_config(tune={"budget": {"trials": 4}})
    bake(config)
    with pytest.raises(UnchangedError):
        bake(config, if_changed=True)
    for changes in (
        {"tune": {"budget": {"trials": 5}}},
        {"models": ["popularity", DIAL | {"tune": {"x": [1, 2]}}]},
    ):
        bake(config | changes, if_changed=True)


def test_a_bake_off_that_was_cut_off_while_tuning_is_resumed() -> None:
    # Above 8 a trial fails, which is no reason to try it again.
    config = dial_config(models=["popularity", DIAL | {"tune": {"x": {"float": [0, 16]}}}])
    with (
        stopped_at(Study, "tell", lambda study, trials: trials[0].number >= 8),
        pytest.raises(KeyboardInterrupt),
    ):
        bake(config)
    assert fits() == 10
    outcome, lines = bake(config, mode="resume")
    assert any("which was cut off" in line for line in lines)
    dial = of(outcome, "dial")
    assert "failed" in dial.tuning.trials["state"].to_pylist()
    assert dial.tuning.trials["cached"].to_pylist() == [True] * 10
    assert fits() == 10 + 1  # the tuned model itself


def test_a_model_whose_trials_all_fail_has_failed_and_the_others_finish() -> None:
    config = dial_config(models=["popularity", DIAL | {"params": {"kind": "broken"}}])
    config["tune"] = {"budget": {"trials": 6}}
    outcome, lines = bake(config)
    dial = of(outcome, "dial")
    assert dial.failure == "dial.py:23: RuntimeError: no dial goes to 0 broken"
    assert dial.tuning is None
    assert of(outcome, "popularity").per_user is not None
    assert any(line == "tuned dial: all of 6 trials failed" for line in lines)


@pytest.mark.slow
def test_a_tuned_winner_is_registered_with_its_tuned_parameters(store: Path) -> None:
    config = dial_config(
        models=["random", DIAL],
        compare={"baseline": "random"},
        tune={"budget": {"trials": 10}},
        gate={"min_users": 20},
        register={"name": "shop"},
    )
    outcome, _ = bake(config)
    assert outcome.decision.promoted == "dial"
    params = of(outcome, "dial").params
    assert params["x"] > 0.5
    client = MlflowClient(f"sqlite:///{store}")
    version = client.get_model_version_by_alias("shop", "champion")
    assert str(params["x"]) in "".join([*version.tags.values(), version.description])

    # The next night, the champion has these parameters; the model of the config is tuned anew.
    config["models"] = ["random", DIAL | {"params": dict(params)}]
    outcome, _ = bake(config)
    assert outcome.decision.champion == "champion"
    assert of(outcome, "champion").params == params
    assert of(outcome, "champion").tuning is None
    assert of(outcome, "dial").tuning is not None


def test_some_models_tuned_and_others_not_is_a_warning() -> None:
    models = ["popularity", "random", DIAL, {"name": "other", "type": "dial"}]
    outcome, _ = bake(dial_config(models=models, tune={"budget": {"trials": 1}}))
    (warning,) = [one.line for one in of(outcome, "dial").data.findings if "tuned" in one.text]
    assert warning.startswith("EV105 tiny: models: dial is tuned, and other is not, though it has param")
    outcome, _ = bake(dial_config(tune={"budget": {"trials": 1}}))
    assert not any("tuned" in one.text for one in of(outcome, "dial").data.findings)
