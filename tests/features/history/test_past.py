"""Bake-offs of the past, read back from a real SQLite store."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import evalplugin
from evalplugin.base.errors import DataError, TrackingError
from evalplugin.execution.results import ModelResult, Plan
from evalplugin.features.gate.decision import Decision
from evalplugin.features.gate.report import decision_tags
from evalplugin.features.history import feature
from evalplugin.features.history.feature import past_of, read_past, with_decision
from evalplugin.tracking.read.runs import last_finished
from evalplugin.tracking.write import labels
from evalplugin.tracking.write.items import Tag
from evalplugin.tracking.write.tracker import MlflowTracker

KEPT = Decision("keep", None, "random", "it stays", "ndcg@10", 0.95, ("knn",), (), "b-1", "toy", "last_n")
INPUTS = {"config": "c0ffee00c0ffee00", "data": "d1", "code": "e1"}


def log(
    uri: str,
    asked: Plan,
    *results: ModelResult,
    status: str | None = "FINISHED",
    decided: dict[str, str] | None = None,
    decision: Decision | None = None,
) -> None:
    """Log a bake-off without what this test does not read: pictures and the page."""
    tracker = MlflowTracker.open(asked, uri)
    for result in results:
        tracker.start_model(result.data, result.model, result.type)
        tracker.finish_model(result)
    if status is None:
        with suppress(KeyboardInterrupt), tracker:
            raise KeyboardInterrupt
        return
    tags = [Tag("evalplugin.role", "summary"), *tracker.common_tags]
    run_id = tracker.writer.start("summary", tags)
    failed = sum(result.error is not None for result in results)
    tracker.client.log_metric(run_id, "models_failed", failed)
    for key, value in (decided or {}).items():
        tracker.client.set_tag(run_id, f"evalplugin.{key}", value)
    if decision is not None:
        tracker.writer.log(run_id, decision_tags(decision))
    tracker.client.set_terminated(run_id, status)


def asked(make: SimpleNamespace, number: int, **changes: Any) -> Plan:
    changed = {"id": f"b-{number}", "experiment": "nightly", "inputs": INPUTS, **changes}
    return make.bakeoff(("random", "knn", "broken"), **changed)


def test_logged_bakeoff_is_read_back(make: SimpleNamespace, uri: str) -> None:
    decided = {"outcome": "promote", "champion": "random", "promoted": "knn"}
    random, knn = make.model_result("random", 0.2), make.model_result("knn", 0.5)
    log(uri, asked(make, 1), random, knn, make.failed_result("broken"), decided=decided)
    (found,) = read_past(uri, experiment="nightly")
    assert (found.id, found.primary, found.baseline) == ("b-1", "ndcg@10", "random")
    assert (found.outcome, found.champion, found.promoted) == ("promote", "random", "knn")
    assert [m.model for m in found.models] == ["random", "knn", "broken"]
    value = found.models[1].values["ndcg@10"]
    assert value.mean == pytest.approx(knn.per_user.means["ndcg@10"])
    assert value.users == 197
    assert value.low < value.mean < value.high
    assert found.models[2].values == {}
    assert found.decided is None
    assert found.models[1].data == knn.data.test.digest
    assert set(found.models[1].definitions) == set(make.METRICS)


def test_models_stand_in_config_order_whichever_was_logged_first(make: SimpleNamespace, uri: str) -> None:
    results = [
        make.model_result(name, 0.2, data=replace(make.data_info(), dataset=dataset))
        for name, dataset in (("knn", "b"), ("knn", "a"), ("random", "b"), ("random", "a"))
    ]
    log(uri, asked(make, 1, datasets=("a", "b")), *results)
    (found,) = read_past(uri, experiment="nightly")
    assert [(m.dataset, m.model) for m in found.models] == [
        ("a", "random"), ("a", "knn"), ("b", "random"), ("b", "knn"),
    ]  # fmt: skip


def test_dataset_and_split_of_a_decision_are_read_back(make: SimpleNamespace, uri: str) -> None:
    log(uri, asked(make, 1), make.model_result("knn", 0.5), decision=KEPT)
    (found,) = read_past(uri, experiment="nightly")
    assert (found.outcome, found.champion, found.promoted) == ("keep", "random", None)
    assert found.decided == ("toy", "last_n")


def test_the_running_bake_off_has_its_decision_before_that_is_logged(make: SimpleNamespace, uri: str) -> None:
    log(uri, asked(make, 1), make.model_result("knn", 0.5))
    tracker, knn = MlflowTracker.open(asked(make, 2), uri), make.model_result("knn", 0.5)
    tracker.start_model(knn.data, "knn", "random")
    tracker.finish_model(knn)
    decision = json.loads(replace(KEPT, outcome="promote", promoted="knn", contest="b-2").to_json())
    past = past_of(tracker.client, tracker.experiment_id)
    first, second = with_decision(past, asked(make, 2).id, decision)
    assert (first.outcome, first.decided) == (None, None)
    assert (second.outcome, second.champion, second.promoted) == ("promote", "random", "knn")
    assert second.decided == ("toy", "last_n")


def test_the_latest_bake_offs_come_the_oldest_first_and_those_cut_off_count_as_far_as_they_got(make, uri):
    for number in range(1, 4):
        status = None if number == 2 else "FINISHED"
        log(uri, asked(make, number), make.model_result("knn", 0.1 * number), status=status)
    assert [b.id for b in read_past(uri, experiment="nightly")] == ["b-1", "b-2", "b-3"]
    assert [b.id for b in read_past(uri, experiment="nightly", last=2)] == ["b-2", "b-3"]
    assert read_past(uri, experiment="nightly")[0].outcome is None


def test_bakeoffs_without_an_ended_run_are_left_out(make: SimpleNamespace, uri: str) -> None:
    log(uri, asked(make, 1), make.model_result("knn", 0.5))
    log(uri, asked(make, 2), make.model_result("knn", 0.5))
    fitting = make.model_result("knn", 0.5)
    MlflowTracker.open(asked(make, 3), uri).start_model(fitting.data, fitting.model, fitting.type)
    assert [b.id for b in read_past(uri, experiment="nightly", last=1)] == ["b-2"]


def test_a_long_history_is_read_page_by_page(make, uri, monkeypatch):
    for number in range(1, 6):
        decided = {"outcome": "keep", "champion": f"champion {number}"}
        log(uri, asked(make, number), make.model_result("knn", 0.5), decided=decided)
    for number in (6, 7):
        fitting = make.model_result("knn", 0.5)
        MlflowTracker.open(asked(make, number), uri).start_model(fitting.data, fitting.model, fitting.type)
    monkeypatch.setattr(feature, "_PAGE", 2)
    found = read_past(uri, experiment="nightly", last=4)
    assert [(b.id, b.champion) for b in found] == [(f"b-{n}", f"champion {n}") for n in range(2, 6)]


def test_history_function_returns_the_bakeoffs_by_a_metric(make: SimpleNamespace, uri: str) -> None:
    for number, level in ((1, 0.5), (2, 0.3)):
        log(uri, asked(make, number), make.model_result("random", 0.2), make.model_result("knn", level))
    found = evalplugin.history("nightly", tracking_uri=uri)
    assert [(p.bakeoff.id, p.model.model) for p in found.points] == [
        ("b-1", "random"), ("b-1", "knn"), ("b-2", "random"), ("b-2", "knn"),
    ]  # fmt: skip
    assert evalplugin.history("nightly", metric="rr", last=1, tracking_uri=uri).metric == "rr"


def test_what_is_not_there_is_told(make: SimpleNamespace, uri: str, tmp_path: Any) -> None:
    log(uri, asked(make, 1))
    with pytest.raises(DataError, match=r"'nightly' .* has no bake-offs; make one"):
        read_past(uri, experiment="nightly")
    with pytest.raises(DataError, match="has no experiment 'nihgtly'; did you mean 'nightly'"):
        read_past(uri, experiment="nihgtly")
    with pytest.raises(TrackingError, match="there is no tracking store"):
        read_past(f"sqlite:///{tmp_path}/none.db", experiment="nightly")


def test_last_finished_bakeoff_is_found_by_config_hash(make: SimpleNamespace, uri: str) -> None:
    knn = make.model_result("knn", 0.5)
    assert last_finished(uri, "nightly", INPUTS["config"]) is None
    log(uri, asked(make, 1), knn)
    log(uri, asked(make, 2, inputs={**INPUTS, "data": "d2"}), knn, decided={"outcome": "keep"})
    log(uri, asked(make, 3, inputs={**INPUTS, "config": "another"}), knn)
    log(uri, asked(make, 4), knn, status="KILLED")
    found = last_finished(uri, "nightly", INPUTS["config"])
    assert (found.bakeoff, found.tag("outcome")) == ("b-2", "keep")
    assert found.mapping("inputs") == {**INPUTS, "data": "d2"}
    log(uri, asked(make, 5), knn, make.failed_result("broken"))
    assert last_finished(uri, "nightly", INPUTS["config"]) is None  # what failed may be run again


def test_input_hashes_are_a_tag_of_every_run(make: SimpleNamespace) -> None:
    assert dict(labels.common_tags(asked(make, 1)))["inputs"] == {**INPUTS, "data": "d1"}
