"""What a comparison says, in words: who leads, whether that is real, and for whom it is worse."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from evalplugin.comparison.compared import ComparedModel, Pair, SegmentCell
from evalplugin.comparison.comparison import Comparison
from evalplugin.metrics import parse
from evalplugin.report.page.wording import p_text, share, shown, signed

__all__ = ["Verdict", "verdict"]

Status = Literal["better", "worse", "unclear", "none"]

_MOST_NAMED = 3  # groups of users that are named; the others are counted


@dataclass(frozen=True)
class Verdict:
    """One sentence, and lines below it, each with a label.

    ``status`` is of the leader against the baseline: ``better`` is shown, ``worse``: the baseline leads, ``unclear``:
    ahead, which may be chance, ``none``: nothing to be said.
    """

    status: Status
    label: str
    headline: str
    lines: tuple[tuple[str, str], ...]


def verdict(comparison: Comparison) -> Verdict:
    """Return what a comparison says about its leader by the primary metric."""
    ranked = [row for row in comparison.models if row.rank is not None]
    metric = comparison.contest.primary
    if not ranked:
        said = f"No model has a value of {metric}"
        return Verdict("none", "Nothing to compare", said, tuple(_counts(comparison, None)))
    leader = ranked[0]
    status, label, headline = _judged(comparison, ranked)
    # Where the baseline leads, the question is how far the next model is behind.
    subject = ranked[1] if leader.is_baseline and len(ranked) > 1 else leader
    who = "" if subject is leader else f"{subject.model}, the nearest: "
    lines = [
        *((label, who + said) for label, said in _against_baseline(comparison, subject)),
        *_against_second(comparison, ranked, subject),
        *_counts(comparison, leader),
        *_detectable(subject.cells[metric].difference),
    ]
    return Verdict(status, label, headline, tuple(lines))


def _judged(comparison: Comparison, ranked: Sequence[ComparedModel]) -> tuple[Status, str, str]:
    contest = comparison.contest
    leader, metric, baseline = ranked[0], contest.primary, contest.baseline
    pair = leader.cells[metric].difference
    tied = [row.model for row in ranked if row.rank == 1]
    leads = f"{' and '.join(tied)} share the lead" if len(tied) > 1 else f"{leader.model} leads"
    if len(ranked) == 1:
        return "none", "One model", f"{leader.model} is the only model with a value of {metric}"
    if parse(metric).metric.higher_is_better is None:
        return (
            "none",
            "Neither way is better",
            f"{leader.model} has the highest {metric}, which is not better by itself",
        )
    if leader.is_baseline:
        return "worse", "Keep the baseline", f"No model is ahead of the baseline {baseline} by {metric}"
    if baseline is None:
        return "none", "No baseline", f"{leads} by {metric}"
    if pair is None:
        return (
            "none",
            "Not tested",
            f"{leads} by {metric}; nothing tests that against the baseline {baseline}",
        )
    if pair.mark == "+":
        return "better", "Better than the baseline", f"{leads} by {metric}, and beats the baseline {baseline}"
    return (
        "unclear",
        "Not shown to be better",
        f"{leads} by {metric}, but is not shown to beat the baseline {baseline}",
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


def _against_second(
    comparison: Comparison, ranked: Sequence[ComparedModel], subject: ComparedModel
) -> Iterator[tuple[str, str]]:
    leader, metric = ranked[0], comparison.contest.primary
    if len(ranked) == 1 or subject is not leader:
        return
    second, mine = ranked[1], leader.cells[metric]
    between = comparison.pair(metric, leader.model, second.model)
    if between is None:
        ahead = signed(mine.mean - second.cells[metric].mean)
        yield (
            "Against the runner-up",
            f"{second.model}: {ahead}; these two were not tested against each other",
        )
    elif between is not mine.difference:
        yield "Against the runner-up", f"{second.model}: {_difference(comparison, between)}"


def _difference(comparison: Comparison, pair: Pair) -> str:
    interval, relative = pair.paired.interval, pair.paired.relative
    percent = f" ({100 * relative:+.1f} %)".replace("-", "\N{MINUS SIGN}") if math.isfinite(relative) else ""
    said = f"{signed(interval.mean)}{percent}{_interval(comparison, interval.low, interval.high)}; "
    if math.isnan(pair.p_holm):
        return said + "too few users to test"
    real = "real" if pair.p_holm <= 1 - comparison.level else "may be chance"
    return f"{said}{real}: {p_text(pair.p_holm)} after Holm's correction"


def _interval(comparison: Comparison, low: float, high: float) -> str:
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f", {100 * comparison.level:g} % interval {shown(low)} to {shown(high)}"


def _groups(cells: Sequence[SegmentCell]) -> str:
    """Return for whom a model is worse, for whom it may be, and for whom it is ahead but may not be better."""
    behind, ahead = ([c for c in cells if (_gain(c) < 0) == is_behind] for is_behind in (True, False))
    kinds = {
        "worse, which is real": [c for c in behind if _mark(c) == "-"],
        "behind, which may be chance": [c for c in behind if _mark(c) != "-"],
        "ahead, which may be chance": [c for c in ahead if _mark(c) != "+"],
    }
    said = [f"{kind}: {_named(found)}" for kind, found in kinds.items() if found]
    if any(_mark(c) == "+" for c in ahead):
        said.append("better in all others" if said else "better in all")
    return "; ".join(said)


def _named(cells: Sequence[SegmentCell]) -> str:
    worst = sorted(cells, key=_gain)
    named = [
        f"{c.segment} {c.label} ({signed(c.difference.paired.interval.mean)})"
        for c in worst[:_MOST_NAMED]
        if c.difference is not None
    ]
    more = len(cells) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _mark(cell: SegmentCell) -> str:
    return "" if cell.difference is None else cell.difference.mark


def _gain(cell: SegmentCell) -> float:
    """Return by how much a model is better in a group; 0 where neither way is."""
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
        yield "Mean", f"{shown(cell.mean)}{_interval(comparison, cell.low, cell.high)}, {over}{undefined}"
    failed = [row.model for row in comparison.models if row.error is not None]
    if failed:
        yield "Failed", ", ".join(failed)


def _detectable(pair: Pair | None) -> Iterator[tuple[str, str]]:
    if pair is not None and math.isfinite(pair.paired.detectable):
        yield (
            "Detectable",
            f"a true difference of {shown(pair.paired.detectable)} would have been found 4 times out of 5",
        )
