"""The gate in a bake-off: a champion among the models, a decision on its challengers, the winner registered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from evalplugin.base.errors import EngineError, ModelError, StoreError, TrackingError
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.base import Feature, Results, Running
from evalplugin.features.gate.decide import check_decisions
from evalplugin.features.gate.ledger import Ledger
from evalplugin.features.gate.promotion import GatedConfig, decide_bakeoff, register_winner, with_champion
from evalplugin.features.gate.report import decision_files, decision_statement, decision_tags
from evalplugin.report.sections import Section
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.write.items import Item
from evalplugin.workspace import Workspace


@dataclass
class GateFeature(Feature):
    """Decides whether a challenger takes the champion's place, and registers the winner; idle without a gate."""

    gated: GatedConfig | None = None

    def start(self, workspace: Workspace) -> Workspace:
        """Add the champion to the models, and report how many decisions are left.

        Raises:
            DataError, TrackingError: As ``with_champion`` and ``_check_budget``.
        """
        self.gated = with_champion(workspace.config, workspace.uri)
        if self.gated is None:
            return workspace
        for note in self.gated.notes:
            workspace.observer.report(note)
        _check_budget(workspace)
        return replace(workspace, config=self.gated.config)

    def difference(self, last: LoggedRun) -> str | None:
        """Return that the champion is another one than the last bake-off has left."""
        left = (last.tag("promoted") if last.tag("registered") else "") or last.tag("champion")
        if self.gated is None or self.gated.champion == left:
            return None
        return f"the champion is {self.gated.champion} now; after the bake-off {last.bakeoff} it was {left}"

    def after(self, running: Running, results: Results) -> Results:
        """Decide."""
        if self.gated is None:
            return results
        contests = [comparison.contest for comparison in results.comparisons]
        decision = decide_bakeoff(self.gated, contests, results.result.bakeoff, running.workspace.uri)
        return results.having(decision=decision)

    def sections(self, comparisons: Sequence[Comparison], values: Mapping[str, Any]) -> Iterator[Section]:
        """Yield the decision."""
        if (decision := values.get("decision")) is not None:
            yield Section(statement=decision_statement(decision))

    def items(self, results: Results) -> Iterator[Item]:
        """Yield the decision for people and for programs."""
        if (decision := results.values.get("decision")) is not None:
            yield from decision_files(decision)
            yield from decision_tags(decision)

    def end(self, running: Running, results: Results) -> Results:
        """Register the winner, if there is one; a failure is part of the results, as all else is logged."""
        if self.gated is None or results.links is None:
            return results
        tracker, run_id = running.tracker, results.links.summary_run_id
        running.journal.resumable = True  # until the winner is registered
        try:
            wrong = next((finding for finding in results.findings if finding.is_error), None)
            if self.gated.config.spec.registered is not None and wrong is not None:
                raise ModelError(f"nothing is registered: {wrong.line} (checks.error)")
            registered = register_winner(self.gated, running, results)
            if registered is not None:
                tracker.tag(run_id, "registered", f"{registered.name}, version {registered.version}")
        except (EngineError, ModelError, StoreError, TrackingError) as error:
            with suppress(TrackingError):
                tracker.tag(run_id, "registered", f"failed: {error}")
            is_final = isinstance(error, ModelError)  # a model would fail again
            hint = "" if is_final else f"; {running.workspace.resume_hint}"
            results = results.having(unregistered=f"{error}{hint}")
            running.journal.resumable = not is_final
        else:
            running.journal.resumable = False
        return results


def _check_budget(workspace: Workspace) -> None:
    """Report how many decisions the gate of a config has left, before anything is fitted.

    Raises:
        DataError: More were taken than ``gate.decisions``, or their count is damaged.
        TrackingError: The store cannot be reached.
    """
    config, gate = workspace.config, workspace.config.spec.gate
    if gate is None or gate.decisions is None:
        return
    dataset, split = gate.dataset or config.datasets[0].name, gate.split or config.splits[0].name
    budget = Ledger.open(workspace.uri, workspace.experiment, dataset, split).budget(gate.decisions)
    check_decisions(budget)
    if budget.error(gate.confidence):
        workspace.observer.report(f"{budget.left:,} of {budget.decisions:,} decisions of the gate are left")
    else:
        workspace.observer.warn(
            f"all decisions of gate.decisions: {budget.decisions} are taken: the gate will refuse; to begin anew, give "
            f"the config another experiment"
        )
