"""The count of a gate's decisions, in a real SQLite store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from mlflow import MlflowClient

from evalplugin.base.places import DataSplit
from evalplugin.features.gate.decision import Decision, DecisionBudget
from evalplugin.features.gate.ledger import Ledger

KEEP = Decision(
    "keep", None, "old", "it stays", "ndcg@10", 0.95, ("new",), (), "b", "toy", "last_n", budget=DecisionBudget(90)
)  # fmt: skip
SHARE = 0.05 / 90


def decide(budget: DecisionBudget) -> Decision:
    """Keep as long as there is error to spend, and refuse then, as a gate does."""
    return replace(KEEP, outcome="keep" if budget.error(0.95) else "refuse", budget=budget)


class Nights:
    """An experiment in which decisions are taken."""

    def __init__(self, uri: str) -> None:
        self.uri, self.client = uri, MlflowClient(uri)
        self.experiment = self.client.create_experiment("nightly")

    def bakeoff(self, name: str) -> None:
        """Log a bake-off of one model."""
        for role in ("model", "summary"):
            tags = {"evalplugin.bakeoff": name, "evalplugin.role": role, "evalplugin.model": "new"}
            self.client.set_terminated(self.client.create_run(self.experiment, tags=tags).info.run_id)

    def decide(
        self,
        name: str,
        decisions: int = 90,
        how: Callable[[DecisionBudget], Decision] = decide,
        split: str = "last_n",
    ) -> Decision:
        """Log a bake-off, and decide on it as the gate does."""
        self.bakeoff(name)
        ledger = Ledger.open(self.uri, "nightly", DataSplit("toy", split), name)
        return ledger.decide(decisions, lambda budget: replace(how(budget), split=split))

    def budget(self, decisions: int = 90, *, split: str = "last_n", bakeoff: str = "") -> DecisionBudget:
        return Ledger.open(self.uri, "nightly", DataSplit("toy", split), bakeoff).budget(decisions)

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the experiment that count decisions."""
        tags = self.client.get_experiment(self.experiment).tags
        return {key: tags[key] for key in tags if key.startswith("evalplugin.decision.")}

    def runs(self) -> list[str]:
        return [run.info.run_id for run in self.client.search_runs([self.experiment])]


@pytest.fixture
def nights(uri: str) -> Nights:
    return Nights(uri)


def test_decisions_are_counted_with_what_they_spent(nights: Nights) -> None:
    assert nights.budget() == DecisionBudget(90)
    for night, outcome in enumerate(("keep", "promote", "cannot_tell", "refuse")):
        nights.decide(f"b-{night}", how=lambda budget, o=outcome: replace(KEEP, outcome=o, budget=budget))
    nights.bakeoff("without gate")
    nights.decide("on another split", split="temporal")
    assert nights.budget() == DecisionBudget(90, 3, pytest.approx(3 * SHARE))
    assert nights.budget(100, split="temporal") == DecisionBudget(100, 1, pytest.approx(SHARE))
    assert len(nights.tags) == 4


def test_further_decisions_on_a_bakeoff_do_not_count_twice(nights: Nights) -> None:
    nights.decide("b-1")
    nights.decide("b-1")
    assert nights.budget() == DecisionBudget(90, 1, pytest.approx(SHARE))
    assert nights.budget(bakeoff="b-1") == DecisionBudget(90)
    assert nights.budget(bakeoff="b-2").taken == 1


def test_what_was_decided_stays_taken_when_runs_are_deleted(nights: Nights) -> None:
    nights.decide("b-1")
    nights.decide("b-2")
    for run in nights.runs():
        nights.client.delete_run(run)
    assert nights.budget() == DecisionBudget(90, 2, pytest.approx(2 * SHARE))


def test_without_a_store_or_an_experiment_nothing_was_decided(uri: str, tmp_path: object) -> None:
    for store in (uri, f"sqlite:///{tmp_path}/none.db"):
        assert Ledger.open(store, "unknown", DataSplit("toy", "")).budget(7) == DecisionBudget(7)


@pytest.mark.parametrize("left", [90, 1])
def test_two_gates_at_once_spend_two_decisions(nights: Nights, left: int) -> None:
    both = threading.Barrier(2)
    met: dict[str, int] = {}

    def at_once(name: str) -> Callable[[DecisionBudget], Decision]:
        def one(budget: DecisionBudget) -> Decision:
            met[name] = met.get(name, 0) + 1
            if met[name] == 1:
                both.wait(60)  # both have read that nothing is taken
            return decide(budget)

        return one

    decided: dict[str, Decision] = {}

    def run(name: str) -> None:
        decided[name] = nights.decide(name, left, at_once(name))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("b-1", "b-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcomes = sorted(decision.outcome for decision in decided.values())
    budget = nights.budget(left)
    warned = [d for d in decided.values() if any("at the same time" in note for note in d.notes)]
    assert warned, "at least one of them saw the other"
    assert budget.taken == outcomes.count("keep")
    assert budget.spent <= 0.05 + 1e-12
    assert outcomes == ["keep", "keep"] if left == 90 else outcomes.count("keep") <= 1
