"""Verdicts: the models that may be the best, groups in which they differ, and the leader against the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalplugin.base.numbers import number, p_equals, percent, relative, share, signed
from evalplugin.base.units import count_text, plural
from evalplugin.comparison.best import BestModels
from evalplugin.comparison.compared import ComparedModel, Pair
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.report.words import MAY_ERR, ranking_basis, seed_range, to_tell_apart

_MOST_NAMED = 4  # models that are named in a sentence; the others are counted
_MOST_GROUPS = 2


@dataclass(frozen=True)
class Verdict:
    """One sentence, and lines below it, each with a label."""

    # ``one`` model is shown to be the best, ``several`` may be, or ``none``: nothing was compared.
    status: Literal["one", "several", "none"]
    label: str
    headline: str
    lines: tuple[tuple[str, str], ...]


def verdict_sentence(comparison: Comparison, metric: str) -> str:
    """Return a few sentences: the models that may be the best by a metric, and the leader against the baseline."""
    best = comparison.best.get(metric)
    if best is None:
        return f"{_without_best(comparison, metric)}."
    sentences = [_headline(comparison, best), *group_sentences(comparison, metric)]
    pair = _against_baseline(comparison, best)
    if pair is not None:
        sentences.append(f"{best.leader} against {pair.against}: {_difference(comparison, pair)}")
    elif best.leader == comparison.contest.baseline:
        means = {row.model: row.mean(metric) for row in comparison.models}
        if any(means[model] != means[best.leader] for model in best.compared[1:2]):
            sentences.append(f"The baseline {best.leader} leads")
    return f"{'. '.join(sentences)}."


def best_sentence(best: BestModels) -> str:
    """Return the models that may be the best as a sentence without a full stop: the first line of every report."""
    by = f"by {best.metric}"
    if len(best.compared) == 1:
        return f"{best.leader} is the only model with a value of {best.metric}"
    if len(best.models) == 1:
        return f"{best.leader} is the best {by} ({percent(best.level)} confidence)"
    sentence = f"Any of {_named(best.models)} may be the best {by} ({percent(best.level)} confidence)"
    if best.users < 2:
        counted = f"a single {best.unit} has" if best.users == 1 else f"no {best.unit} has"
        return f"{sentence}: {counted} values of all models"
    if best.users_to_tell is None and not best.needs_seeds:
        return f"{sentence}; {best.leader} and {best.rival} have equal means"
    return sentence


def group_sentences(comparison: Comparison, metric: str) -> list[str]:
    """Return at most a few sentences on groups of users in which the leader is shown not to be the best."""
    best = comparison.best.get(metric)
    if best is None:
        return []
    groups = [g for s in comparison.contest.segments for g in comparison.best_in_groups(s.name, metric)]
    others = [group for group in groups if best.leader in group.compared and best.leader not in group.models]
    units = plural(comparison.contest.units.noun)
    sentences = [
        f'Among {units} of the group "{group.label}" ({group.segment}), {_in_group(group)}'
        for group in others[:_MOST_GROUPS]
    ]
    more = len(others) - len(sentences)
    if more:
        sentences[-1] += f" (and {count_text(more, 'more group')})"
    return sentences


def segment_verdict(comparison: Comparison, segment: str, metric: str) -> str:
    """Return the models that may be the best in each group of users of a segmentation, or why it names no winner."""
    if any(s.from_truth for s in comparison.contest.segments if s.name == segment):
        return (
            "These groups are made from the held-out items, which nobody knows when a list is made: they show where "
            "scores come from, and no winner is named."
        )
    groups = comparison.best_in_groups(segment, metric)
    return " ".join(f"{group.label}: {_in_group(group)}." for group in groups)


def verdict(comparison: Comparison) -> Verdict:
    """Return the verdict by the primary metric, in detail."""
    metric = comparison.contest.primary
    failed = [("Failed", ", ".join(row.model for row in comparison.failed))] if comparison.failed else []
    best = comparison.best.get(metric)
    if best is None:
        return Verdict("none", "Nothing to decide", _without_best(comparison, metric), tuple(failed))
    leader = next(row for row in comparison.models if row.model == best.leader)
    lines = (
        *_groups(comparison, best),
        *_baseline(comparison, leader, best),
        *(("To tell them apart", text) for text in to_tell_apart(best)),
        ("Mean", _mean(comparison, leader)),
        *failed,
    )
    headline = _headline(comparison, best)
    if len(best.compared) == 1:
        return Verdict("none", "One model", headline, lines)
    if len(best.models) == 1:
        return Verdict("one", "Decided", headline, lines)
    return Verdict("several", "Not decided", headline, lines)


def _headline(comparison: Comparison, best: BestModels) -> str:
    """Return the models that may be the best, and whether users without history decide who leads."""
    basis = ranking_basis(comparison, best.metric)
    sentence = best_sentence(best) + _few_with_leader(comparison, best)
    sentence += f". It rests on {basis}" if basis else ""
    units = plural(best.unit)
    first = " in the first fold that tests them" if comparison.n_folds > 1 else ""
    if comparison.is_of_newcomers(best.metric):
        return (
            f"{sentence}. But none of these {best.users:,} {units} has history{first}: models are compared by what "
            f"they give to newcomers"
        )
    known = comparison.best_with_history(best.metric)
    if known is None:
        return sentence
    without = best.users - known.users
    among = _in_group(known) if len(known.models) == 1 else f"{known.leader} leads, and {_in_group(known)}"
    return (
        f"{sentence}. But {without:,} of these {best.users:,} {units} ({share(without / best.users)}) have no history"
        f"{first}; among the {known.users:,} with history {among}"
    )


def _without_best(comparison: Comparison, metric: str) -> str:
    """Return why there is no best model by a metric."""
    having = [row for row in comparison.models if math.isfinite(row.mean(metric))]
    direction = comparison.contest.spec(metric).direction
    if not having:
        if ranking_basis(comparison, metric) is None:
            return f"No {comparison.contest.units.noun} has values of all models: none is ranked by {metric}"
        return f"No model has a value of {metric}"
    if not direction:
        return f"Neither high nor low is better by {metric}: no model wins by it"
    leader = max(having, key=lambda row: direction * row.mean(metric))
    return f"{leader.model} has the best {metric}, {number(leader.mean(metric))}: one number, without a test"


def _named(models: Sequence[str]) -> str:
    if len(models) <= _MOST_NAMED:
        return ", ".join(models)
    return f"{', '.join(models[: _MOST_NAMED - 1])} and {len(models) - _MOST_NAMED + 1} others"


def _in_group(group: BestModels) -> str:
    if len(group.models) == 1:
        return f"{group.leader} is the best"
    return f"any of {_named(group.models)} may be the best"


def _groups(comparison: Comparison, best: BestModels) -> Iterator[tuple[str, str]]:
    names = [s.name for s in comparison.contest.segments if comparison.best_in_groups(s.name, best.metric)]
    if not names or len(best.compared) == 1:
        return
    sentences = group_sentences(comparison, best.metric)
    yield (
        "For whom it differs",
        "; ".join(sentences) or f"for no group by {', '.join(names)}, as far as is shown",
    )


def _against_baseline(comparison: Comparison, best: BestModels) -> Pair | None:
    baseline = comparison.contest.baseline
    return None if baseline is None else comparison.pair(best.metric, best.leader, baseline)


def _baseline(comparison: Comparison, leader: ComparedModel, best: BestModels) -> Iterator[tuple[str, str]]:
    pair = _against_baseline(comparison, best)
    if pair is None:
        if leader.is_baseline and len(best.compared) > 1:
            yield "Baseline", f"{leader.model} leads itself: no model is ahead of it"
        return
    yield f"Against {pair.against}", _difference(comparison, pair)
    names = (pair.model, pair.against)
    others = [p for p in comparison.pairs if (p.model, p.against) == names and p is not pair and p.direction]
    if others:
        yield "Other metrics", _other_metrics(others)


def _difference(comparison: Comparison, pair: Pair) -> str:
    interval, percents = pair.paired.interval, relative(pair.paired.relative)
    units = plural(comparison.contest.units.noun)
    text = signed(interval.mean) + (f" ({percents})" if percents else "")
    text += _interval(comparison, interval.low, interval.high)
    if math.isnan(pair.p_holm):
        return f"{text}; too few {units} to test"
    if not pair.mark:
        least, chance = pair.paired.detectable, f"may be chance ({p_equals(pair.p_holm, 'Holm')})"
        if abs(interval.mean) < least:
            chance += f", as only {number(least)} is found in 4 of 5 such bake-offs"
        return f"{text}; {chance}{seed_range(pair)}"
    few = _few(pair.paired.differing, comparison.contest)
    shares = f"better for {share(pair.better)} of {units}, worse for {share(pair.worse)}"
    return f"{text}; {p_equals(pair.p_holm, 'Holm')}; {shares}{seed_range(pair)}{few}"


def _few_with_leader(comparison: Comparison, best: BestModels) -> str:
    """Return the warning that few users tell the leader from a model that is left out; empty without such a model."""
    if best.fewest is None:
        return ""
    model, differing = best.fewest
    pair = _against_baseline(comparison, best)
    if pair is not None and pair.mark and pair.against == model:
        return ""  # it stands beside the difference
    return _few(differing, comparison.contest, f" with {best.leader} and {model}")


def _few(differing: int, contest: Contest, where: str = "") -> str:
    """Return the warning of a test that rests on few users or queries; empty for others."""
    if differing >= RELIABLE_FROM:
        return ""
    units = plural(contest.units.independent)
    return f"; only {differing:,} {units} have different scores{where}: below {RELIABLE_FROM}, {MAY_ERR}"


def _interval(comparison: Comparison, low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f", {percent(comparison.level)} interval {number(low)} to {number(high)}"


def _other_metrics(pairs: Sequence[Pair]) -> str:
    words = (("better", "+"), ("worse", "-"), ("nothing shown", ""))
    named = ((word, [p.metric for p in pairs if p.mark == mark]) for word, mark in words)
    return "; ".join(f"{word} by {', '.join(metrics)}" for word, metrics in named if metrics)


def _mean(comparison: Comparison, leader: ComparedModel) -> str:
    cell = leader.cells[comparison.contest.primary]
    more = f"; {cell.undefined:,} more without a value" if cell.undefined else ""
    mean = f"{number(cell.mean)}{_interval(comparison, cell.low, cell.high)}"
    return f"{mean}, over {count_text(cell.users, comparison.contest.units.noun)}{more}"
