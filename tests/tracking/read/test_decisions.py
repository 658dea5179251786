"""Earlier decisions of a gate, read back from a real SQLite store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mlflow import MlflowClient

from evalplugin.comparison.gate import Budget, Decision
from evalplugin.tracking.read.decisions import budget_beside, budget_in
from evalplugin.tracking.write.decisions import log_decision

KEEP = Decision(
    "keep", None, "old", "it stays", "ndcg@10", 0.95, ("new",), (), "b", "toy", "last_n", budget=Budget(90)
)
SHARE = 0.05 / 90


class Nights:
    """An experiment in which decisions are taken."""

    def __init__(self, uri: str) -> None:
        self.uri, self.client = uri, MlflowClient(uri)
        self.experiment = self.client.create_experiment("nightly")

    def bakeoff(self, name: str, decision: Decision | None = None, *, summary: bool = True) -> str:
        """Log a bake-off of one model and the decision on it; return the id of the model's run."""
        ids = []
        for role in ("model", *(["summary"] if summary else [])):
            tags = {"evalplugin.bakeoff": name, "evalplugin.role": role, "evalplugin.model": "new"}
            ids.append(self.client.create_run(self.experiment, tags=tags).info.run_id)
            self.client.set_terminated(ids[-1])
        if decision is not None:
            log_decision(self.uri, decision, ids[:1])
        return ids[0]

    def budget(self, decisions: int = 90, *, split: str = "last_n", but: str | None = None) -> Budget:
        return budget_in(self.uri, "nightly", decisions, dataset="toy", split=split, but=but)


@pytest.fixture
def nights(uri: str) -> Nights:
    return Nights(uri)


def test_decisions_are_counted_with_what_they_spent(nights: Nights) -> None:
    assert nights.budget() == Budget(90)
    for night, outcome in enumerate(("keep", "promote", "cannot_tell", "refuse")):
        nights.bakeoff(f"b-{night}", replace(KEEP, outcome=outcome))
    nights.bakeoff("without gate")
    nights.bakeoff("without decisions", replace(KEEP, budget=None))
    nights.bakeoff("on another split", replace(KEEP, split="temporal"))
    assert nights.budget() == Budget(90, 3, pytest.approx(3 * SHARE))
    assert nights.budget(100, split="temporal") == Budget(100, 1, pytest.approx(SHARE))


def test_further_decisions_on_a_bakeoff_do_not_count_twice(nights: Nights) -> None:
    run = nights.bakeoff("b-1", KEEP)
    log_decision(nights.uri, replace(KEEP, metric="rr", reason="another"), [run])
    assert len(nights.client.search_runs([nights.experiment])) == 3
    assert nights.budget() == Budget(90, 1, pytest.approx(SHARE))
    assert nights.budget(but="b-1") == Budget(90)
    assert budget_beside(nights.uri, [run], 90, dataset="toy", split="last_n") == Budget(90)
    other = nights.bakeoff("b-2")
    assert budget_beside(nights.uri, [other], 90, dataset="toy", split="last_n").taken == 1


def test_a_decision_on_a_run_of_its_own_counts(nights: Nights) -> None:
    nights.bakeoff("b-1", KEEP, summary=False)
    assert nights.budget().taken == 1


def test_a_deleted_bakeoff_does_not_count(nights: Nights) -> None:
    nights.bakeoff("b-1", KEEP)
    for run in nights.client.search_runs([nights.experiment]):
        nights.client.delete_run(run.info.run_id)
    assert nights.budget() == Budget(90)


def test_without_a_store_or_an_experiment_nothing_was_decided(uri: str, tmp_path: object) -> None:
    assert budget_in(uri, "unknown", 7, dataset="toy", split="") == Budget(7)
    assert budget_in(f"sqlite:///{tmp_path}/none.db", "nightly", 7, dataset="toy", split="") == Budget(7)
