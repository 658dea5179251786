"""The gate in a bake-off: a champion among the models, a decision on its challengers, the winner registered."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evalplugin.base.errors import EXIT_DONE, EngineError, ModelError, StoreError, TrackingError
from evalplugin.base.places import DataSplit
from evalplugin.comparison.comparison import Comparison
from evalplugin.config import ModelRecipe
from evalplugin.data import Interactions, in_one_piece
from evalplugin.execution.engines import Call, run_calls
from evalplugin.execution.isolation import TaskFailure, last_line
from evalplugin.execution.results import DataInfo
from evalplugin.features.base import Bakeoff, Feature
from evalplugin.features.gate.champion import GatedConfig, with_champion
from evalplugin.features.gate.decide import (
    check_decisions,
    decide,
    gate_without_champion,
)
from evalplugin.features.gate.decision import Decision
from evalplugin.features.gate.ledger import Ledger
from evalplugin.features.gate.report import (
    decision_files,
    decision_markdown,
    decision_statement,
    decision_tags,
)
from evalplugin.models import MODELS
from evalplugin.report.sections import Section
from evalplugin.tracking.names import CHAMPION_ALIAS, metric_name
from evalplugin.tracking.read.logged import LoggedRun
from evalplugin.tracking.registry.registration import Evidence, Registered, register_lists
from evalplugin.tracking.registry.served import ServedLists, make_lists
from evalplugin.tracking.write.items import Item, Metric, Tag
from evalplugin.workspace import Workspace

_REGISTERED = "evalplugin.registered"


@dataclass(frozen=True)
class Unregistered:
    """A winner that could not be registered; all else is logged."""

    reason: str  # with what to do, where the same may work later


@dataclass
class GateFeature(Feature):
    """Decides whether a challenger takes the champion's place, and registers the winner; idle without a gate."""

    gated: GatedConfig | None = None

    def start(self, bakeoff: Bakeoff) -> None:
        """Add the champion to the models, and report how many decisions are left.

        Raises:
            DataError, TrackingError: As ``with_champion`` and ``_check_budget``.
        """
        workspace = bakeoff.workspace
        self.gated = with_champion(workspace.config, workspace.uri)
        if self.gated is None:
            return
        for note in self.gated.notes:
            workspace.observer.report(note)
        _check_budget(workspace)
        bakeoff.workspace = replace(workspace, config=self.gated.config)

    def difference(self, last: LoggedRun) -> str | None:
        """Return the change of the champion since the last bake-off as a sentence; None if there is none."""
        left = (last.tag("promoted") if last.tag("registered") else "") or last.tag("champion")
        if self.gated is None or self.gated.champion == left:
            return None
        return f"the champion is {self.gated.champion} now; after the bake-off {last.bakeoff} it was {left}"

    def after(self, bakeoff: Bakeoff) -> None:
        """Decide."""
        if self.gated is not None:
            bakeoff.found[Decision] = decide_bakeoff(self.gated, bakeoff)

    def sections(self, bakeoff: Bakeoff, comparisons: Sequence[Comparison]) -> Iterator[Section]:
        """Yield the decision, and why the winner could not be registered."""
        if (decision := bakeoff.found.get(Decision)) is not None:
            yield Section(statement=decision_statement(decision))
        if (unregistered := bakeoff.found.get(Unregistered)) is not None:
            yield Section(error=unregistered.reason)

    def items(self, bakeoff: Bakeoff) -> Iterator[Item]:
        """Yield the decision for people and for programs."""
        if (decision := bakeoff.found.get(Decision)) is not None:
            yield from decision_files(decision)
            yield from decision_tags(decision)
            yield from _champion_mean(bakeoff, decision)

    def facts(self, bakeoff: Bakeoff) -> Mapping[str, Any]:
        """Return the decision, which is the outcome, and why the winner could not be registered."""
        if (decision := bakeoff.found.get(Decision)) is None:
            return {}
        facts = {"outcome": decision.outcome, "decision": json.loads(decision.to_json())}
        unregistered = bakeoff.found.get(Unregistered)
        return facts if unregistered is None else facts | {"error": unregistered.reason}

    def fails(self, bakeoff: Bakeoff) -> bool:
        """Return whether the outcome is one to fail on, or the winner could not be registered."""
        gate = bakeoff.workspace.config.section("gate")
        if gate is None:
            return False
        return Unregistered in bakeoff.found or bakeoff.found[Decision].exit_code(gate.fail_on) != EXIT_DONE

    def end(self, bakeoff: Bakeoff) -> None:
        """Register the winner, if there is one; a failure is part of the results, as all else is logged."""
        if self.gated is None:
            return
        tracker, journal, run_id = bakeoff.tracker, bakeoff.journal, bakeoff.links.summary_run_id
        journal.resumable = True  # until the winner is registered
        try:
            if self.gated.config.section("register") is not None and bakeoff.errors:
                raise ModelError(f"nothing is registered: {bakeoff.errors[0].line} (checks.error)")
            registered = register_winner(self.gated, bakeoff)
            if registered is not None:
                tracker.tag(run_id, Tag(_REGISTERED, f"{registered.name}, version {registered.version}"))
        except (EngineError, ModelError, StoreError, TrackingError) as error:
            with suppress(TrackingError):
                tracker.tag(run_id, Tag(_REGISTERED, f"failed: {error}"))
            is_final = isinstance(error, ModelError)  # a model would fail again
            hint = "" if is_final else f"; {bakeoff.workspace.resume_hint}"
            bakeoff.found[Unregistered] = Unregistered(f"{error}{hint}")
            journal.resumable = not is_final
        else:
            journal.resumable = False


def _champion_mean(bakeoff: Bakeoff, decision: Decision) -> Iterator[Metric]:
    for comparison in bakeoff.comparisons:
        if comparison.contest.place == DataSplit.of(decision):
            means = [row.mean(decision.metric) for row in comparison.models if row.model == decision.champion]
            key = f"champion/{metric_name(decision.metric)}"
            yield from (Metric(key, mean) for mean in means if math.isfinite(mean))


def _check_budget(workspace: Workspace) -> None:
    """Report how many decisions the gate of a config has left, before anything is fitted.

    Raises:
        DataError: More were taken than ``gate.decisions``, or their count cannot be read.
        TrackingError: The store cannot be reached.
    """
    config, gate = workspace.config, workspace.config.section("gate")
    if gate is None or gate.decisions is None:
        return
    place = DataSplit(gate.dataset or config.datasets[0].name, gate.split or config.splits[0].name)
    budget = Ledger.open(workspace.uri, workspace.experiment, place).budget(gate.decisions)
    check_decisions(budget)
    if budget.error(gate.confidence):
        workspace.observer.report(f"{budget.left:,} of {budget.decisions:,} decisions of the gate are left")
    else:
        workspace.observer.warn(
            f"all decisions of gate.decisions: {budget.decisions} are taken: the gate will refuse; to begin anew, give "
            f"the config another experiment"
        )


def decide_bakeoff(gated: GatedConfig, bakeoff: Bakeoff) -> Decision:
    """Return the decision of the gate on the contests of a bake-off of ``gated.config``.

    Raises:
        DataError: With ``gate.decisions``, the count of earlier decisions cannot be read.
        TrackingError: With ``gate.decisions``, the store that counts them cannot be reached.
    """
    gate = gated.config.section("gate")
    assert gate is not None
    if gated.is_first:
        gate = gate_without_champion(gate)
    contest = next(
        contest
        for contest in (comparison.contest for comparison in bakeoff.comparisons)
        if gate.dataset in (None, contest.dataset) and gate.split in (None, contest.split)
    )
    by_budget = partial(decide, contest, gate, gated.champion, gated.notes)
    if gate.decisions is None:
        decision = by_budget()
    else:
        plan = bakeoff.plan
        ledger = Ledger.open(bakeoff.workspace.uri, plan.experiment, contest.place, plan.id)
        decision = ledger.decide(gate.decisions, by_budget)
    return replace(decision, notes=(*decision.notes, *_notes_on_old_lists(gated, decision)))


def _notes_on_old_lists(gated: GatedConfig, decision: Decision) -> Iterator[str]:
    """Yield a note that the registered lists stay as they are, unless they are replaced or there are none."""
    register = gated.config.section("register")
    if register is None or gated.is_first or decision.outcome == "promote":
        return
    if decision.champion_stays and register.refresh:
        return
    why = "nothing could be judged" if decision.outcome == "refuse" else "register.refresh is false"
    yield (
        f"{why}: the lists of {register.name}@{CHAMPION_ALIAS} stay those of the data that it was fitted on, and users "
        f"meet ever more of their items"
    )


def register_winner(gated: GatedConfig, bakeoff: Bakeoff) -> Registered | None:
    """Return the version that the winner of a bake-off became in the registry; None where nothing is registered.

    That is the promoted challenger; or, unless ``register.refresh`` is false, the champion that stays. It is fitted
    again, now on all interactions (of the last window, where the split has one), with the same seed.

    Raises:
        EngineError: The engine cannot run the fit.
        ModelError: The model cannot be fitted on all interactions, or not within the limits.
        TrackingError: The store cannot be reached or refuses.
    """
    workspace = bakeoff.workspace
    decision: Decision = bakeoff.found[Decision]
    config, register = gated.config, gated.config.section("register")
    # A baseline in the role of the champion is none, and is not refreshed.
    stays = decision.champion if decision.champion_stays and not gated.is_first else None
    if register is None or (winner := decision.promoted or (stays if register.refresh else None)) is None:
        return None
    place = DataSplit.of(decision)
    won = next(m for m in bakeoff.models if m.model == winner and DataSplit.of(m.data) == place)
    recipe = next(m for m in config.models if m.name == winner)
    recipe = replace(recipe, params=won.params)  # as they were tuned
    splitter = next(split.component for split in config.splits if split.name == decision.split)
    assert isinstance(won.data, DataInfo)
    data = splitter.newest(in_one_piece(won.data.full))
    if not MODELS.create(recipe.type, recipe.params).sequential:
        data = data.merged()
    if splitter.new_users:
        whom = "sessions that it then has" if won.data.units.noun == "query" else "users whom it then knows"
        workspace.observer.report(
            f"{winner} is fitted on all data to be registered: its lists are of {whom}, and those of new ones are made "
            f"from their histories by the model itself"
        )
    lists = _lists(bakeoff, recipe, data, register.n)
    evidence = Evidence(
        bakeoff=bakeoff.plan.id,
        model=recipe,
        dataset=decision.dataset,
        data_digest=data.digest,
        outcome=decision.outcome,
        reason=decision.reason,
        metrics={} if won.per_user is None else dict(won.per_user.means),
        description=decision_markdown(decision),
    )
    observer = workspace.observer
    with observer.progress(f"register {winner} as {register.name}"):
        registered = register_lists(
            workspace.uri, register.name, lists, evidence,
            run_id=bakeoff.links.summary_run_id, model_run_id=bakeoff.tracker.run_id(won),
        )  # fmt: skip
    version = f"version {registered.version} of {registered.name}"
    if registered.later is not None:
        observer.report(
            f"{winner} is not registered: {version}, its {CHAMPION_ALIAS}, is of the later bake-off {registered.later}"
        )
        return None
    how = f"registered: {version}, now its {CHAMPION_ALIAS}"
    if registered.is_same:
        how = f"not registered again: {version}, its {CHAMPION_ALIAS}, has the same lists"
    observer.report(f"{winner} is {how}; to serve it: {registered.command}")
    return registered


def _lists(bakeoff: Bakeoff, recipe: ModelRecipe, data: Interactions, n: int | None) -> ServedLists:
    """Return the lists of a model that is fitted on all data, each of ``n`` items, or as many as in the bake-off."""
    workspace = bakeoff.workspace
    spec, progress = workspace.config.spec, workspace.observer.progress
    arguments: dict[str, Any] = {
        "model": recipe,
        "recommend": spec.recommend.model_copy(update={"n": n or spec.recommend.n}),
        "seed": spec.seed,
        "folder": workspace.config.folder,
    }
    with (
        progress(f"fit {recipe.name} on all data, and list for every user", data.n_users) as advance,
        workspace.open_session(bakeoff.inputs, workers=1) as session,
    ):
        if session.in_process:
            arguments["progress"] = advance
        try:
            ((_, made),) = run_calls(session, [Call(0, make_lists, [session.put({"data": data})], arguments)])
            if isinstance(made, TaskFailure):
                raise ModelError(f"it failed: {last_line(made.error)}")
        except ModelError as error:
            raise ModelError(f"{recipe.name} cannot be registered: fitted on all data, {error}") from error
    assert isinstance(made, ServedLists)
    return made


FEATURE = GateFeature
