"""Logged models: one for each model's run, with means and costs on the test data."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModel
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import ENDPOINT_NOT_FOUND
from samples import Results

from evalplugin.comparison.comparison import compare
from evalplugin.report.competition import competitions_of
from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.tracker import MlflowTracker


def log(result: Results, uri: str, *, twice: bool = False) -> Links:
    tracker = MlflowTracker.open(result.plan, uri, board=False)
    for model in result.models:
        tracker.start_model(model.data, model.model, model.type)
        for _ in range(1 + twice):
            tracker.finish_model(model)
    comparisons = [compare(contest) for contest in competitions_of(*result)]
    return tracker.finish_bakeoff(result.models, comparisons)


def models(uri: str, experiment_id: str) -> dict[str, LoggedModel]:
    found = MlflowClient(uri).search_logged_models([experiment_id])
    assert len({model.name for model in found}) == len(found)
    return {model.name: model for model in found}


@pytest.fixture(scope="module")
def logged(make: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A bake-off of three models and one that fails, every one logged twice."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('store')}/mlflow.db"
    result = make.whole()
    links = log(result, uri, twice=True)
    found = models(uri, links.experiment_id)
    return SimpleNamespace(uri=uri, result=result, models=found, client=MlflowClient(uri))


def test_every_run_has_one_logged_model_as_its_output(logged: SimpleNamespace) -> None:
    assert {name: model.status.value for name, model in logged.models.items()} == {
        "random": "READY",
        "knn": "READY",
        "svd": "READY",
        "broken": "FAILED",
    }
    for name, model in logged.models.items():
        run = logged.client.get_run(model.source_run_id)
        assert run.info.run_name == name
        assert [output.model_id for output in run.outputs.model_outputs] == [model.model_id]
        assert model.tags["evalplugin.bakeoff"] == logged.result.plan.id
        assert (model.params["model.name"], model.params["model.type"]) == (name, model.model_type)


def test_its_means_and_costs_are_those_of_the_run_on_the_test_data(logged: SimpleNamespace) -> None:
    for name in ("random", "knn", "svd"):
        model = logged.models[name]
        run = logged.client.get_run(model.source_run_id)
        test = next(i.dataset for i in run.inputs.dataset_inputs if i.dataset.name.endswith(" test"))
        assert {(m.dataset_name, m.dataset_digest) for m in model.metrics} == {(test.name, test.digest)}
        own = {metric.key: metric.value for metric in model.metrics}
        assert len(own) == len(model.metrics)  # logged twice, stored once
        assert own == {key: run.data.metrics[key] for key in own}
        assert {"ndcg_at_10", "users", "cost/fit_seconds"} <= own.keys()
        assert not any(key.startswith(("ci/", "dist/", "at_k/")) for key in own)
    assert not logged.models["broken"].metrics


def test_models_are_found_by_their_value_on_a_dataset(logged: SimpleNamespace) -> None:
    metric = next(m for m in logged.models["svd"].metrics if m.key == "ndcg_at_10")
    found = logged.client.search_logged_models(
        [logged.models["svd"].experiment_id],
        f"metrics.ndcg_at_10 >= {metric.value - 1e-12}",
        datasets=[{"dataset_name": metric.dataset_name, "dataset_digest": metric.dataset_digest}],
    )
    assert [model.name for model in found] == ["svd"]


@pytest.mark.slow
def test_names_that_mlflow_refuses_are_changed(make: SimpleNamespace, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    result = make.whole()
    first = result.models[0]
    object.__setattr__(first, "model", "a/b: 50 %, v1.5 \"x\" 'y'")
    object.__setattr__(result.plan, "models", (first.model,))
    single = Results(result.plan, (first,))
    object.__setattr__(single.plan, "baseline", None)
    found = models(uri, log(single, uri).experiment_id)
    assert list(found) == ["a_b_ 50 _, v1_5 _x_ _y_"]
    assert found["a_b_ 50 _, v1_5 _x_ _y_"].params["model.name"] == first.model


@pytest.mark.slow
@pytest.mark.parametrize(
    "error", [MlflowException("no such endpoint", error_code=ENDPOINT_NOT_FOUND), NotImplementedError()]
)
def test_a_store_without_logged_models_takes_all_else_and_that_is_said(error, make, tmp_path, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(MlflowClient, "search_logged_models", refuse)
    monkeypatch.setattr(MlflowClient, "create_logged_model", refuse)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    result = make.whole()
    links = log(Results(result.plan, result.models[:2]), uri)
    assert any("keeps no logged models" in warning for warning in links.warnings)
    run = MlflowClient(uri).get_run(links.compared[0])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["ndcg_at_10"] >= 0
