"""Groups of users: corrections within groups, and what the gap between groups and the worst group mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from evalplugin.base.numbers import number, signed
from evalplugin.base.units import count_text
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.groups import GroupStatistic
from evalplugin.comparison.statistics.groups import LEAST_UNITS

_GAINS_LEAST = "{leader} gains least on {baseline} for {label} ({gain})"
_LOWEST = "{leader} is weakest for {label} ({mean})"
_CORRECTED = (
    "Within each group, over its {units.nouns} alone; Holm's correction over the {comparisons} of all models and "
    "groups of {segment}."
)
_STATISTICS = (
    "gap: the highest mean of a group less the lowest one; worst: the mean of the worst group. The intervals hold "
    "although these groups are picked by their means, and are wider for it."
)
_DIFFERENCES = (
    "▲ a smaller gap than the baseline's, or a worst group that is served better, over the same {units.nouns}, with "
    "Holm's correction over the models."
)
_LEFT_OUT = f"Groups of fewer than {LEAST_UNITS} {{units.independents}} are left out: {{groups}}."


def groups_line(comparison: Comparison) -> str:
    """Return for whom the leader gains least on the baseline, or has its lowest mean; nothing without groups."""
    metric, direction = (
        comparison.contest.primary,
        comparison.contest.spec(comparison.contest.primary).direction,
    )
    best, baseline = comparison.best.get(metric), comparison.contest.baseline
    truth = {segment.name for segment in comparison.contest.segments if segment.from_truth}
    if best is None:
        return ""
    of_leader = [
        cell
        for cell in comparison.segments
        if (cell.metric, cell.model) == (metric, best.leader)
        and cell.segment not in truth
        and math.isfinite(cell.interval.mean)
    ]
    gains = [
        (cell.difference.paired.interval.mean, cell) for cell in of_leader if cell.difference is not None
    ]
    if gains:
        gain, cell = min(gains, key=lambda each: direction * each[0])
        return _GAINS_LEAST.format(leader=best.leader, label=cell.label, gain=signed(gain), baseline=baseline)
    if not of_leader:
        return ""
    cell = min(of_leader, key=lambda cell: direction * cell.interval.mean)
    return _LOWEST.format(leader=best.leader, label=cell.label, mean=number(cell.interval.mean))


def corrected_line(comparison: Comparison, segment: str, n_pairs: int) -> str:
    """Return a line on the correction of the differences within groups."""
    comparisons = count_text(n_pairs, "comparison")
    return _CORRECTED.format(units=comparison.contest.units, comparisons=comparisons, segment=segment)


def group_statistics_lines(comparison: Comparison, statistics: Sequence[GroupStatistic]) -> Iterator[str]:
    """Yield lines that say what the statistics of groups mean, and which groups are left out; none without any."""
    if not statistics:
        return
    yield _STATISTICS
    if any(s.difference is not None for s in statistics):
        yield _DIFFERENCES.format(units=comparison.contest.units)
    if small := ", ".join(dict.fromkeys(label for s in statistics for label in s.left_out)):
        yield _LEFT_OUT.format(units=comparison.contest.units, groups=small)
