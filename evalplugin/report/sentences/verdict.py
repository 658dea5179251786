"""The verdict: models that may be the best, the leader against the baseline, users and groups for whom it differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalplugin.base.numbers import number, p_equals, percent, relative, share, signed
from evalplugin.base.units import count_text
from evalplugin.comparison.best import BestModels
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.metrics.scores import Units
from evalplugin.report.sentences.units import ranking_basis

# Headlines, shown without a full stop.
_ONLY = "{leader} is the only model with a value of {metric}"
_BEST = "{leader} is the best by {metric} ({level} confidence)"
_MAY_BE_BEST = "Any of {models} may be the best by {metric} ({level} confidence)"
_NO_VALUE = "No model has a value of {metric}"
_NOT_RANKED = "No {units.noun} has values of all models: none is ranked by {metric}"
_NO_DIRECTION = "Neither high nor low is better by {metric}: no model wins by it"
_ONE_NUMBER = "{leader} has the best {metric}, {mean}: one number, without a test"

# What the headline rests on.
_NO_UNIT = "No {units.noun} has values of all models."
_SINGLE_UNIT = "A single {units.noun} has values of all models."
_EQUAL = "{leader} and {rival} have equal means."
_BASIS = "It rests on {basis}."
_NEWCOMERS = (
    "But none of these {users} {units.nouns} has history: models are compared by what they give to newcomers."
)
_NEWCOMERS_OF_FOLDS = (
    "But none of these {users} {units.nouns} has history in the first fold that tests them: models are compared by "
    "what they give to newcomers."
)
_WITHOUT_HISTORY = "But {without} of these {users} {units.nouns} ({share}) have no history."
_WITHOUT_HISTORY_IN_FOLDS = (
    "But {without} of these {users} {units.nouns} ({share}) have no history in the first fold that tests "
    "them."
)
_BEST_WITH_HISTORY = "Among the {known} with history, {leader} is the best."
_MAY_BE_BEST_WITH_HISTORY = (
    "Among the {known} with history, {leader} leads, and any of {models} may be the best."
)

# The leader against the baseline.
_AGAINST = "{model} against {against}: {difference}"
_SHOWN = "{measured}; {p}; better for {better} of {units.nouns}, worse for {worse}."
_CHANCE = "{measured}; may be chance ({p})."
_UNTESTED = "{measured}; too few {units.nouns} to test."
_DETECTABLE = "Only a difference of {least} or more is found in 4 of 5 such bake-offs."
_WITHIN_SEEDS = "It is smaller than what another seed gives (±{range})."
_BASELINE_LEADS = "The baseline {leader} leads."
_BETTER_BY = "It is better than the baseline by {metrics} too."
_WORSE_BY = "It is worse than the baseline by {metrics}."
_NOT_SHOWN_BY = "No difference from the baseline is shown by {metrics}."

# Few users behind a test; the share is measured in experiments/statistics.
MAY_ERR = "a test at 5 % may call equal models different in up to 8 %"
_FEW = f"Only {{differing}} {{units.independents}} have different scores: below {RELIABLE_FROM}, {MAY_ERR}."
_FEW_WITH = (
    f"Only {{differing}} {{units.independents}} have different scores with {{leader}} and {{other}}: below "
    f"{RELIABLE_FROM}, {MAY_ERR}."
)

# Groups of users.
_BEST_IN_GROUP = 'Among {units.nouns} of the group "{label}" ({segment}), {leader} is the best.'
_MAY_BE_BEST_IN_GROUP = (
    'Among {units.nouns} of the group "{label}" ({segment}), any of {models} may be the best.'
)
_MORE_GROUPS = "{leader} is shown not to be the best in {groups} more."
_GROUP_BEST = "{label}: {leader} is the best."
_GROUP_MAY_BE_BEST = "{label}: any of {models} may be the best."
_FROM_TRUTH = (
    "These groups are made from the held-out items, which nobody knows when a list is made: they show where scores "
    "come from, and no winner is named."
)

# What it takes to tell the leader from its rival.
_MORE_SEEDS = "As far as is measured, it takes more seeds, not {units.nouns}, to tell {leader} from {rival}."
_MORE_UNITS = (
    "How many more {units.nouns} tell {leader} from {rival} depends on the true difference, which may be 0: {users:,} "
    "{units.nouns} show one of {detectable} in 4 of 5 bake-offs, {four_times:,} one of half the size."
)

_MOST_NAMED = 4  # models that are named in a sentence; the others are counted
_MOST_GROUPS = 2


@dataclass(frozen=True)
class Verdict:
    """A headline and further sentences."""

    # ``one`` model is shown to be the best, ``several`` may be, or ``none``: nothing was compared.
    status: Literal["one", "several", "none"]
    label: str
    headline: str  # without a full stop
    sentences: tuple[str, ...] = ()


def verdict(comparison: Comparison) -> Verdict:
    """Return the verdict by the primary metric, and on the other metrics of the leader and the baseline."""
    metric = comparison.contest.primary
    best = comparison.best.get(metric)
    if best is None:
        return Verdict("none", "Nothing to decide", _without_best(comparison, metric))
    status: Literal["one", "several", "none"] = "one" if len(best.models) == 1 else "several"
    label = "Decided" if len(best.models) == 1 else "Not decided"
    if len(best.compared) == 1:
        status, label = "none", "One model"
    sentences = (*_further_sentences(comparison, best), *_other_metrics(comparison, best))
    return Verdict(status, label, best_sentence(best), sentences)


def verdict_sentence(comparison: Comparison, metric: str) -> str:
    """Return a few sentences: the models that may be the best by a metric, and the leader against the baseline."""
    best = comparison.best.get(metric)
    if best is None:
        return f"{_without_best(comparison, metric)}."
    return " ".join([f"{best_sentence(best)}.", *_further_sentences(comparison, best)])


def best_sentence(best: BestModels) -> str:
    """Return the models that may be the best as a sentence without a full stop: the first line of every report."""
    template = _BEST if len(best.models) == 1 else _MAY_BE_BEST
    return (_ONLY if len(best.compared) == 1 else template).format(
        leader=best.leader, models=_named(best.models), metric=best.metric, level=percent(best.level)
    )


def why_several(best: BestModels, units: Units) -> list[str]:
    """Return at most one sentence on why several models may be the best: hardly any users, or equal means."""
    if len(best.models) == 1:
        return []
    if best.users < 2:
        return [(_SINGLE_UNIT if best.users == 1 else _NO_UNIT).format(units=units)]
    if best.users_to_tell is None and not best.needs_seeds:
        return [_EQUAL.format(leader=best.leader, rival=best.rival)]
    return []


def group_sentences(comparison: Comparison, metric: str) -> list[str]:
    """Return at most a few sentences on groups of users in which the leader is shown not to be the best."""
    best = comparison.best.get(metric)
    if best is None:
        return []
    groups = [g for s in comparison.contest.segments for g in comparison.best_in_groups(s.name, metric)]
    others = [group for group in groups if best.leader in group.compared and best.leader not in group.models]
    units = comparison.contest.units
    sentences = [
        _in_group(group, _BEST_IN_GROUP, _MAY_BE_BEST_IN_GROUP, units=units, segment=group.segment)
        for group in others[:_MOST_GROUPS]
    ]
    if more := len(others) - len(sentences):
        sentences.append(_MORE_GROUPS.format(leader=best.leader, groups=count_text(more, "group")))
    return sentences


def segment_verdict(comparison: Comparison, segment: str, metric: str) -> str:
    """Return the models that may be the best in each group of users of a segmentation, or why it names no winner."""
    if any(s.from_truth for s in comparison.contest.segments if s.name == segment):
        return _FROM_TRUTH
    groups = comparison.best_in_groups(segment, metric)
    return " ".join(_in_group(group, _GROUP_BEST, _GROUP_MAY_BE_BEST) for group in groups)


def to_tell_apart(best: BestModels, units: Units) -> list[str]:
    """Return at most one sentence on what it takes to tell the leader from its rival."""
    names = {"units": units, "leader": best.leader, "rival": best.rival}
    if best.needs_seeds:
        return [_MORE_SEEDS.format(**names)]
    if best.detectable is None:
        return []
    detectable = number(best.detectable)
    return [_MORE_UNITS.format(users=best.users, four_times=4 * best.users, detectable=detectable, **names)]


def _further_sentences(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield sentences on the basis of the headline, the groups where it does not hold, and leader against baseline."""
    yield from _basis(comparison, best)
    yield from group_sentences(comparison, best.metric)
    if (pair := _against_baseline(comparison, best)) is not None:
        difference = _difference(comparison, pair)
        yield _AGAINST.format(model=best.leader, against=pair.against, difference=difference)
    elif best.leader == comparison.contest.baseline:
        means = {row.model: row.mean(best.metric) for row in comparison.models}
        if any(means[model] != means[best.leader] for model in best.compared[1:2]):
            yield _BASELINE_LEADS.format(leader=best.leader)


def _other_metrics(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield sentences on the other metrics by which the leader is compared with the baseline."""
    if (pair := _against_baseline(comparison, best)) is None:
        return
    names = (pair.model, pair.against)
    others = [p for p in comparison.pairs if (p.model, p.against) == names and p is not pair and p.direction]
    for template, mark in ((_BETTER_BY, "+"), (_WORSE_BY, "-"), (_NOT_SHOWN_BY, "")):
        if metrics := [p.metric for p in others if p.mark == mark]:
            yield template.format(metrics=", ".join(metrics))


def _basis(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield sentences on the users that the headline rests on: their number, and whether those without history decide.

    There is a warning where few of them tell the leader from a model that is left out.
    """
    yield from why_several(best, comparison.contest.units)
    if best.fewest is not None and best.fewest[1] < RELIABLE_FROM:
        other, differing = best.fewest
        pair = _against_baseline(comparison, best)
        if pair is None or not pair.mark or pair.against != other:  # else it stands beside the difference
            units = comparison.contest.units
            yield _FEW_WITH.format(differing=differing, units=units, leader=best.leader, other=other)
    if basis := ranking_basis(comparison, best.metric):
        yield _BASIS.format(basis=basis)
    in_folds = comparison.n_folds > 1
    counts = {"units": comparison.contest.units, "users": f"{best.users:,}"}
    if comparison.is_of_newcomers(best.metric):
        yield (_NEWCOMERS_OF_FOLDS if in_folds else _NEWCOMERS).format(**counts)
    elif (known := comparison.best_with_history(best.metric)) is not None:
        without = best.users - known.users
        yield (_WITHOUT_HISTORY_IN_FOLDS if in_folds else _WITHOUT_HISTORY).format(
            **counts | {"without": f"{without:,}", "share": share(without / best.users)}
        )
        yield _in_group(known, _BEST_WITH_HISTORY, _MAY_BE_BEST_WITH_HISTORY, known=f"{known.users:,}")


def _without_best(comparison: Comparison, metric: str) -> str:
    """Return why there is no best model by a metric."""
    having = [row for row in comparison.models if math.isfinite(row.mean(metric))]
    direction = comparison.contest.spec(metric).direction
    if not having:
        template = _NOT_RANKED if ranking_basis(comparison, metric) is None else _NO_VALUE
        return template.format(units=comparison.contest.units, metric=metric)
    if not direction:
        return _NO_DIRECTION.format(metric=metric)
    leader = max(having, key=lambda row: direction * row.mean(metric))
    return _ONE_NUMBER.format(leader=leader.model, metric=metric, mean=number(leader.mean(metric)))


def _named(models: Sequence[str]) -> str:
    if len(models) <= _MOST_NAMED:
        return ", ".join(models)
    return f"{', '.join(models[: _MOST_NAMED - 1])} and {len(models) - _MOST_NAMED + 1} others"


def _in_group(group: BestModels, best: str, may_be_best: str, **values: str | Units) -> str:
    """Return one of two templates, for one best model of a group and for several, filled in."""
    template = best if len(group.models) == 1 else may_be_best
    return template.format(label=group.label, leader=group.leader, models=_named(group.models), **values)


def _against_baseline(comparison: Comparison, best: BestModels) -> Pair | None:
    baseline = comparison.contest.baseline
    return None if baseline is None else comparison.pair(best.metric, best.leader, baseline)


def _difference(comparison: Comparison, pair: Pair) -> str:
    """Return sentences on the difference of a pair: its size and test, and what speaks against it."""
    interval, percents = pair.paired.interval, relative(pair.paired.relative)
    measured = signed(interval.mean) + (f" ({percents})" if percents else "")
    if math.isfinite(interval.low) and math.isfinite(interval.high):
        level = percent(comparison.level)
        measured += f", {level} interval {number(interval.low)} to {number(interval.high)}"
    values = {
        "measured": measured,
        "units": comparison.contest.units,
        "p": p_equals(pair.p_holm, "Holm"),
        "better": share(pair.better),
        "worse": share(pair.worse),
    }
    if math.isnan(pair.p_holm):
        return _UNTESTED.format(**values)
    sentences = [(_SHOWN if pair.mark else _CHANCE).format(**values)]
    if not pair.mark and abs(interval.mean) < pair.paired.detectable:
        sentences.append(_DETECTABLE.format(least=number(pair.paired.detectable)))
    if pair.is_within_seeds:
        sentences.append(_WITHIN_SEEDS.format(range=number(pair.seed_range)))
    if pair.mark and pair.paired.differing < RELIABLE_FROM:
        sentences.append(_FEW.format(differing=pair.paired.differing, units=comparison.contest.units))
    return " ".join(sentences)
