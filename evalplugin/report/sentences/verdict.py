"""The verdict: models that may be the best, the leader against the baseline, users and groups for whom it differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalplugin.base.numbers import (
    number,
    p_equals,
    percent,
    relative,
    rounded,
    share,
    signed,
)
from evalplugin.base.units import count_text
from evalplugin.comparison.best import BestModels
from evalplugin.comparison.compared import Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.doubt import FAMILY, Doubt, doubts_of
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.metrics.scores import Units
from evalplugin.report.sentences.fits import costs_of, seconds_taken
from evalplugin.report.sentences.off_policy import (
    assumed_lines,
    cannot_tell,
    further_doubts,
    next_with_doubts,
)
from evalplugin.report.sentences.units import ranking_basis

# Headlines: what is known, in the terms of a decision.
_ONLY = "{leader} is the only model with a value of {metric}."
_NO_MATCH = (
    " No decision of the log shows what another one would, position by position: take fewer positions (@1), or a "
    "policy that is nearer to what was shown."
)
_BEST_OVER = "{model} is the best: its {metric} is {gap} than that of {against}{lower_is_better}."
_BEST_TIMES = "{model} is the best: its {metric} is {times} times that of {against}."
_BEATS = "{models} beats {against}: {gains}{lower_is_better}."
_BEAT = "{models} beat {against}: {gains}{lower_is_better}. This test cannot tell which of them is better."
_AS_GOOD = "{others} may be as good."
_NONE_BEATS = "No model beats {against}: the {metric} of the next best, {model}, is {gap}{lower_is_better}."
_NONE_SHOWN = (
    "No model is shown to beat {against}: the {metric} of {model} is {gap}{lower_is_better}, which may be chance with "
    "{users}."
)
_BASELINE_LEADS = "No model is shown to beat {model}. {others} may be as good."
_WHICH = "This test cannot tell which of {models} is the best by {metric}."
_NO_VALUE = "No model has a value of {metric}."
_NOT_RANKED = "No {units.noun} has values of all models: none is ranked by {metric}."
_NO_DIRECTION = "Neither high nor low is better by {metric}: no model wins by it."
_ONE_NUMBER = "{leader} has the best {metric}, {mean}: one number, without a test."

# By how much models differ from another one.
_HIGHER = "{amount} higher"
_LOWER = "{amount} lower"
_LOWER_IS_BETTER = " (lower is better)"
_GAINS = "{amounts} {metric}"
_GAINS_TIMES = "{times} times its {metric}"
_LARGE_RATIO = 3.0  # above it a factor is read more easily than percent
_MOST_TIMES = 20.0  # a baseline near zero: a ratio to it says nothing

# At most three lines: for whom, at what cost, and what to do next.
_TEST = "Offline test with {users} at {level} confidence."
_TEST_FOR_WHOM = (
    "Offline test with {users} at {level} confidence: {model} does better for {better} of them, {against} for "
    "{worse}."
)
_NEXT_DECIDED = (
    "Next: test {leader} against {against} on live traffic; offline scores do not show what people will do."
)
_NEXT_FASTEST = (
    "Next: test the fastest of them, {fastest}, on live traffic, or repeat this with more {units.nouns}; with {more}, "
    "a gap half as large would show."
)
_NEXT_MORE = "Next: repeat this with more {units.nouns}; with {more}, a gap half as large would show."
_NEXT_SEEDS = (
    "Next: fit with more seeds: as far as is measured, more {units.nouns} alone would not tell {leader} from "
    "{rival}."
)
_NEXT_TUNE = "Next: tune the models."
_NEXT_NONE = (
    "Next: repeat this with more {units.nouns}; with {users}, only a gap of {least} {metric} or more would "
    "show."
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
_SHOWN_OF_ALL = "{measured}; {p}."  # of a metric that no user has a value of
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
_BEST_IN_GROUP = 'But in the group "{label}" of {segment}, {leader} is the best.'
_MAY_BE_BEST_IN_GROUP = 'But in the group "{label}" of {segment}, {models} may be the best.'
_MORE_GROUPS = "Nor is {leader} the best in {groups} more."
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
    details: tuple[str, ...] = ()  # at most two lines: for whom, at what cost
    next_step: str = ""  # a sentence
    evidence: tuple[str, ...] = ()  # sentences of statistics

    def __str__(self) -> str:
        return " ".join([self.headline, *self.lines()])

    def lines(self, *, is_gated: bool = False) -> list[str]:
        """Return what is said below the headline; of a next step nothing where a gate says what happens next."""
        return [line for line in (*self.details, "" if is_gated else self.next_step) if line]


def verdict(comparison: Comparison, metric: str | None = None) -> Verdict:
    """Return the verdict by a metric, the primary one if none is named."""
    metric = metric or comparison.contest.primary
    best = comparison.best.get(metric)
    if best is None:
        return Verdict("none", "Nothing to decide", "nothing to decide", _without_best(comparison, metric))
    if best.doubts:
        return _in_doubt(comparison, best)
    evidence = tuple(_evidence(comparison, best))
    if len(best.compared) == 1:
        headline = _ONLY.format(leader=best.leader, metric=metric)
        if comparison.contest.spec(metric).family == FAMILY and len(comparison.scored) > 1:
            headline += _NO_MATCH
        return Verdict("none", "One model", f"{best.leader} alone", headline, evidence=evidence)
    said = (
        _headline(comparison, best),
        tuple(_details(comparison, best)),
        _next_step(comparison, best),
        evidence,
    )
    if len(best.models) == 1:
        return Verdict("one", "Decided", f"{best.leader} is the best", *said)
    return Verdict("several", "Not decided", f"{best.leader} may be the best", *said)


def _in_doubt(comparison: Comparison, best: BestModels) -> Verdict:
    """Return the verdict where a log cannot tell the values of some models: which of the others beat the baseline."""
    all_doubts = doubts_of(comparison.contest, best.metric)
    doubts: dict[str, Doubt] = {model: all_doubts[model] for model in best.doubts}
    headline, baseline = [cannot_tell(doubts)], _baseline(comparison, best)
    beat = [model for model in best.compared if _beats_baseline(comparison, best.metric, model)]
    if baseline is not None and beat:
        gap = _gap(comparison, best.metric, beat[0], baseline)
        gains = _gains(comparison, best.metric, beat, baseline)
        template = _BEATS if len(beat) == 1 else _BEAT
        headline.append(template.format(**gap | {"models": _named(beat), "gains": gains}))
    details = [*further_doubts(doubts), *_basis(comparison, best)]
    primary = best.metric == comparison.contest.primary
    return Verdict(
        "several" if len(best.compared) > 1 else "none", "Cannot tell", "cannot tell", " ".join(headline),
        (" ".join(details),) if details else (), next_with_doubts(doubts) if primary else "",
    )  # fmt: skip


def _headline(comparison: Comparison, best: BestModels) -> str:
    """Return what is known: the models that beat the baseline and by how much, and which of them is the best."""
    metric, baseline, against = best.metric, _baseline(comparison, best), _against(comparison, best)
    if best.models == (baseline,):
        return _NONE_BEATS.format(**_gap(comparison, metric, against, best.leader))
    gap = _gap(comparison, metric, best.leader, against)
    if len(best.models) == 1:
        return (_BEST_TIMES if gap["times"] else _BEST_OVER).format(**gap)
    if baseline is None:
        return _WHICH.format(models=_named(best.models), metric=metric)
    if best.leader == baseline:
        return _BASELINE_LEADS.format(others=_named(best.models[1:]), **gap)
    beat = [model for model in best.models if _beats_baseline(comparison, metric, model)]
    if not beat:
        return _NONE_SHOWN.format(users=count_text(best.users, comparison.contest.units.noun), **gap)
    others = [model for model in best.models if model not in (*beat, baseline)]
    values = gap | {
        "models": _named(beat),
        "gains": _gains(comparison, metric, beat, baseline),
        "others": _named(others),
    }
    templates = [_BEATS if len(beat) == 1 else _BEAT, *([_AS_GOOD] if others else [])]
    return " ".join(template.format(**values) for template in templates)


def _gap(comparison: Comparison, metric: str, model: str, against: str) -> dict[str, str]:
    """Return what templates say of two models: names, ``gap`` (``21 % lower``), and ``times`` if it is large."""
    ratio, difference = _measured(comparison, metric, model, against)
    amount = relative(abs(ratio - 1)).removeprefix("+") or number(abs(difference))
    return {
        "metric": metric,
        "model": model,
        "against": against,
        "gap": (_HIGHER if difference >= 0 else _LOWER).format(amount=amount),
        "times": number(ratio, 1) if ratio > _LARGE_RATIO else "",
        "lower_is_better": _LOWER_IS_BETTER if comparison.contest.spec(metric).direction < 0 else "",
    }


def _gains(comparison: Comparison, metric: str, models: Sequence[str], against: str) -> str:
    """Return by how much models that are named differ from another one: ``+89 % and +72 % ndcg@10``."""
    named = models if len(models) <= _MOST_NAMED else models[: _MOST_NAMED - 1]
    measured = [_measured(comparison, metric, model, against) for model in named]
    ratios = [ratio for ratio, _ in measured]
    has_ratios = all(map(math.isfinite, ratios))
    if has_ratios and max(ratios) > _LARGE_RATIO:
        return _GAINS_TIMES.format(times=_listed([number(ratio, 1) for ratio in ratios]), metric=metric)
    texts = [relative(ratio - 1) if has_ratios else signed(difference) for ratio, difference in measured]
    return _GAINS.format(amounts=_listed(texts), metric=metric)


def _measured(comparison: Comparison, metric: str, model: str, against: str) -> tuple[float, float]:
    """Return the ratio of two models' means, NaN where the second is near zero, and their difference."""
    if (pair := comparison.pair(metric, model, against)) is not None:
        ratio, difference = 1 + pair.paired.relative, pair.paired.interval.mean
    else:
        means = {row.model: row.mean(metric) for row in comparison.models}
        ratio = means[model] / means[against] if means[against] > 0 else math.nan
        difference = means[model] - means[against]
    return ratio if 1 / _MOST_TIMES < ratio < _MOST_TIMES else math.nan, difference


def _baseline(comparison: Comparison, best: BestModels) -> str | None:
    """Return the baseline; None where there is none or it has no values."""
    baseline = comparison.contest.baseline
    return baseline if baseline in best.compared else None


def _against(comparison: Comparison, best: BestModels) -> str:
    """Return the model that the leader is held against: the baseline, or the next best without one."""
    baseline = _baseline(comparison, best)
    return best.compared[1] if baseline is None or baseline == best.leader else baseline


def _details(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield for whom the leader is better, and what the models cost that may be the best."""
    noun, level = comparison.contest.units.noun, percent(best.level)
    pair = _against_baseline(comparison, best.metric, best.leader)
    if pair is not None and pair.mark and math.isfinite(pair.better):
        test = _TEST_FOR_WHOM.format(
            users=count_text(pair.paired.users, noun), level=level, model=pair.model, against=pair.against,
            better=share(pair.better), worse=share(pair.worse),
        )  # fmt: skip
    else:
        test = _TEST.format(users=count_text(best.users, noun), level=level)
    yield " ".join([test, *_cautions(comparison, best), *group_sentences(comparison, best.metric)])
    if best.metric != comparison.contest.primary:
        return
    named = dict.fromkeys([*best.models[:_MOST_NAMED], _against(comparison, best)])
    if costs := costs_of(comparison, named):
        yield costs


def _next_step(comparison: Comparison, best: BestModels) -> str:
    """Return what to do next by the primary metric; empty where nothing is known."""
    contest, baseline, metric = comparison.contest, _baseline(comparison, best), best.metric
    values = {"units": contest.units, "leader": best.leader, "rival": best.rival, "metric": metric}
    values |= {"users": f"{best.users:,}", "more": f"{4 * best.users:,}"}
    if metric != contest.primary or best.users < 2:
        return ""
    if best.models == (baseline,):
        return _NEXT_TUNE
    if len(best.models) == 1:
        return _NEXT_DECIDED.format(against=_against(comparison, best), **values)
    if baseline is not None and not _beats_baseline(comparison, metric, best.leader):
        model = _against(comparison, best) if best.leader == baseline else best.leader
        pair = comparison.pair(metric, model, baseline)
        if pair is None or not 0 < pair.paired.detectable < math.inf:
            return ""
        if abs(pair.paired.interval.mean) < pair.paired.detectable:
            least = f"{rounded(pair.paired.detectable, 2):,g}"
            return _NEXT_NONE.format(least=least, **values)
        return _NEXT_MORE.format(**values)
    if best.needs_seeds:
        return _NEXT_SEEDS.format(**values)
    taken = seconds_taken(comparison)
    good = [m for m in best.models if baseline is None or _beats_baseline(comparison, metric, m)]
    template = _NEXT_FASTEST if taken.keys() >= set(good) else _NEXT_MORE
    fastest = min(good, key=lambda model: taken.get(model, math.inf))
    return template.format(fastest=fastest, **values)


def why_several(best: BestModels, units: Units) -> list[str]:
    """Return at most one sentence on why several models may be the best: hardly any users, or equal means."""
    if len(best.models) == 1 or best.doubts:
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
    sentences = [
        _in_group(group, _BEST_IN_GROUP, _MAY_BE_BEST_IN_GROUP, segment=group.segment)
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
    if (pair := _against_baseline(comparison, best.metric, best.leader)) is None:
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
    yield from _basis(comparison, best)
    pair = _against_baseline(comparison, best.metric, best.leader)
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


def _basis(comparison: Comparison, best: BestModels) -> Iterator[str]:
    """Yield what the headline rests on: assumed propensities, the users of all models."""
    yield from assumed_lines(comparison.contest, [best.metric])
    if basis := ranking_basis(comparison, best.metric):
        yield _BASIS.format(basis=basis)


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


def _against_baseline(comparison: Comparison, metric: str, model: str) -> Pair | None:
    baseline = comparison.contest.baseline
    return None if baseline is None else comparison.pair(metric, model, baseline)


def _beats_baseline(comparison: Comparison, metric: str, model: str) -> bool:
    pair = _against_baseline(comparison, metric, model)
    return pair is not None and pair.mark == "+"


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
    shown = _SHOWN if math.isfinite(pair.better) else _SHOWN_OF_ALL
    sentences = [(shown if pair.mark else _CHANCE).format(**values)]
    if not pair.mark and abs(interval.mean) < pair.paired.detectable:
        sentences.append(_DETECTABLE.format(least=number(pair.paired.detectable)))
    if pair.mark and pair.paired.differing < RELIABLE_FROM:
        sentences.append(_FEW.format(differing=pair.paired.differing, units=comparison.contest.units))
    return " ".join(sentences)
