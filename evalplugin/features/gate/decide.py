"""Decide whether a challenger replaces the champion, by conditions that are fixed beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evalplugin.base.errors import DataError
from evalplugin.base.numbers import number, percent, signed
from evalplugin.base.units import count_text
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.doubt import doubts_of
from evalplugin.features.gate.conditions import Judge
from evalplugin.features.gate.decision import Condition, Decision, DecisionBudget
from evalplugin.features.gate.schema import CostLimit, Gate, Guardrails
from evalplugin.metrics import parse
from evalplugin.report.sentences.off_policy import assumed_lines

_MOST_NAMED = 3  # challengers in a sentence
_ASSUMED = "{assumed}; to decide by them all the same, set gate: {{accept: assumed}}"


def decide(
    contest: Contest,
    gate: Gate,
    champion: str,
    notes: Sequence[str] = (),
    budget: DecisionBudget | None = None,
) -> Decision:
    """Decide whether a challenger of the contest replaces the champion.

    A challenger may be promoted if the lower bound of its mean gain over users is above ``gate.min_gain``, and every
    guardrail holds. Holm's correction over the challengers limits the probability that any challenger is promoted whose
    true gain is not above ``min_gain`` to 1 - ``gate.confidence``; guardrails only make it smaller, as all must hold.
    Measured at 5 %, it was at most 5.7 % from 500 users on (experiments/gate). That is for one decision; with
    ``gate.decisions`` it is for so many together, and one decision gets its share of it.

    Args:
        contest: The models' results.
        gate: The conditions, checked with their config.
        champion: The model to beat. It is an argument, since ``gate.champion`` may be a registered model.
        notes: Sentences on earlier choices, to be stored with the decision.
        budget: What earlier decisions have left of ``gate.decisions``; None: none was taken.
    """
    budget = None if gate.decisions is None else budget or DecisionBudget(gate.decisions)
    metric = contest.primary if gate.metric is None else parse(gate.metric).name
    by_name = {c.model: c for c in contest.models}
    others = [name for name in by_name if name != champion]
    challengers = [name for name in others if gate.challengers is None or name in gate.challengers]
    decision = Decision(
        "refuse", None, champion, "", metric, gate.confidence, tuple(challengers), (), contest.name,
        contest.dataset, contest.split, tuple(notes), budget, contest.units.noun,
    )  # fmt: skip
    assumed = list(assumed_lines(contest, [metric, *gate.guardrails.metrics]))
    obstacle = _obstacle(decision, by_name[champion])
    if obstacle is None and assumed and gate.accept != "assumed":
        obstacle = _ASSUMED.format(assumed=assumed[0].rstrip("."))
    if obstacle is not None:
        return replace(decision, reason=f"the gate cannot decide: {obstacle}")
    decision = replace(decision, notes=(*notes, *assumed))
    doubts, judged = doubts_of(contest, metric), (champion, *challengers)
    untold = [f"{champion} stays: {doubts[m].text(f'what {m} is worth')}" for m in judged if m in doubts]
    if champion in doubts:
        return replace(decision, outcome="cannot_tell", reason=untold[0])
    judge = Judge(contest, gate, metric, by_name[champion], decision.error)
    conditions = tuple(judge.conditions([by_name[name] for name in challengers]))
    decision = replace(decision, conditions=conditions, notes=(*decision.notes, *dict.fromkeys(judge.notes)))
    gains = {c.challenger: c for c in conditions if c.kind == "gain" and c.upper is not None}
    if not gains and not untold:
        return replace(decision, reason=f"the gate cannot decide: {_failures(decision)}")
    passing = [name for name in gains if decision.passed(name)]
    if not passing:
        undecided = [name for name in gains if decision.is_undecided(name)]
        if undecided:
            nearest = max(undecided, key=lambda name: gains[name].measured or 0.0)
            return replace(decision, outcome="cannot_tell", reason=_doubt(decision, gains[nearest]))
        if untold:
            return replace(decision, outcome="cannot_tell", reason=untold[0])
        kept = f"{champion} stays: {_failures(decision)}"
        return replace(decision, outcome="keep", reason=kept)
    best = max(passing, key=lambda name: gains[name].measured or 0.0)  # of equal ones the first
    return replace(decision, outcome="promote", promoted=best, reason=_success(decision, gains[best]))


def no_champion_note(champion: str, baseline: str) -> str:
    """Return the note that a baseline replaces a champion that is not registered yet."""
    return (
        f"there is no {champion} in the registry yet: the baseline {baseline} is the champion for now, and only the "
        f"gain and limits on costs are required"
    )


def gate_without_champion(gate: Gate) -> Gate:
    """Return the gate as applied without a champion: its guardrails are the absolute limits on costs only.

    Compared with a baseline, which costs next to nothing and may list the whole catalogue at random, no model would
    pass the others.
    """
    costs = {
        cost: CostLimit(max=limit.max)
        for cost, limit in gate.guardrails.costs.items()
        if limit.max is not None
    }
    return gate.model_copy(update={"guardrails": Guardrails(costs=costs)})


def check_challengers(gate: Gate, champion: str) -> None:
    """Check that the challengers a gate names are not the champion alone.

    Raises:
        DataError: It names the champion alone, or the baseline in its stead.
    """
    if gate.challengers is not None and set(gate.challengers) == {champion}:
        raise DataError(
            f"{champion!r} is the only challenger that is named, and is the champion, or its baseline: no model "
            f"could be promoted"
        )


def check_decisions(budget: DecisionBudget) -> None:
    """Check that a gate has not taken more decisions than it says.

    Raises:
        DataError: It has.
    """
    if budget.taken > budget.decisions:
        raise DataError(
            f"gate.decisions is {budget.decisions:,}, but {budget.taken:,} decisions of this gate have been taken: set "
            f"it to how many there are to be in all, more than {budget.taken:,}, or begin anew in another experiment"
        )


def _obstacle(decision: Decision, champion: ComparedModel) -> str | None:
    """Return the reason why no challenger can be judged, whatever its results; None where one can."""
    name = f"the champion {decision.champion}"
    if champion.scores is None:
        return f"{name} failed: {champion.error}"
    if not champion.has_values(decision.metric):
        return f"{name} has no scores by {decision.metric}"
    if not decision.challengers:
        return f"there is no challenger of {name}"
    if decision.budget is not None and not decision.error:
        taken = count_text(decision.budget.decisions, "decision")
        return f"all of the {taken} of gate.decisions are taken; to begin anew, give the config another experiment"
    return None


def _doubt(decision: Decision, gain: Condition) -> str:
    """Return why a challenger's gain is undecided."""
    doubt = f"it cannot be told whether {gain.challenger} is better by enough"
    sure = f"each bound with {percent(decision.confidence)} confidence"
    return f"{decision.champion} stays, as {doubt}: {_found(decision, gain)} ({_needed(gain)}), {sure}"


def _failures(decision: Decision) -> str:
    """Return the failed conditions of each challenger, largest gain first; undecided gains are left out."""
    first: dict[str, Condition] = {}
    failed = (c for name in decision.ranked for c in decision.of(name) if not c.passed)
    for condition in (c for c in failed if not c.is_undecided):
        first.setdefault(condition.challenger, condition)
    shown = list(first.items())[:_MOST_NAMED]
    named = [f"{name}: {_shortfall(decision, c)}" for name, c in shown]
    rest = len(first) - len(named)
    text = "; ".join([*named, *([f"and {rest} more"] if rest else [])])
    has_bounds = any(c.measured is not None and (c.bound, c.upper) != (None, None) for _, c in shown)
    return f"{text}, with {percent(decision.confidence)} confidence" if has_bounds else text


def _shortfall(decision: Decision, condition: Condition) -> str:
    if condition.measured is None:
        return f"{condition.name}: {condition.note}" if condition.kind != "result" else condition.note
    note = f"; {condition.note}" if condition.note else ""
    return f"{_found(decision, condition)} ({_needed(condition)}{note})"


def _needed(condition: Condition) -> str:
    return f"needed: {condition.required.removeprefix('gain ')}"


def _found(decision: Decision, condition: Condition) -> str:
    """Return what was found as text, such as ``gain +0.0083 ndcg@10 or more``."""
    bound, upper, name = condition.bound, condition.upper, condition.name
    if condition.kind in ("users", "cost"):
        return f"{name} {condition.measured_text}"
    if condition.kind != "gain":
        if bound is None:
            return f"change {condition.measured_text} {name}"
        is_same = condition.confidence == decision.confidence
        sure = "" if is_same else f" with {percent(condition.confidence or 0.0)} confidence"
        return f"{name} may lose {number(-bound)}{sure}"
    metric = f"{name}{' (lower is better)' if parse(name).direction < 0 else ''}"
    if condition.passed and bound is not None:
        return f"gain {signed(bound)} {metric} or more"
    if condition.is_undecided and bound is not None and upper is not None:
        return f"gain from {signed(bound)} to {signed(upper)} {metric}"
    if upper is not None:
        return f"gain {signed(upper)} {metric} or less"
    return f"gain {condition.measured_text} {metric}"


def _success(decision: Decision, gain: Condition) -> str:
    holding = len(decision.of(gain.challenger)) - 1
    sure = f"with {percent(decision.confidence)} confidence"
    reason = (
        f"{gain.challenger} replaces {decision.champion}: {_found(decision, gain)} ({_needed(gain)}), {sure}"
    )
    if not holding:
        return reason
    return f"{reason}; {'the guardrail holds' if holding == 1 else f'all {holding} guardrails hold'}"
