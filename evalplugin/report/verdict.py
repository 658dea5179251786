"""Verdicts: the leading model, whether its lead is real, and groups of users for which it is worse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from evalplugin.base.numbers import number, p_equals, percent, relative, share, signed
from evalplugin.comparison.compared import ComparedModel, Mark, Pair, SegmentCell
from evalplugin.comparison.comparison import Comparison
from evalplugin.metrics import parse

__all__ = ["Verdict", "segment_verdict", "verdict", "verdict_sentence"]

Status = Literal["better", "worse", "unclear", "none"]

_MOST_NAMED = 3  # groups of users that are named; the others are counted
_OTHER_WAY: dict[Mark, Mark] = {"+": "-", "-": "+", "": ""}


@dataclass(frozen=True)
class Verdict:
    """One sentence, and lines below it, each with a label.

    ``status`` is of the leader against the baseline: ``better``: shown to be, ``worse``: the baseline leads,
    ``unclear``: ahead, which may be chance, ``none``: nothing was compared.
    """

    status: Status
    label: str
    headline: str
    lines: tuple[tuple[str, str], ...]


class _Lead(NamedTuple):
    """The models with a value of a metric, and the difference of the leader from another one."""

    metric: str
    ranked: Sequence[ComparedModel]  # best first
    other: str | None  # the model that the first one is compared with
    pair: Pair | None  # None: not tested

    @property
    def case(self) -> Literal["nobody", "alone", "undirected", "baseline", "untested", "better", "unclear"]:
        if not self.ranked:
            return "nobody"
        if len(self.ranked) == 1:
            return "alone"
        if parse(self.metric).metric.higher_is_better is None:
            return "undirected"
        if self.ranked[0].is_baseline:
            return "baseline"
        if self.pair is None:
            return "untested"
        return "better" if self.pair.mark == "+" else "unclear"


def _lead(comparison: Comparison, metric: str, *, runner_up: bool = False) -> _Lead:
    """Return the lead by a metric over the baseline, or if ``runner_up`` over the second model."""
    up = parse(metric).metric.higher_is_better
    rows = [r for r in comparison.models if metric in r.cells and math.isfinite(r.cells[metric].mean)]
    rows.sort(key=lambda row: row.cells[metric].mean if up is False else -row.cells[metric].mean)
    other = rows[1].model if runner_up and len(rows) > 1 else comparison.contest.baseline
    pair = _pair(comparison, metric, rows[0].model, other) if rows and other is not None else None
    return _Lead(metric, rows, other, pair)


def verdict_sentence(comparison: Comparison, metric: str) -> str:
    """Return a sentence or two on the best model by a metric, and whether its lead may be chance.

    The lead is over the second model if every two models were compared, else over the baseline.
    """
    lead = _lead(comparison, metric, runner_up=comparison.pairing == "all")
    match lead.case:
        case "nobody":
            return f"No model has a value of {metric}."
        case "undirected":
            return f"Neither high nor low is better by {metric}: no model wins by it."
        case "alone":
            return f"Only {lead.ranked[0].model} has a value of {metric}."
        case "baseline":
            baseline = lead.ranked[0].model
            return (
                f"No model beats the baseline {baseline} by {metric}.{_others(comparison, metric, baseline)}"
            )
    best, pair = lead.ranked[0], lead.pair
    if pair is None:
        return f"{best.model} has the best {metric}: {number(best.cells[metric].mean)}."
    percents = relative(pair.paired.relative)
    difference = " ".join(
        filter(None, (signed(pair.paired.interval.mean), f"({percents})" if percents else ""))
    )
    if pair.mark:
        return (
            f"{best.model} wins by {metric}: {difference} against {lead.other}, {p_equals(pair.p_holm)}; better for "
            f"{share(pair.better)} of users, worse for {share(pair.worse)}."
        )
    return (
        f"{best.model} is ahead by {metric}, {difference} against {lead.other}, but that may be chance "
        f"({p_equals(pair.p_holm)}): only a difference of {number(pair.paired.detectable)} is found reliably here, in "
        f"4 of 5 such bake-offs."
    )


def segment_verdict(cells: Sequence[SegmentCell], baseline: str | None) -> str:
    """Return the groups in which each model is shown to be better or worse than the baseline; empty without one.

    ``cells`` are those of one segmentation and metric.
    """
    compared = [cell for cell in cells if cell.difference is not None]
    if not compared:
        return ""
    better, worse = (_groups_by_model(compared, mark) for mark in ("+", "-"))
    if not better and not worse:
        return f"No model is shown to differ from {baseline} in any group by {compared[0].segment}."
    parts = ((f"Better than {baseline}", better), (f"Worse than {baseline}", worse))
    return " ".join(f"{words}: {groups}." for words, groups in parts if groups)


def verdict(comparison: Comparison) -> Verdict:
    """Return the verdict on the leader by the primary metric, in detail."""
    lead = _lead(comparison, comparison.contest.primary)
    ranked = lead.ranked
    status, label, headline = _headline(comparison, lead)
    if not ranked:
        return Verdict(status, label, headline, tuple(_counts(comparison, None)))
    # If the baseline leads, the lines are about the second model.
    behind = ranked[0].is_baseline and len(ranked) > 1
    subject = ranked[1] if behind else ranked[0]
    prefix = f"{subject.model}, the nearest: " if behind else ""
    lines = [
        *((label, prefix + text) for label, text in _against_baseline(comparison, subject)),
        *([] if behind else _against_second(comparison, ranked)),
        *_counts(comparison, ranked[0]),
        *_detectable(subject.cells[lead.metric].difference),
    ]
    return Verdict(status, label, headline, tuple(lines))


def _headline(comparison: Comparison, lead: _Lead) -> tuple[Status, str, str]:
    metric, baseline = lead.metric, lead.other
    case = lead.case
    if case == "nobody":
        return "none", "Nothing to compare", f"No model has a value of {metric}"
    leader = lead.ranked[0].model
    tied = [row.model for row in lead.ranked if row.rank == 1]
    leads = f"{' and '.join(tied)} share the lead" if len(tied) > 1 else f"{leader} leads"
    match case:
        case "alone":
            return "none", "One model", f"{leader} is the only model with a value of {metric}"
        case "undirected":
            headline = f"{leader} has the highest {metric}, which is not better by itself"
            return "none", "Neither way is better", headline
        case "baseline":
            headline = f"No model is ahead of the baseline {baseline} by {metric}"
            return "worse", "Keep the baseline", headline
        case "untested" if baseline is None:
            return "none", "No baseline", f"{leads} by {metric}"
        case "untested":
            headline = f"{leads} by {metric}; nothing tests that against the baseline {baseline}"
            return "none", "Not tested", headline
        case "better":
            headline = f"{leads} by {metric}, and beats the baseline {baseline}"
            return "better", "Better than the baseline", headline
        case "unclear":
            headline = f"{leads} by {metric}, but is not shown to beat the baseline {baseline}"
            return "unclear", "Not shown to be better", headline


def _pair(comparison: Comparison, metric: str, model: str, other: str) -> Pair | None:
    """Return the comparison of a model with another, in this direction, whichever one was computed."""
    pair = comparison.pair(metric, model, other)
    if pair is not None or (pair := comparison.pair(metric, other, model)) is None:
        return pair
    paired, mark = pair.paired, _OTHER_WAY[pair.mark]
    difference = paired.interval
    reversed_paired = replace(
        paired,
        mean_a=paired.mean_b,
        mean_b=paired.mean_a,
        interval=replace(difference, mean=-difference.mean, low=-difference.high, high=-difference.low),
        relative=-difference.mean / paired.mean_a if paired.mean_a else math.nan,
        effect=-paired.effect,
        above=paired.below,
        below=paired.above,
    )
    return replace(pair, model=model, against=other, paired=reversed_paired, mark=mark)


def _others(comparison: Comparison, metric: str, baseline: str) -> str:
    """Return a sentence on the models that are not shown to be worse than the leading baseline."""
    pairs = [p for p in comparison.pairs if (p.metric, p.against) == (metric, baseline)]
    unclear = [p.model for p in pairs if p.mark != "-"]
    if unclear:
        return f" Not shown to be worse: {', '.join(unclear)}."
    return " All others are shown to be worse." if pairs else ""


def _groups_by_model(cells: Sequence[SegmentCell], mark: str) -> str:
    found: dict[str, list[str]] = {}
    for cell in cells:
        if _mark(cell) == mark:
            found.setdefault(cell.model, []).append(cell.label)
    total = len({cell.label for cell in cells})
    return "; ".join(
        f"{model} in {'every group' if len(labels) == total else ', '.join(labels)}"
        for model, labels in found.items()
    )


def _against_baseline(comparison: Comparison, subject: ComparedModel) -> Iterator[tuple[str, str]]:
    metric = comparison.contest.primary
    pair = subject.cells[metric].difference
    if pair is None:
        return
    yield "Against the baseline", _difference(comparison, pair)
    if math.isfinite(pair.better):
        same = f"the same for {share(pair.paired.equal)}"
        yield "Users", f"better for {share(pair.better)}, {same}, worse for {share(pair.worse)}"
        cells = [
            c for c in comparison.segments if (c.model, c.metric) == (subject.model, metric) and c.difference
        ]
        if cells:
            yield "Groups of users", _groups(cells)
    others = [c.difference for m, c in subject.cells.items() if m != metric and c.difference is not None]
    decidable = [p for p in others if p.higher_is_better is not None]
    if decidable:
        yield "Other metrics", _other_metrics(decidable)


def _against_second(comparison: Comparison, ranked: Sequence[ComparedModel]) -> Iterator[tuple[str, str]]:
    if len(ranked) == 1:
        return
    metric, (leader, second) = comparison.contest.primary, ranked[:2]
    between = comparison.pair(metric, leader.model, second.model)
    if between is None:
        ahead = signed(leader.cells[metric].mean - second.cells[metric].mean)
        untested = "these two were not tested against each other"
        yield "Against the runner-up", f"{second.model}: {ahead}; {untested}"
    elif between is not leader.cells[metric].difference:
        yield "Against the runner-up", f"{second.model}: {_difference(comparison, between)}"


def _difference(comparison: Comparison, pair: Pair) -> str:
    interval, percents = pair.paired.interval, relative(pair.paired.relative)
    text = signed(interval.mean) + (f" ({percents})" if percents else "")
    text += _interval(comparison, interval.low, interval.high)
    if math.isnan(pair.p_holm):
        return f"{text}; too few users to test"
    real = "real" if pair.p_holm <= 1 - comparison.level else "may be chance"
    return f"{text}; {real}: {p_equals(pair.p_holm)} after Holm's correction"


def _interval(comparison: Comparison, low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f", {percent(comparison.level)} interval {number(low)} to {number(high)}"


def _groups(cells: Sequence[SegmentCell]) -> str:
    """Return the groups in which a model is worse, in which it may be, and in which a lead may be chance."""
    behind, ahead = ([c for c in cells if (_gain(c) < 0) == is_behind] for is_behind in (True, False))
    kinds = {
        "worse, which is real": [c for c in behind if _mark(c) == "-"],
        "behind, which may be chance": [c for c in behind if _mark(c) != "-"],
        "ahead, which may be chance": [c for c in ahead if _mark(c) != "+"],
    }
    parts = [f"{kind}: {_named(found)}" for kind, found in kinds.items() if found]
    if any(_mark(c) == "+" for c in ahead):
        parts.append("better in all others" if parts else "better in all")
    return "; ".join(parts)


def _named(cells: Sequence[SegmentCell]) -> str:
    worst = sorted(cells, key=_gain)
    named = [
        f"{c.segment} {c.label} ({signed(c.difference.paired.interval.mean)})"
        for c in worst[:_MOST_NAMED]
        if c.difference is not None
    ]
    more = len(cells) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _mark(cell: SegmentCell) -> Mark:
    return "" if cell.difference is None else cell.difference.mark


def _gain(cell: SegmentCell) -> float:
    """Return the gain of a model over the baseline in a group; 0 for a metric without a better direction."""
    if cell.difference is None or cell.difference.higher_is_better is None:
        return 0.0
    mean = cell.difference.paired.interval.mean
    return mean if cell.difference.higher_is_better else -mean


def _other_metrics(pairs: Sequence[Pair]) -> str:
    words = (("better", "+"), ("worse", "-"), ("nothing shown", ""))
    named = ((word, [p.metric for p in pairs if p.mark == mark]) for word, mark in words)
    return "; ".join(f"{word} by {', '.join(metrics)}" for word, metrics in named if metrics)


def _counts(comparison: Comparison, leader: ComparedModel | None) -> Iterator[tuple[str, str]]:
    if leader is not None:
        cell = leader.cells[comparison.contest.primary]
        over = f"over {cell.users:,} {'user' if cell.users == 1 else 'users'}"
        undefined = f"; undefined for {cell.undefined:,} more" if cell.undefined else ""
        yield "Mean", f"{number(cell.mean)}{_interval(comparison, cell.low, cell.high)}, {over}{undefined}"
    if comparison.failed:
        yield "Failed", ", ".join(row.model for row in comparison.failed)


def _detectable(pair: Pair | None) -> Iterator[tuple[str, str]]:
    if pair is not None and math.isfinite(pair.paired.detectable):
        yield (
            "Detectable",
            f"a true difference of {number(pair.paired.detectable)} would have been found 4 times out of 5",
        )
