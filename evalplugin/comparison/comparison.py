"""Comparison of models: means with intervals, paired differences, tests, groups of users."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes
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
    aligned,
    aligned_units,
    metric_cells,
    shared_scores,
)
from evalplugin.comparison.contest import Contest, Pairing
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
        by_metric = (self._best_among(self._shared, metric) for metric in self.contest.metrics)
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
        best, among = self.best.get(metric), self._among_known(metric)
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
        known = {model: s.only(self._by_history.of(s.users) != cold) for model, s in self._shared.items()}
        among = self._best_among(known, metric, "with history")
        return among if among is not None and among.users else None

    def _best_among(
        self, scores: Mapping[str, PerUserScores], metric: str, *stream: str, groups: int = 1
    ) -> BestModels | None:
        """Return the models that may be the best among the users of ``scores``, who are one of ``groups``.

        ``stream`` names the random numbers.
        """
        level = 1 - (1 - max(self.level, 0.5)) / groups
        rng = generator(self.contest.seed, "best", *stream)
        return best_models(scores, self.contest.spec(metric), level=level, rng=rng, seeds=self._seeds(metric))

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
        n_users = max((len(s.users) for s in self._scores.values()), default=0)
        is_little = n_users * len(self._scores) ** 2 <= _VALUES_OF_EVERY_PAIR
        every = _pairs(self, "all", contest.metrics if is_little else (contest.primary,))
        own = {(pair.metric, pair.model, pair.against) for pair in self.pairs}
        return (*self.pairs, *(p for p in every if (p.metric, p.model, p.against) not in own))

    def _seeds(self, metric: str) -> dict[str, SeedSpread | None]:
        return {row.model: row.spread_of_seeds(metric) for row in self.models}

    @cached_property
    def _scores(self) -> Mapping[str, PerUserScores]:
        return {row.model: row.scores for row in self.models if row.scores is not None}

    @cached_property
    def _shared(self) -> Mapping[str, PerUserScores]:
        """The scores of the users by whom models are ranked; ``_scores`` itself where these are all users."""
        if all(row.shared is row.scores for row in self.models):
            return self._scores
        return {row.model: row.shared for row in self.models if row.shared is not None}

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
    scores = {model.model: model.scores for model in contest.models if model.scores is not None}
    shared, users_of = shared_scores(scores, contest.metrics)
    rows = []
    for model in contest.models:
        own = shared.get(model.model)
        cells = metric_cells(own, specs, contest.seed, seed_means=model.seed_means, level=level)
        cells = {metric: _counted(cell, model.scores, users_of) for metric, cell in cells.items()}
        rows.append(replace(model, is_baseline=model.model == contest.baseline, shared=own, cells=cells))
    scored = Comparison(contest, level, intervals, pairs, tuple(_ranked(specs, rows)), ())
    compared = tuple(_pairs(scored, pairs, contest.metrics, tests))
    to_baseline = {(p.model, p.metric): p for p in compared if p.against == contest.baseline}
    models = []
    for row in scored.models:
        cells = {m: replace(c, difference=to_baseline.get((row.model, m))) for m, c in row.cells.items()}
        models.append(replace(row, cells=cells))
    return replace(scored, models=tuple(models), pairs=compared)


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
    scores, names = comparison._scores, _pairing(comparison.models, pairing)
    clusters = _clusters(scores)
    for columns in _batches(metrics, scores, len(names)):
        rng = generator(comparison.contest.seed, "difference")
        uncorrected = _uncorrected(comparison, names, columns, tests, clusters, rng)
        for _, family in groupby(uncorrected, key=lambda pair: pair.metric):
            yield from _corrected(list(family), comparison.level)


def _batches(
    metrics: Sequence[str], scores: Mapping[str, PerUserScores], n_pairs: int
) -> Iterator[dict[str, dict[str, npt.NDArray[np.float64]]]]:
    """Yield the values by metric and model, in batches of metrics.

    A batch shares random draws, which take longest, but memory is limited.
    """
    users = max((len(s.users) for s in scores.values()), default=0)
    size = max(1, _VALUES_AT_ONCE // max(1, users * max(len(scores), n_pairs)))
    for start in range(0, len(metrics), size):
        yield {metric: _columns(metric, scores) for metric in metrics[start : start + size]}


def _pairing(models: Sequence[ComparedModel], pairing: Pairing) -> list[tuple[str, str]]:
    """Return the pairs to compare: every model with the baseline, or every two, the better model first."""
    done = [row for row in models if row.scores is not None]
    if pairing == "all":
        # The baseline is always the second of a pair, even where it is the better one.
        done.sort(key=lambda row: row.is_baseline)
        return [(a.model, b.model) for i, a in enumerate(done) for b in done[i + 1 :]]
    baseline = [row.model for row in done if row.is_baseline]
    return [(row.model, b) for b in baseline for row in done if row.model != b]


def _columns(metric: str, scores: Mapping[str, PerUserScores]) -> dict[str, npt.NDArray[np.float64]]:
    """Return a metric's values by model, users in the same order; NaN for a user without a value."""
    if not any(metric in s.metrics for s in scores.values()):
        return {}
    values = aligned(list(scores.values()), metric).values
    return {m: column for (m, s), column in zip(scores.items(), values.T, strict=True) if metric in s.metrics}


def _clusters(scores: Mapping[str, PerUserScores]) -> Codes | None:
    """Return the clusters of the users whose values ``_columns`` returns, in the same order."""
    return aligned_units(list(scores.values())).codes if scores else None


def _uncorrected(
    comparison: Comparison,
    names: Sequence[tuple[str, str]],
    columns: Mapping[str, Mapping[str, npt.NDArray[np.float64]]],
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
            direction = comparison.contest.spec(metric).direction
            p = paired.p["permutation"]
            yield Pair(metric, model, other, direction, paired, p, 1.0, 1.0, "", seed_range)


def _corrected(pairs: Sequence[Pair], level: float) -> list[Pair]:
    """Return the pairs with adjusted p-values and marks, as one family of comparisons."""
    p = np.array([pair.p for pair in pairs])
    corrected = []
    for pair, p_holm, p_bh in zip(pairs, holm(p).tolist(), benjamini_hochberg(p).tolist(), strict=True):
        mark: Mark = ""
        if pair.direction and p_holm <= 1 - level:
            mark = "+" if (pair.paired.interval.mean > 0) == (pair.direction > 0) else "-"
        corrected.append(replace(pair, p_holm=p_holm, p_bh=p_bh, mark=mark))
    return corrected


def _segment_cells(comparison: Comparison) -> Iterator[SegmentCell]:
    for segmentation in comparison.contest.segments:
        cells: dict[str, list[SegmentCell]] = {metric: [] for metric in comparison.contest.metrics}
        for label, inside, shared in _groups(comparison, segmentation):
            for cell in _group_cells(comparison, segmentation.name, label, inside, shared):
                cells[cell.metric].append(cell)
        for family in cells.values():
            differences = [c.difference for c in family if c.difference is not None]
            corrected = iter(_corrected(differences, comparison.level))
            yield from (c if c.difference is None else replace(c, difference=next(corrected)) for c in family)


def _group_cells(
    comparison: Comparison,
    segment: str,
    label: str,
    scores: Mapping[str, PerUserScores],
    shared: Mapping[str, PerUserScores],
) -> Iterator[SegmentCell]:
    """Yield the cells of one group of users by metric, with uncorrected differences.

    ``scores`` are theirs, by model; ``shared`` those that means are over.
    """
    contest, names = comparison.contest, _pairing(comparison.models, "baseline")
    clusters = _clusters(scores)
    for columns in _batches(contest.metrics, scores, len(names)):
        rng = generator(contest.seed, "segment", segment, label)
        keys = [(metric, model) for metric, having in columns.items() for model in having]
        if not keys:
            continue
        of_means = columns if shared is scores else {metric: _columns(metric, shared) for metric in columns}
        values = np.stack([of_means[metric][model] for metric, model in keys], axis=1)
        bounds = [contest.spec(metric).metric.bounds for metric, _ in keys]
        intervals = mean_intervals(values, level=comparison.level, bounds=bounds, clusters=clusters, rng=rng)
        # The seeds' spread of a group's mean is taken to be the same as over all users.
        seeds = {metric: comparison._seeds(metric) for metric in columns}
        uncorrected = _uncorrected(comparison, names, columns, (), clusters, rng)
        pairs = {(pair.metric, pair.model): pair for pair in uncorrected}
        for (metric, model), interval in zip(keys, intervals, strict=True):
            if (spread := seeds[metric][model]) is not None:
                interval = interval_with_seeds(interval, [spread])
            yield SegmentCell(segment, label, model, metric, interval, pairs.get((metric, model)))


def _best_in_groups(comparison: Comparison, segment: str, metric: str) -> Iterator[BestModels]:
    for segmentation in comparison.contest.segments:
        if segmentation.name == segment and not segmentation.from_truth:
            groups = len(segmentation.labels)
            for label, _, shared in _groups(comparison, segmentation):
                best = comparison._best_among(shared, metric, segment, label, groups=groups)
                if best is not None:
                    yield replace(best, segment=segment, label=label)


def _groups(
    comparison: Comparison, parts: Segmentation
) -> Iterator[tuple[str, dict[str, PerUserScores], dict[str, PerUserScores]]]:
    """Yield each group of users, with their scores by model, and those of the users by whom models are ranked."""
    scores, shared = comparison._scores, comparison._shared
    group = {model: parts.of(s.users) for model, s in scores.items()}
    for number, label in enumerate(parts.labels):
        inside = {model: s.only(group[model] == number) for model, s in scores.items()}
        is_same = shared is scores
        yield label, inside, inside if is_same else {m: s.only(group[m] == number) for m, s in shared.items()}


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
