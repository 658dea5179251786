"""Comparison of models: means with intervals, paired differences, tests, groups of users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import TypeAlias

import numpy as np

from evalplugin.base.arrays import Codes, Flags, Floats
from evalplugin.base.remembering import remembered
from evalplugin.base.seeding import generator
from evalplugin.comparison.best import BestModels, best_models
from evalplugin.comparison.compared import (
    LEVEL,
    Cell,
    ComparedModel,
    Mark,
    Pair,
    SegmentCell,
    metric_cells,
    shared_values,
)
from evalplugin.comparison.contest import Contest, Pairing
from evalplugin.comparison.doubt import doubts_of
from evalplugin.comparison.groups import GroupStatistic, group_statistics
from evalplugin.comparison.statistics.intervals import Method, mean_intervals
from evalplugin.comparison.statistics.paired import Test, benjamini_hochberg, compare_pairs, holm
from evalplugin.comparison.statistics.seeds import (
    SeedSpread,
    interval_with_seeds,
    paired_with_seeds,
    range_of_seeds,
)
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.scores import PerUserScores
from evalplugin.segments import NO_HISTORY, Segmentation

_VALUES_AT_ONCE = 2**22  # of all users and pairs of models that are compared together
_ALL = slice(None)  # units
_Columns: TypeAlias = Mapping[str, Mapping[str, Floats]]  # values (U,) by metric and model
# Users times models squared, up to which all metrics are compared for every pair.
_VALUES_OF_EVERY_PAIR = 2**19


@dataclass(frozen=True, eq=False)
class Comparison:
    """The result of ``compare``."""

    contest: Contest
    level: float
    intervals: Method  # of differences
    pairing: Pairing
    models: tuple[ComparedModel, ...]  # best first, failed last
    pairs: tuple[Pair, ...]  # by metric, then in the order of the models

    def __repr__(self) -> str:
        return f"Comparison({self.contest.place}: {', '.join(row.model for row in self.models)})"

    @cached_property
    def segments(self) -> tuple[SegmentCell, ...]:
        """Every model's means by group of users: by segmentation, metric, group, then in the order of the models."""
        return tuple(_segment_cells(self))

    @cached_property
    def group_statistics(self) -> tuple[GroupStatistic, ...]:
        """Every model's gap between groups of users and its worst group, by segmentation, metric and statistic."""
        return tuple(group_statistics(self.contest, self.scored, self.segments, self.level))

    @cached_property
    def best(self) -> Mapping[str, BestModels]:
        """The models that may be the best, by metric; metrics without a better direction are left out."""
        by_metric = (self._best_among(_ALL, metric) for metric in self.contest.metrics)
        return {best.metric: best for best in by_metric if best is not None}

    @property
    def may_be_best(self) -> tuple[str, ...]:
        """The models that may be the best by the primary metric, the leader first; empty where none can be."""
        best = self.best.get(self.contest.primary)
        return () if best is None else best.models

    @remembered
    def best_in_groups(self, segment: str, metric: str) -> tuple[BestModels, ...]:
        """Return the models that may be the best in each group of users of a segmentation.

        Empty for groups that are made from held-out items: they are unknown before, so that no model is chosen by them.

        The level is corrected over the groups (Bonferroni): it holds for all of them together.
        """
        return tuple(_best_in_groups(self, segment, metric))

    def best_with_history(self, metric: str) -> BestModels | None:
        """Return the models that may be the best among users with train data, where another one leads there.

        None where the leader is the same, where no segmentation tells who has train data, and where no user has any.
        """
        best = self.best.get(metric)
        among = self._among_known(metric) if metric in _by_unit(self.contest) else None
        return among if best is not None and among is not None and among.leader != best.leader else None

    def is_of_newcomers(self, metric: str) -> bool:
        """Return whether a segmentation shows that no compared user has train data."""
        best = self.best.get(metric)
        if best is None or not best.users or self._by_history is None:
            return False
        return self._among_known(metric) is None

    def _among_known(self, metric: str) -> BestModels | None:
        """Return the models that may be the best among users with train data; None without such users."""
        if self._by_history is None:
            return None
        cold = self._by_history.labels.index(NO_HISTORY)
        known = self._by_history.of(self.contest.units.ids) != cold
        among = self._best_among(known, metric, "with history")
        return among if among is not None and among.users else None

    def _best_among(
        self, rows: Flags | slice, metric: str, *stream: str, groups: int = 1
    ) -> BestModels | None:
        """Return the models that may be the best among some units, who are one of ``groups``.

        ``stream`` names the random numbers.
        """
        contest, codes = self.contest, self.contest.units.codes
        best = best_models(
            {model: column[rows] for model, column in self._columns(metric, shared=True).items()},
            contest.spec(metric),
            clusters=None if codes is None else codes[rows],
            level=1 - (1 - max(self.level, 0.5)) / groups,
            rng=generator(contest.seed, "best", *stream),
            seeds=self._seeds(metric),
        )
        return None if best is None else best.with_doubts(doubts_of(contest, metric))

    def _columns(self, metric: str, *, shared: bool = False) -> dict[str, Floats]:
        """Return a metric's values by model (U,), NaN for a unit without one; ``shared``: as of ``shared_values``."""
        having = [row for row in self.scored if row.scores is not None and metric in row.scores.metrics]
        values = self.contest.values(having, metric)
        values = shared_values(values) if shared else values
        return {row.model: column for row, column in zip(having, values.T, strict=True)}

    @property
    def _by_history(self) -> Segmentation | None:
        return next((s for s in self.contest.segments if NO_HISTORY in s.labels), None)

    @cached_property
    def every_pair(self) -> tuple[Pair, ...]:
        """Every two models by the primary metric, and by the others where that takes little.

        Pairs with the baseline are the same as in ``pairs``; the others are a family of comparisons of their own.
        """
        contest = self.contest
        if self.pairing == "all":
            return self.pairs
        is_little = len(contest.units) * len(self.scored) ** 2 <= _VALUES_OF_EVERY_PAIR
        every = _pairs(self, "all", contest.metrics if is_little else (contest.primary,))
        own = {(pair.metric, pair.model, pair.against) for pair in self.pairs}
        return (*self.pairs, *(p for p in every if (p.metric, p.model, p.against) not in own))

    def _seeds(self, metric: str) -> dict[str, SeedSpread | None]:
        return {row.model: row.spread_of_seeds(metric) for row in self.models}

    @property
    def scored(self) -> list[ComparedModel]:
        """The models that have scores, best first."""
        return [row for row in self.models if row.scores is not None]

    @property
    def failed(self) -> list[ComparedModel]:
        """The models that failed."""
        return [row for row in self.models if row.error is not None]

    @property
    def n_folds(self) -> int:
        """The number of folds over which users' scores were averaged; 0 if all models failed."""
        return max((len(row.fold_means) for row in self.models), default=0)

    @property
    def n_seeds(self) -> int:
        """The number of seeds with which stochastic models were fitted; 1 if all models were fitted once."""
        return max((len(row.seed_means) for row in self.models), default=0) or 1

    def pair(self, metric: str, model: str, against: str) -> Pair | None:
        """Return one pair, or None where these two were not compared."""
        names = (metric, model, against)
        return next((p for p in self.pairs if (p.metric, p.model, p.against) == names), None)


def compare(
    contest: Contest,
    *,
    pairs: Pairing = "baseline",
    level: float = LEVEL,
    intervals: Method = "auto",
    tests: Sequence[Test] = (),
) -> Comparison:
    """Return the comparison of a contest's models.

    Args:
        contest: The models.
        pairs: ``baseline``: every model against the baseline, none without one; ``all``: every two models.
        level: Of every interval and every mark.
        intervals: Method for the intervals of differences; see ``compare_pairs``.
        tests: Tests in addition to the permutation test.
    """
    specs = [contest.spec(metric) for metric in contest.metrics]
    shared, users_of = _shared_scores(contest)
    rows = []
    for model in contest.models:
        own = shared.get(model.model)
        cells = metric_cells(own, specs, contest.seed, seed_means=model.seed_means, level=level)
        cells = {metric: _counted(cell, model.scores, users_of) for metric, cell in cells.items()}
        rows.append(replace(model, is_baseline=model.model == contest.baseline, cells=cells))
    scored = Comparison(contest, level, intervals, pairs, tuple(_ranked(specs, rows)), ())
    compared = tuple(_pairs(scored, pairs, contest.metrics, tests))
    to_baseline = {(p.model, p.metric): p for p in compared if p.against == contest.baseline}
    models = []
    for row in scored.models:
        cells = {m: replace(c, difference=to_baseline.get((row.model, m))) for m, c in row.cells.items()}
        models.append(replace(row, cells=cells))
    return replace(scored, models=tuple(models), pairs=compared)


def _shared_scores(contest: Contest) -> tuple[dict[str, PerUserScores], dict[str, int]]:
    """Return the scores that models are ranked by, and by metric how many units have a value of any model."""
    scores = {row.model: row.scores for row in contest.models if row.scores is not None}
    values: dict[str, Floats] = {}  # of the models that have further ones
    users_of = {}
    for metric in contest.metrics:
        having = [row for row in contest.models if row.scores is not None and metric in row.scores.metrics]
        columns = contest.values(having, metric)
        users_of[metric] = int(np.count_nonzero(~np.isnan(columns).all(axis=1)))
        shared = shared_values(columns)
        if np.array_equal(shared, columns, equal_nan=True):
            continue
        for row, column in zip(having, shared.T, strict=True):
            own = scores[row.model]
            changed = values.setdefault(row.model, own.values.copy())
            changed[:, own.metrics.index(metric)] = column[contest.rows[row.model]]
    return {
        model: replace(own, values=values.get(model, own.values)) for model, own in scores.items()
    }, users_of


def _counted(cell: Cell, scores: PerUserScores | None, users_of: Mapping[str, int]) -> Cell:
    """Return a cell with the users that the model has and lacks; ``users_of``: with a value of any model, by metric."""
    metric = cell.metric
    if scores is None or metric not in scores.metrics:  # one number over all users
        return replace(cell, has=cell.users, own_mean=cell.mean)
    has, undefined = scores.counts[metric]
    lacks = users_of[metric] - has
    return replace(cell, has=has, undefined=undefined, lacks=lacks, own_mean=scores.means[metric])


def _pairs(
    comparison: Comparison, pairing: Pairing, metrics: Sequence[str], tests: Sequence[Test] = ()
) -> Iterator[Pair]:
    names, clusters = _pairing(comparison.models, pairing), comparison.contest.units.codes
    for batch in _batches(comparison, metrics, len(names)):
        rng = generator(comparison.contest.seed, "difference")
        columns = {metric: comparison._columns(metric) for metric in batch}
        uncorrected = _uncorrected(comparison, names, columns, tests, clusters, rng)
        for _, family in groupby(uncorrected, key=lambda pair: pair.metric):
            yield from _corrected(list(family), comparison)


def _batches(comparison: Comparison, metrics: Sequence[str], n_pairs: int) -> Iterator[Sequence[str]]:
    """Yield some metrics at a time: they share random draws, which take longest, but memory is limited."""
    width = max(len(comparison.scored), n_pairs)
    size = max(1, _VALUES_AT_ONCE // max(1, len(comparison.contest.units) * width))
    for start in range(0, len(metrics), size):
        yield metrics[start : start + size]


def _pairing(models: Sequence[ComparedModel], pairing: Pairing) -> list[tuple[str, str]]:
    """Return the pairs to compare: every model with the baseline, or every two, the better model first."""
    done = [row for row in models if row.scores is not None]
    if pairing == "all":
        # The baseline is always the second of a pair, even where it is the better one.
        done.sort(key=lambda row: row.is_baseline)
        return [(a.model, b.model) for i, a in enumerate(done) for b in done[i + 1 :]]
    baseline = [row.model for row in done if row.is_baseline]
    return [(row.model, b) for b in baseline for row in done if row.model != b]


def _uncorrected(
    comparison: Comparison,
    names: Sequence[tuple[str, str]],
    columns: _Columns,
    tests: Sequence[Test],
    clusters: Codes | None,
    rng: np.random.Generator,
) -> Iterator[Pair]:
    """Yield the pairs by metric, not corrected for their number; pairs without a common user are left out.

    ``names`` are the models of each pair, which are compared by a metric if both have it in ``columns``, the values by
    metric and model, ``clusters`` those of their users. All metrics share the random signs.
    """
    level = comparison.level
    seeds = {metric: comparison._seeds(metric) for metric in columns}
    keys = [(metric, a, b) for metric, having in columns.items() for a, b in names if {a, b} <= having.keys()]
    if not keys:
        return
    a = np.stack([columns[metric][model] for metric, model, _ in keys], axis=1)
    b = np.stack([columns[metric][other] for metric, _, other in keys], axis=1)
    compared = compare_pairs(
        a, b, level=level, method=comparison.intervals, tests=tests, clusters=clusters, rng=rng
    )
    for (metric, model, other), paired in zip(keys, compared, strict=True):
        if paired.users:
            of_model, of_other = seeds[metric][model], seeds[metric][other]
            paired = paired_with_seeds(paired, of_model, of_other)
            seed_range = range_of_seeds(of_model, of_other, level)
            spec, p = comparison.contest.spec(metric), paired.p["permutation"]
            if (
                not spec.is_by_unit
            ):  # its values are those of all users together: there are no shares of users
                nan, differing = math.nan, paired.differing
                paired = replace(
                    paired, effect=nan, above=nan, equal=nan, below=nan, differing_clusters=differing
                )
            yield Pair(metric, model, other, spec.direction, paired, p, 1.0, 1.0, "", seed_range)


def _corrected(pairs: Sequence[Pair], comparison: Comparison) -> list[Pair]:
    """Return the pairs with adjusted p-values and marks, as one family of comparisons by one metric."""
    p = np.array([pair.p for pair in pairs])
    corrected = []
    doubts = set(doubts_of(comparison.contest, pairs[0].metric) if pairs else ())
    for pair, p_holm, p_bh in zip(pairs, holm(p).tolist(), benjamini_hochberg(p).tolist(), strict=True):
        mark: Mark = ""
        if (
            pair.direction
            and p_holm <= 1 - comparison.level
            and doubts.isdisjoint((pair.model, pair.against))
        ):
            mark = "+" if (pair.paired.interval.mean > 0) == (pair.direction > 0) else "-"
        corrected.append(replace(pair, p_holm=p_holm, p_bh=p_bh, mark=mark))
    return corrected


def _segment_cells(comparison: Comparison) -> Iterator[SegmentCell]:
    contest = comparison.contest
    groups = {parts.name: parts.of(contest.units.ids) for parts in contest.segments}
    cells: dict[tuple[str, str], list[SegmentCell]] = {(s, m): [] for s in groups for m in contest.metrics}
    n_pairs = len(_pairing(comparison.models, "baseline"))
    for batch in _batches(comparison, _by_unit(contest), n_pairs):
        columns = {metric: comparison._columns(metric) for metric in batch}
        shared = {metric: comparison._columns(metric, shared=True) for metric in batch}
        for parts in contest.segments:
            for number, label in enumerate(parts.labels):
                inside = groups[parts.name] == number
                for cell in _group_cells(comparison, parts.name, label, inside, columns, shared):
                    cells[parts.name, cell.metric].append(cell)
    for family in cells.values():
        differences = [c.difference for c in family if c.difference is not None]
        corrected = iter(_corrected(differences, comparison))
        yield from (c if c.difference is None else replace(c, difference=next(corrected)) for c in family)


def _group_cells(
    comparison: Comparison, segment: str, label: str, inside: Flags, columns: _Columns, shared: _Columns
) -> Iterator[SegmentCell]:
    """Yield the cells of one group of users (U,) by metric, with uncorrected differences.

    Means are over the values of ``shared``, differences over those of ``columns``.
    """
    contest, names = comparison.contest, _pairing(comparison.models, "baseline")
    clusters = None if contest.units.codes is None else contest.units.codes[inside]
    rng = generator(contest.seed, "segment", segment, label)
    keys = [(metric, model) for metric, having in columns.items() for model in having]
    if not keys:
        return
    values = np.stack([shared[metric][model][inside] for metric, model in keys], axis=1)
    bounds = [contest.spec(metric).metric.bounds for metric, _ in keys]
    intervals = mean_intervals(values, level=comparison.level, bounds=bounds, clusters=clusters, rng=rng)
    own = {metric: {model: column[inside] for model, column in of.items()} for metric, of in columns.items()}
    pairs = {(p.metric, p.model): p for p in _uncorrected(comparison, names, own, (), clusters, rng)}
    # The seeds' spread of a group's mean is taken to be the same as over all users.
    seeds = {metric: comparison._seeds(metric) for metric in columns}
    for (metric, model), interval in zip(keys, intervals, strict=True):
        if (spread := seeds[metric][model]) is not None:
            interval = interval_with_seeds(interval, [spread])
        yield SegmentCell(segment, label, model, metric, interval, pairs.get((metric, model)))


def _by_unit(contest: Contest) -> list[str]:
    """Return the metrics that have a mean of each group of users."""
    return [metric for metric in contest.metrics if contest.spec(metric).is_by_unit]


def _best_in_groups(comparison: Comparison, segment: str, metric: str) -> Iterator[BestModels]:
    for segmentation in comparison.contest.segments if metric in _by_unit(comparison.contest) else ():
        if segmentation.name == segment and not segmentation.from_truth:
            group, groups = segmentation.of(comparison.contest.units.ids), len(segmentation.labels)
            for number, label in enumerate(segmentation.labels):
                best = comparison._best_among(group == number, metric, segment, label, groups=groups)
                if best is not None:
                    yield replace(best, segment=segment, label=label)


def _ranked(specs: Sequence[MetricSpec], rows: Sequence[ComparedModel]) -> list[ComparedModel]:
    """Return the rows with their ranks, best first by the first metric, then those without a value, then the failed."""
    # A metric without a better direction ranks only where it was chosen to.
    ranks = {spec.name: _ranks(spec, rows) if spec.direction or spec is specs[0] else {} for spec in specs}
    ranked = []
    for row in rows:
        cells = {m: replace(cell, rank=ranks[m].get(row.model)) for m, cell in row.cells.items()}
        ranked.append(replace(row, rank=ranks[specs[0].name].get(row.model), cells=cells))
    # Sorting is stable, so that equal models remain in config order.
    return sorted(ranked, key=lambda row: (row.rank or len(rows) + 1, row.error is not None))


def _ranks(spec: MetricSpec, rows: Iterable[ComparedModel]) -> dict[str, int]:
    """Return the ranks of the models with a value, by model; equal means share a rank."""
    direction = spec.direction or 1
    losses = {row.model: -direction * mean for row in rows if math.isfinite(mean := row.mean(spec.name))}
    return {model: 1 + sum(other < loss for other in losses.values()) for model, loss in losses.items()}
