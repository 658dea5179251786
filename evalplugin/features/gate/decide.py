"""Decide whether a challenger replaces the champion, by conditions that are fixed beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.numbers import about, number, percent, signed
from evalplugin.base.places import DataSplit
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.compared import ComparedModel
from evalplugin.comparison.contest import Contest
from evalplugin.features.gate.conditions import Judge
from evalplugin.features.gate.decision import Condition, Decision, DecisionBudget
from evalplugin.features.gate.schema import CostLimit, Gate, Guardrails
from evalplugin.metrics import parse

_MOST_NAMED = 3  # challengers in a sentence


def choose_contest(contests: Sequence[Contest], gate: Gate) -> Contest:
    """Return the contest on the dataset and under the split that the gate names, or the only one.

    Raises:
        DataError: None fits, or several do.
    """
    fitting = [c for c in contests if gate.dataset in (None, c.dataset) and gate.split in (None, c.split)]
    if len(fitting) == 1:
        return fitting[0]
    known = "; ".join(str(contest.place) for contest in contests)
    if fitting:
        raise DataError(f"a gate decides on one dataset and split, and there are several: {known}; name them")
    named = DataSplit(gate.dataset or "", gate.split or "")
    raise DataError(f"the gate is to decide on {named}, where nothing was compared; there is: {known}")


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
        gate: The conditions.
        champion: The model to beat. It is an argument, since ``gate.champion`` may be no model of the contest.
        notes: Sentences on earlier choices, to be stored with the decision.
        budget: What earlier decisions have left of ``gate.decisions``; None: none was taken.

    Raises:
        DataError: A challenger that the gate names is no model of the contest, or its metric cannot decide; or more
            decisions were taken than ``gate.decisions``.
    """
    if gate.decisions is not None:
        budget = budget or DecisionBudget(gate.decisions)
        check_decisions(budget)
    metric = contest.primary if gate.metric is None else parse(gate.metric).name
    _check_metric(metric)
    by_name = {c.model: c for c in contest.models}
    challengers = _challengers(list(by_name), gate, champion)
    decision = Decision(
        "refuse", None, champion, "", metric, gate.confidence, tuple(challengers), (), contest.name,
        contest.dataset, contest.split, tuple(notes), budget if gate.decisions is not None else None,
        contest.units.noun,
    )  # fmt: skip
    if (obstacle := _obstacle(decision, by_name.get(champion))) is not None:
        return replace(decision, reason=f"the gate cannot decide: {obstacle}")
    judge = Judge(contest, gate, metric, by_name[champion], decision.error)
    conditions = tuple(judge.conditions([by_name[name] for name in challengers]))
    decision = replace(decision, conditions=conditions, notes=(*notes, *dict.fromkeys(judge.notes)))
    gains = {c.challenger: c for c in conditions if c.kind == "gain" and c.upper is not None}
    if not gains:
        return replace(decision, reason=f"the gate cannot decide: {_failures(decision)}")
    passing = [name for name in gains if decision.passed(name)]
    if not passing:
        undecided = [name for name in gains if decision.is_undecided(name)]
        if undecided:
            nearest = max(undecided, key=lambda name: gains[name].measured or 0.0)
            return replace(decision, outcome="cannot_tell", reason=_doubt(decision, gains[nearest]))
        return replace(decision, outcome="keep", reason=_kept(decision, gains))
    best = max(passing, key=lambda name: gains[name].measured or 0.0)  # of equal ones the first
    reason = _success(decision, gains[best], len(passing))
    return replace(decision, outcome="promote", promoted=best, reason=reason)


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


def _check_metric(metric: str) -> None:
    spec = parse(metric)
    if spec.metric.scope != "user" or not spec.direction:
        raise DataError(
            f"the gate cannot decide by {metric!r}: it needs a metric with a value for each user, where higher or "
            f"lower is better"
        )


def _challengers(models: Sequence[str], gate: Gate, champion: str) -> list[str]:
    others = [model for model in models if model != champion]
    for name in gate.challengers or ():
        if name not in models:
            near = did_you_mean(name, others, noun="there are")
            raise DataError(f"no model is called {name!r} to be a challenger{near}")
    return [name for name in others if gate.challengers is None or name in gate.challengers]


def _obstacle(decision: Decision, champion: ComparedModel | None) -> str | None:
    """Return the reason why no challenger can be judged, whatever its results; None where one can."""
    name = f"the champion {decision.champion}"
    if champion is None:
        return f"{name} has no results here"
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
    """Return why a challenger's gain is undecided, and the users or seeds that would decide it."""
    assert gain.limit is not None and gain.users is not None and gain.sought is not None
    units = plural(decision.unit)
    parts = [
        f"{decision.champion} stays, as it cannot be told whether {gain.challenger} is better by enough: "
        f"{_found(gain)} (required: {gain.required})",
        _power(decision, gain),
    ]
    if gain.users_needed is None and not gain.is_at_limit:
        parts.append(f"another seed gives as much as the measured gain: it takes more seeds, not {units}")
    elif gain.users_needed is not None and gain.sought == gain.limit:
        ratio = gain.users_needed / gain.users
        parts.append(
            f"about {about(gain.users_needed)} {units} find one of {number(2 * gain.limit)}, and exclude one above "
            f"{number(gain.limit)} if there is none, 4 times in 5: {ratio:,.{1 if ratio < 10 else 0}f} times as many"
        )
    return "; ".join(parts)


def _kept(decision: Decision, gains: Mapping[str, Condition]) -> str:
    """Return why no challenger replaces the champion, and which gain would have been found."""
    failing = [gain for gain in gains.values() if gain.detectable is not None and not gain.passed]
    weakest = max(failing, key=lambda gain: gain.detectable or 0.0, default=None)
    kept = f"{decision.champion} stays: {_failures(decision)}"
    return kept if weakest is None else f"{kept}; {_power(decision, weakest)}"


def _power(decision: Decision, gain: Condition) -> str:
    """Return which gain would have been found."""
    assert gain.limit is not None and gain.detectable is not None
    least = f"{number(gain.limit + gain.detectable)} {parse(gain.name).name}"
    return f"with {gain.users:,} {plural(decision.unit)} a gain of {least} is found 4 times in 5"


def _failures(decision: Decision) -> str:
    """Return the failed conditions of each challenger, largest gain first; undecided gains are left out."""
    first: dict[str, Condition] = {}
    failed = (c for name in decision.ranked for c in decision.of(name) if not c.passed)
    for condition in (c for c in failed if not c.is_undecided):
        first.setdefault(condition.challenger, condition)
    named = [f"{name}: {_shortfall(c)}" for name, c in list(first.items())[:_MOST_NAMED]]
    rest = len(first) - len(named)
    return "; ".join([*named, *([f"and {rest} more"] if rest else [])])


def _shortfall(condition: Condition) -> str:
    if condition.measured is None:
        return f"{condition.name}: {condition.note}" if condition.kind != "result" else condition.note
    note = f"; {condition.note}" if condition.note else ""
    return f"{_found(condition)} (required: {condition.required}{note})"


def _found(condition: Condition) -> str:
    """Return the measured value as text, such as ``gain +0.0120 ndcg@10, at least +0.0040 with 95 % confidence``."""
    if condition.kind in ("users", "cost"):
        return f"{condition.name} {condition.measured_text}"
    if condition.kind == "gain":
        lower = parse(condition.name).direction < 0
        measured = f"gain {condition.measured_text} {condition.name}{' (lower is better)' if lower else ''}"
    else:
        place = "in " if condition.kind == "segment" else ""
        measured = f"change {condition.measured_text} {place}{condition.name}"
    bounds = []
    is_excluded = condition.upper is not None and not (condition.passed or condition.is_undecided)
    if condition.bound is not None and condition.confidence is not None and not is_excluded:
        bounds.append((f"at least {signed(condition.bound)}", percent(condition.confidence)))
    if condition.upper is not None and condition.upper_confidence is not None and not condition.passed:
        bounds.append((f"at most {signed(condition.upper)}", percent(condition.upper_confidence)))
    if not bounds:
        return measured
    if len({confidence for _, confidence in bounds}) == 1:
        each = ", each" if len(bounds) > 1 else ""
        return f"{measured}, {' and '.join(text for text, _ in bounds)}{each} with {bounds[0][1]} confidence"
    return f"{measured}, {' and '.join(f'{text} with {level}' for text, level in bounds)} confidence"


def _success(decision: Decision, gain: Condition, passing: int) -> str:
    tested = sum(c.kind == "gain" for c in decision.conditions)
    holding = len(decision.of(gain.challenger)) - 1
    parts = [f"{gain.challenger} replaces {decision.champion}: {_found(gain)} (required: {gain.required})"]
    if tested > 1:
        parts.append(
            f"{passing} of {tested} challengers passed, with {percent(1 - decision.error)} confidence for all together"
        )
    if holding:
        parts.append("the guardrail holds" if holding == 1 else f"all {holding} guardrails hold")
    return "; ".join(parts)
