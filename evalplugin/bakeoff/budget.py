"""The error that a gate with ``decisions`` has left, before a bake-off is run and when it is decided."""

from __future__ import annotations

from evalplugin.comparison.gate import check_decisions
from evalplugin.config import CheckedConfig
from evalplugin.execution.observer import Observer
from evalplugin.tracking.ledger import Ledger

__all__ = ["check_budget"]


def check_budget(config: CheckedConfig, uri: str, experiment: str, observer: Observer) -> None:
    """Report how many decisions the gate of a config has left, before anything is fitted.

    Raises:
        DataError: More were taken than ``gate.decisions``, or their count is damaged.
        TrackingError: The store cannot be reached.
    """
    gate = config.spec.gate
    if gate is None or gate.decisions is None:
        return
    dataset, split = gate.dataset or config.datasets[0].name, gate.split or config.splits[0].name
    budget = Ledger.open(uri, experiment, dataset, split).budget(gate.decisions)
    check_decisions(budget)
    if budget.error(gate.confidence):
        observer.report(f"{budget.left:,} of {budget.decisions:,} decisions of the gate are left")
    else:
        observer.warn(
            f"all decisions of gate.decisions: {budget.decisions} are taken: the gate will refuse; to begin anew, give "
            f"the config another experiment"
        )
