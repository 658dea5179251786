"""The verdict: models that may be the best, the leader against the baseline, users and groups for whom it differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalplugin.base.numbers import (
    UNDEFINED,
    memory,
    number,
    p_equals,
    percent,
    relative,
    seconds,
    share,
    signed,
)
from evalplugin.base.units import count_text
from evalplugin.comparison.best import BestModels
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.metrics.scores import Units
from evalplugin.report.competition import facts_of
from evalplugin.report.sentences.units import ranking_basis

# Headlines: what is known, in the terms of a decision.
_ONLY = "{leader} is the only model with a value of {metric}."
_BEST = "{leader} is the best by {metric}."
_BEST_OVER = "{leader} is the best: {gain}."
_BEAT = "{models} beat {baseline}: {gains}. Which of the {count} is better is not decided."
_BEATS = "{model} beats {baseline}: {gains}. Whether {others} is as good is not decided."
_BEATS_MORE = "{model} beats {baseline}: {gains}. Whether {others} are as good is not decided."
_BEAT_SOME = "{models} beat {baseline}: {gains}. Whether {others} is as good is not decided."
_BEAT_SOME_MORE = "{models} beat {baseline}: {gains}. Whether {others} are as good is not decided."
_NONE_SHOWN = "No model is shown to beat {baseline}: {leader} leads by {gain}, which may be chance."
_NONE_BEATS = "No model beats {baseline}. The best of the others, {second}, is at {gain}."
_BASELINE_LEADS = "No model is shown to beat {baseline}. {others} may be as good."
_NOT_DECIDED = "Which of {models} is the best by {metric} is not decided."
_NO_VALUE = "No model has a value of {metric}."
_NOT_RANKED = "No {units.noun} has values of all models: none is ranked by {metric}."
_NO_DIRECTION = "Neither high nor low is better by {metric}: no model wins by it."
_ONE_NUMBER = "{leader} has the best {metric}, {mean}: one number, without a test."
_COUNTS = {2: "two", 3: "three", 4: "four"}

# By how much models differ from another one, which is named with it or was before.
_AMOUNTS = "{amounts} {metric}"
_OVER = "{amounts} {metric} over {against}"
_AGAINST_LOWER = "{amounts} {metric} against {against}"  # where lower values are better
_TIMES = "{times} times the {metric} of {against}"
_TIMES_ITS = "{times} times its {metric}"
_LARGE_RATIO = 3.0  # above it a factor is read more easily than percent
_MOST_TIMES = 20.0  # a baseline near zero: a ratio to it says nothing

# At most three lines of detail: for whom, at what cost, and what to do next.
_FOR_WHOM = (
    "{model} is better than {against} for {better} of {units.nouns} and worse for {worse} ({level} confidence, {users} "
    "{units.nouns})."
)
_OVER_USERS = "At {level} confidence, over {users} {units.nouns}."
_COSTS = "Fit and lists take {costs}."
_COST = "{seconds} and {memory} ({model})"
_COST_TIME = "{seconds} ({model})"
_NEXT_DECIDED = (
    "Next: try {leader} on live traffic against {against}; offline scores do not show what people will do."
)
_NEXT_UNDECIDED = (
    "Next: take the cheaper of them, or test on more {units.nouns}: four times as many show half the "
    "difference."
)
_NEXT_SEEDS = (
    "Next: fit with more seeds: as far as is measured, more {units.nouns} alone would not tell {leader} from "
    "{rival}."
)
_NEXT_NONE = (
    "Next: tune the models, or test on more {units.nouns}: these show a difference of {least} or more."
)

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
_MAY_BE_BEST_WITH_HISTORY = "Among the {known} with history, {leader} leads, and {models} may be the best."

# The leader against the baseline.
_AGAINST = "{model} against {against}: {difference}"
_SHOWN = "{measured}; {p}; better for {better} of {units.nouns}, worse for {worse}."
_CHANCE = "{measured}; may be chance ({p})."
_UNTESTED = "{measured}; too few {units.nouns} to test."
_DETECTABLE = "Only a difference of {least} or more is found in 4 of 5 such bake-offs."
_WITHIN_SEEDS = "The difference is smaller than what another seed gives (±{range})."
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
_MAY_BE_BEST_IN_GROUP = 'Among {units.nouns} of the group "{label}" ({segment}), {models} may be the best.'
_MORE_GROUPS = "{leader} is shown not to be the best in {groups} more."
_GROUP_BEST = "{label}: {leader} is the best."
_GROUP_MAY_BE_BEST = "{label}: {models} may be the best."
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
    """What is known, in the terms of a decision: the same words in every output."""

    # ``one`` model is shown to be the best, ``several`` may be, or ``none``: nothing was compared.
    status: Literal["one", "several", "none"]
    label: str
    name: str  # in a few words, as a run is named
    headline: str  # a sentence or two
    details: tuple[str, ...] = ()  # at most three lines: for whom, at what cost, what to do next
    evidence: tuple[str, ...] = ()  # sentences of statistics

    def __str__(self) -> str:
        return " ".join([self.headline, *self.details])


def verdict(comparison: Comparison, metric: str | None = None) -> Verdict:
    """Return the verdict by a metric, the primary one if none is named."""
    metric = metric or comparison.contest.primary
    best = comparison.best.get(metric)
    if best is None:
        return Verdict("none", "Nothing to decide", "nothing to decide", _without_best(comparison, metric))
    evidence = tuple(_evidence(comparison, best))
    if len(best.compared) == 1:
        headline = _ONLY.format(leader=best.leader, metric=metric)
        return Verdict("none", "One model", f"{best.leader} alone", headline, evidence=evidence)
    headline, details = _headline(comparison, best), tuple(_details(comparison, best))
    if len(best.models) == 1:
        return Verdict("one", "Decided", f"{best.leader} is the best", headline, details, evidence)
    return Verdict("several", "Not decided", f"{best.leader} leads, not decided", headline, details, evidence)


def _headline(comparison: Comparison, best: BestModels) -> str:
    """Return what is known: the models that beat the baseline and by how much, and which of them is the best."""
    metric, baseline, leader = best.metric, comparison.contest.baseline, best.leader
    if baseline is None or baseline not in best.compared:
        if len(best.models) == 1:
            return _BEST_OVER.format(leader=leader, gain=_gain(comparison, metric, leader, best.compared[1]))
        return _NOT_DECIDED.format(models=_named(best.models), metric=metric)
    others = [model for model in best.compared if model != baseline]
    if leader == baseline:
        if len(best.models) == 1:
            gain = _change(comparison, metric, others[:1], baseline, amounts=_AMOUNTS, times=_AMOUNTS)
            return _NONE_BEATS.format(baseline=baseline, second=others[0], gain=gain)
        return _BASELINE_LEADS.format(
            baseline=baseline, others=_named([m for m in best.models if m != baseline])
        )
    beat = [
        m
        for m in best.models
        if (pair := comparison.pair(metric, m, baseline)) is not None and pair.mark == "+"
    ]
    if len(best.models) == 1:
        gain = _gain(comparison, metric, leader, baseline)
        return (_BEST_OVER if beat else _BEST).format(leader=leader, gain=gain, metric=metric)
    if not beat:
        gain = _change(comparison, metric, [leader], baseline, amounts=_AMOUNTS, times=_AMOUNTS)
        return _NONE_SHOWN.format(baseline=baseline, leader=leader, gain=gain)
    rest = [model for model in best.models if model not in beat]
    named = beat if len(beat) <= _MOST_NAMED else beat[: _MOST_NAMED - 1]
    values = {
        "model": beat[0],
        "models": _named(beat),
        "baseline": baseline,
        "others": _named(rest),
        "gains": _change(comparison, metric, named, baseline, amounts=_AMOUNTS, times=_TIMES_ITS),
        "count": _COUNTS.get(len(beat), str(len(beat))),
    }
    if not rest:
        return _BEAT.format(**values)
    if len(beat) == 1:
        return (_BEATS if len(rest) == 1 else _BEATS_MORE).format(**values)
    return (_BEAT_SOME if len(rest) == 1 else _BEAT_SOME_MORE).format(**values)


def _gain(comparison: Comparison, metric: str, model: str, against: str) -> str:
    """Return by how much one model is better than another one, which is named."""
    amounts = _OVER if comparison.contest.spec(metric).direction > 0 else _AGAINST_LOWER
    return _change(comparison, metric, [model], against, amounts=amounts, times=_TIMES)


def _change(
    comparison: Comparison, metric: str, models: Sequence[str], against: str, *, amounts: str, times: str
) -> str:
    """Return by how much models differ from another one: ``+89 % and +72 %``, or absolute where that is near zero.

    ``amounts`` is the template, ``times`` the one where a factor is read more easily.
    """
    means = {row.model: row.mean(metric) for row in comparison.models}
    ratios, differences = [], []
    for model in models:
        if (pair := comparison.pair(metric, model, against)) is not None:
            ratios.append(1 + pair.paired.relative)
            differences.append(pair.paired.interval.mean)
        else:
            ratios.append(means[model] / means[against] if means[against] > 0 else math.inf)
            differences.append(means[model] - means[against])
    has_ratios = all(1 / _MOST_TIMES < ratio < _MOST_TIMES for ratio in ratios)
    texts = [relative(ratio - 1) for ratio in ratios] if has_ratios else [*map(signed, differences)]
    return (times if has_ratios and max(ratios) > _LARGE_RATIO else amounts).format(
        amounts=_listed(texts),
        times=_listed([number(ratio, 1) for ratio in ratios]),
        metric=metric,
        against=against,
    )


def _details(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield for whom the leader is better, what the models cost that may be the best, and what to do next."""
    units, baseline, level = comparison.contest.units, comparison.contest.baseline, percent(best.level)
    pair = _against_baseline(comparison, best)
    if pair is not None and pair.mark:
        whom = _FOR_WHOM.format(
            model=pair.model, against=pair.against, better=share(pair.better), worse=share(pair.worse), units=units,
            level=level, users=f"{pair.paired.users:,}",
        )  # fmt: skip
    else:
        whom = _OVER_USERS.format(level=level, users=f"{best.users:,}", units=units)
    yield " ".join([whom, *_cautions(comparison, best), *group_sentences(comparison, best.metric)])
    if best.metric != comparison.contest.primary:
        return
    named = best.models[:_MOST_NAMED]
    if baseline is not None and baseline not in named:
        named = (*named, baseline)
    if costs := [cost for model in named if (cost := _cost(comparison, model))]:
        yield _COSTS.format(costs=_listed(costs))
    values = {"units": units, "leader": best.leader, "rival": best.rival}
    if baseline is not None and (best.leader == baseline or pair is None or not pair.mark):
        least = [
            p.paired.detectable for p in comparison.pairs if p.metric == best.metric and p.against == baseline
        ]
        if math.isfinite(smallest := min(least, default=math.nan)):
            yield _NEXT_NONE.format(least=number(smallest), **values)
    elif len(best.models) == 1:
        against = baseline or best.compared[1]
        yield _NEXT_DECIDED.format(against=against, **values)
    elif best.users > 1:
        yield (_NEXT_SEEDS if best.needs_seeds else _NEXT_UNDECIDED).format(**values)


def _cost(comparison: Comparison, model: str) -> str:
    """Return the seconds and memory that a model's fit and lists take; empty where they are not known."""
    costs = facts_of(comparison.contest, model).costs
    taken = math.nan if costs is None else costs.fit_seconds + costs.recommend_seconds
    if costs is None or not math.isfinite(taken):
        return ""
    template = _COST_TIME if (shown := memory(costs.peak_memory_mb)) == UNDEFINED else _COST
    return template.format(seconds=seconds(taken), memory=shown, model=model)


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


def _evidence(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield the statistics behind the headline: the leader against the baseline, and both by the other metrics."""
    if (pair := _against_baseline(comparison, best)) is None:
        return
    yield _AGAINST.format(model=pair.model, against=pair.against, difference=_difference(comparison, pair))
    names = (pair.model, pair.against)
    others = [p for p in comparison.pairs if (p.model, p.against) == names and p is not pair and p.direction]
    for template, mark in ((_BETTER_BY, "+"), (_WORSE_BY, "-"), (_NOT_SHOWN_BY, "")):
        if metrics := [p.metric for p in others if p.mark == mark]:
            yield template.format(metrics=", ".join(metrics))


def _cautions(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield what limits the headline: users without a value, seeds, few users who differ, users without history."""
    yield from why_several(best, comparison.contest.units)
    if basis := ranking_basis(comparison, best.metric):
        yield _BASIS.format(basis=basis)
    pair = _against_baseline(comparison, best)
    if pair is not None and pair.is_within_seeds:
        yield _WITHIN_SEEDS.format(range=number(pair.seed_range))
    if best.fewest is not None and best.fewest[1] < RELIABLE_FROM:
        other, differing = best.fewest
        yield _FEW_WITH.format(
            differing=differing, units=comparison.contest.units, leader=best.leader, other=other
        )
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
        return _listed(models)
    return f"{', '.join(models[: _MOST_NAMED - 1])} and {len(models) - _MOST_NAMED + 1} others"


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


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
    if pair.mark and pair.paired.differing < RELIABLE_FROM:
        sentences.append(_FEW.format(differing=pair.paired.differing, units=comparison.contest.units))
    return " ".join(sentences)
