"""Gap between groups of users and worst group: of each model, and against the baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.comparison.compared import ComparedModel, Mark, SegmentCell, shared_values
from evalplugin.comparison.contest import Contest
from evalplugin.comparison.statistics.groups import (
    LEAST_UNITS,
    MOST_GROUPS,
    Extreme,
    ExtremeDifference,
    GroupMeans,
    gap_difference,
    gap_of,
    units_of,
    worst_difference,
    worst_of,
)
from evalplugin.comparison.statistics.paired import holm
from evalplugin.comparison.statistics.seeds import SeedSpread
from evalplugin.metrics.scores import Units
from evalplugin.segments import Segmentation

Statistic = Literal["gap", "worst"]


@dataclass(frozen=True)
class GroupStatistic:
    """A statistic of one model's means over the groups of a segmentation, by one metric.

    ``gap``: the highest mean of a group less the lowest. ``worst``: the mean of the worst group; a metric without a
    better direction has none. Groups of fewer than ``LEAST_UNITS`` users are ``left_out``.
    """

    segment: str
    metric: str  # canonical name
    statistic: Statistic
    model: str
    value: float
    low: float  # NaN where the interval of a group has no bounds
    high: float
    groups: tuple[str, ...]  # of a gap those with the highest and the lowest mean; of a worst mean that group
    left_out: tuple[str, ...] = ()
    against: str | None = None  # the baseline; None: not compared
    difference: ExtremeDifference | None = None  # from the baseline's, over the users of both
    p_holm: float = math.nan  # two-sided, corrected for the models
    # + where the gap is shown to be smaller, or the worst group to be served better; - the opposite.
    mark: Mark = ""


def group_statistics(
    contest: Contest, models: Sequence[ComparedModel], segments: Sequence[SegmentCell], level: float
) -> Iterator[GroupStatistic]:
    """Yield the statistics by segmentation, metric, statistic, then in the order of the models.

    Segmentations with fewer than two groups or with more than ``MOST_GROUPS`` have none.

    Args:
        contest: The models.
        models: Those that have scores, ranked.
        segments: Their means by group.
        level: Of every interval and every mark.
    """
    cells: dict[tuple[str, str, str], list[SegmentCell]] = {}
    for cell in segments:
        cells.setdefault((cell.segment, cell.metric, cell.model), []).append(cell)
    baseline = next((row for row in models if row.is_baseline), None)
    for segmentation in contest.segments:
        for metric in contest.metrics:
            direction = contest.spec(metric).direction
            ranked = shared_values(contest.values(models, metric))
            family: dict[Statistic, list[GroupStatistic]] = {"gap": [], "worst": []}
            for row, own in zip(models, ranked.T, strict=True):
                of_model = cells.get((segmentation.name, metric, row.model), [])
                for statistic in _statistics(
                    contest, segmentation, metric, row, own, baseline, of_model, level
                ):
                    family[statistic.statistic].append(statistic)
            for statistics in family.values():
                yield from _corrected(statistics, direction, level)


def _statistics(
    contest: Contest,
    segmentation: Segmentation,
    metric: str,
    row: ComparedModel,
    ranked: Floats,
    baseline: ComparedModel | None,
    cells: Sequence[SegmentCell],
    level: float,
) -> Iterator[GroupStatistic]:
    """Yield gap and worst group of one model, with uncorrected differences; ``ranked``: its values (U,) for means."""
    kept = [cell for cell in cells if _units(cell) >= LEAST_UNITS]
    if not 2 <= len(kept) <= MOST_GROUPS or not all(math.isfinite(cell.interval.mean) for cell in kept):
        return
    spread, direction = row.spread_of_seeds(metric), contest.spec(metric).direction
    fits = math.inf if spread is None else spread.seeds
    degrees = np.array([min(_units(cell), fits) - 1 for cell in kept])
    intervals = [cell.interval for cell in kept]
    values = np.stack([ranked, ranked], axis=1)
    own = common_means(contest.units, values, (spread, spread), segmentation, LEAST_UNITS).means
    extremes: dict[Statistic, Extreme] = {"gap": gap_of(intervals, degrees, own)}
    if direction:
        extremes["worst"] = worst_of(intervals, degrees, direction, own)
    differences: dict[Statistic, ExtremeDifference] = {}
    if baseline is not None and row is not baseline and baseline.has_values(metric):
        seeds = (spread, baseline.spread_of_seeds(metric))
        values = contest.values([row, baseline], metric)
        means = common_means(contest.units, values, seeds, segmentation, LEAST_UNITS).means
        if means is not None:
            differences["gap"] = gap_difference(means, level=level)
            differences["worst"] = worst_difference(means, direction, level=level)
    for statistic, extreme in extremes.items():
        difference = differences.get(statistic)
        yield GroupStatistic(
            segmentation.name, metric, statistic, row.model, extreme.value, extreme.low, extreme.high,
            groups=tuple(kept[group].label for group in extreme.groups),
            left_out=tuple(cell.label for cell in cells if cell not in kept),
            against=None if difference is None or baseline is None else baseline.model,
            difference=difference,
        )  # fmt: skip


class CommonMeans(NamedTuple):
    """Means of groups by two models, over the users for whom both are defined."""

    # None: of fewer than two groups that are large enough, of more than ``MOST_GROUPS``, or of infinite values.
    means: GroupMeans | None
    users: int  # in the groups that are large enough
    left_out: tuple[str, ...]  # smaller groups, each with its number of units


def common_means(
    units: Units,
    values: Floats,
    seeds: tuple[SeedSpread | None, SeedSpread | None],
    segmentation: Segmentation,
    least: int,
) -> CommonMeans:
    """Return the means of the groups with at least so many independent units, users or their clusters.

    Args:
        units: What has values.
        values: Of both models (U, 2), NaN for a unit without one.
        seeds: Spread of each model's mean.
        segmentation: The groups.
        least: At least two.
    """
    labels, group, clusters = segmentation.labels, segmentation.of(units.ids), units.codes
    defined = (group >= 0) & ~np.isnan(values).any(axis=1)
    values, group = values[defined], group[defined]
    clusters = None if clusters is None else clusters[defined]
    sizes = units_of(group, len(labels), clusters)
    kept = sizes >= least
    small = tuple(f"{label} ({n:,})" for label, n in zip(labels, sizes.tolist(), strict=True) if n < least)
    rows = kept[group]
    if not 2 <= np.count_nonzero(kept) <= MOST_GROUPS or not np.isfinite(values[rows]).all():
        return CommonMeans(None, 0, small)
    means = GroupMeans.of(
        values[rows, 0],
        values[rows, 1],
        (np.cumsum(kept) - 1)[group[rows]],
        int(np.count_nonzero(kept)),
        None if clusters is None else clusters[rows],
    )
    return CommonMeans(replace(means, seeds=seeds), int(np.count_nonzero(rows)), small)


def _units(cell: SegmentCell) -> int:
    interval = cell.interval
    return interval.n if interval.clusters is None else interval.clusters


def _corrected(
    statistics: Sequence[GroupStatistic], direction: int, level: float
) -> Iterator[GroupStatistic]:
    """Yield statistics with Holm's correction over all models, and marks."""
    p = np.array([math.nan if s.difference is None else s.difference.p for s in statistics])
    for statistic, p_holm in zip(statistics, holm(p).tolist(), strict=True):
        mark: Mark = ""
        if statistic.difference is not None and direction and p_holm <= 1 - level:
            # A smaller gap is better by any metric.
            better = -1 if statistic.statistic == "gap" else direction
            mark = "+" if (statistic.difference.value > 0) == (better > 0) else "-"
        yield replace(statistic, p_holm=p_holm, mark=mark)
