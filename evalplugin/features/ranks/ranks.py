"""Models over several datasets: average ranks, Friedman's test, pairs after Holm's correction, cliques."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import stats
from evalplugin.base.seeding import generator
from evalplugin.comparison.compared import LEVEL
from evalplugin.comparison.comparison import Comparison
from evalplugin.comparison.statistics.paired import holm
from evalplugin.metrics import MetricSpec
from evalplugin.metrics.given import spec_of

_DRAWS = 20_000  # permutations of Friedman's test


@dataclass(frozen=True)
class RankedModel:
    """A model's rank on each dataset, from 1; equal values share their mean rank."""

    model: str
    mean: float
    ranks: tuple[float, ...]  # in the order of the datasets


@dataclass(frozen=True)
class Friedman:
    """Friedman's test of whether any model differs; ``p`` by permutations within the datasets."""

    statistic: float  # chi-squared, corrected for ties; 0 where all values are tied
    p: float


@dataclass(frozen=True)
class RankedPair:
    """Wilcoxon's signed-rank test of two models over the datasets, the one with the better average rank first."""

    model: str
    against: str
    p: float  # exact, two-sided
    p_holm: float  # corrected over all pairs
    differ: bool  # whether p_holm shows a difference


@dataclass(frozen=True)
class Ranks:
    """The models of one split over several datasets, the best average rank first."""

    split: str
    metric: str
    level: float
    datasets: tuple[str, ...]
    models: tuple[RankedModel, ...]
    friedman: Friedman | None  # None: fewer than three models
    pairs: tuple[RankedPair, ...]
    # The longest runs of models in which no two are shown to differ, of two models or more.
    cliques: tuple[tuple[str, ...], ...]
    left_out: Mapping[str, tuple[str, ...]]  # models without a value, with the datasets where they have none
    # Datasets that do not count, with the dataset whose test data they share.
    same_data: Mapping[str, str] = field(default_factory=dict)

    @property
    def needed(self) -> int:
        """The fewest datasets on which any two of these models could be shown to differ."""
        return math.ceil(math.log2(2 * max(len(self.pairs), 1) / (1 - self.level)))


def ranks_of(comparisons: Sequence[Comparison]) -> tuple[Ranks, ...]:
    """Return the ranks by the primary metric for each split with two datasets or more, in config order.

    Datasets with the same test data count once. Splits of one dataset share its users, so that they are never counted
    as datasets. There are none for a metric without a better direction.
    """
    by_split: dict[str, list[Comparison]] = {}
    for comparison in comparisons:
        by_split.setdefault(comparison.contest.split, []).append(comparison)
    every = (_ranks(split, some) for split, some in by_split.items())
    return tuple(ranks for ranks in every if ranks is not None)


def _ranks(split: str, comparisons: Sequence[Comparison]) -> Ranks | None:
    contest = comparisons[0].contest
    first: dict[str, Comparison] = {}
    for each in comparisons:
        first.setdefault(each.contest.digest, each)
    counted = list({each.contest.dataset: each for each in reversed(first.values())}.values())[::-1]
    primaries = {each.contest.primary for each in comparisons}
    if not contest.spec(contest.primary).direction or len(counted) < 2 or len(primaries) > 1:
        return None
    means = [{row.model: row.mean(contest.primary) for row in each.models} for each in counted]
    ranks = rank_models(
        contest.primary,
        [each.contest.dataset for each in counted],
        {model: [by_model.get(model, math.nan) for by_model in means] for model in chain(*means)},
        split=split,
        seed=contest.seed,
        given=contest.given,
    )
    shared = {each.contest.dataset: first[each.contest.digest].contest.dataset for each in comparisons}
    return replace(ranks, same_data={name: other for name, other in shared.items() if name != other})


def rank_models(
    metric: str,
    datasets: Sequence[str],
    means: Mapping[str, Sequence[float]],
    *,
    split: str = "",
    seed: int = 0,
    given: Mapping[str, MetricSpec] = {},
) -> Ranks:
    """Return the ranks of models whose means on each of the datasets are given; NaN: it has none there.

    Args:
        metric: Canonical name; it must have a better direction.
        datasets: Their names.
        means: Of each model, one a dataset.
        split: Of all datasets.
        seed: Of the permutations of Friedman's test.
        given: Metrics of a table of scores, by name.
    """
    missing = {
        model: tuple(name for name, mean in zip(datasets, values, strict=True) if not math.isfinite(mean))
        for model, values in means.items()
    }
    names = [model for model in means if not missing[model]]
    losses = np.array([means[name] for name in names], dtype=np.float64).reshape(len(names), len(datasets)).T
    losses = -spec_of(metric, given).direction * losses
    ranks = _ranked(losses)
    order = np.argsort(ranks.sum(axis=0), kind="stable").tolist()
    pairs = tuple(_pairs([names[i] for i in order], losses[:, order]))
    return Ranks(
        split=split,
        metric=metric,
        level=LEVEL,
        datasets=tuple(datasets),
        models=tuple(
            RankedModel(names[i], float(ranks[:, i].mean()), tuple(ranks[:, i].tolist())) for i in order
        ),
        friedman=_friedman(ranks, generator(seed, "ranks")) if len(names) > 2 else None,
        pairs=pairs,
        cliques=tuple(_cliques([names[i] for i in order], pairs)),
        left_out={model: where for model, where in missing.items() if where},
    )


def _ranked(losses: Floats) -> Floats:
    """Return the ranks of models (columns) on each dataset (rows), the lowest loss first; ties have their mean rank."""
    return np.asarray(stats.rankdata(losses, axis=1), dtype=np.float64) if losses.size else losses


def _friedman(ranks: Floats, rng: np.random.Generator) -> Friedman:
    """Return Friedman's test on ranks (N, M).

    With few datasets, neither the chi-squared distribution nor Iman and Davenport's F is near the distribution of the
    statistic: with two datasets that agree, F finds p = 0. Permutations hold the level for any number.
    """
    n, m = ranks.shape
    spread = ((ranks - (m + 1) / 2) ** 2).sum() / (m - 1)  # n m (m + 1) / 12 without ties
    if spread == 0:
        return Friedman(0.0, 1.0)
    deviation = (ranks.sum(axis=0) - n * (m + 1) / 2) ** 2
    observed = float(deviation.sum())
    sums = np.zeros((_DRAWS, m))
    for row in ranks:
        sums += rng.permuted(np.broadcast_to(row, (_DRAWS, m)), axis=1)
    drawn = ((sums - n * (m + 1) / 2) ** 2).sum(axis=1)
    as_high = int(np.count_nonzero(drawn >= observed * (1 - 1e-12)))
    return Friedman(observed / float(spread), (1 + as_high) / (1 + _DRAWS))


def _pairs(names: Sequence[str], losses: Floats) -> Iterator[RankedPair]:
    """Yield every two models, tested; ``losses`` (N, M) are in the order of the names."""
    tested = [
        (a, b, signed_rank_p(losses[:, i] - losses[:, j]))
        for (i, a), (j, b) in combinations(enumerate(names), 2)
    ]
    corrected = holm(np.array([p for _, _, p in tested]))
    for (a, b, p), p_holm in zip(tested, corrected.tolist(), strict=True):
        yield RankedPair(a, b, p, p_holm, p_holm <= 1 - LEVEL)


def signed_rank_p(differences: Floats) -> float:
    """Return the exact two-sided p of Wilcoxon's signed-rank test of differences (N,), ties included.

    Differences of 0 are left out; 1 where there is no other. Source: Wilcoxon 1945; over datasets, Demsar 2006.
    """
    given = differences[differences != 0]
    doubled = (2 * stats.rankdata(np.abs(given))).astype(
        np.int64
    )  # whole numbers, as ties share halves of ranks
    chance = np.ones(1)  # of each sum of the ranks with a positive sign
    for rank in doubled.tolist():
        chance = 0.5 * (np.pad(chance, (0, rank)) + np.pad(chance, (rank, 0)))
    above = int(doubled[given > 0].sum())
    return min(1.0, 2 * float(min(chance[: above + 1].sum(), chance[above:].sum())))


def _cliques(names: Sequence[str], pairs: Sequence[RankedPair]) -> Iterator[tuple[str, ...]]:
    """Yield the longest runs of two models or more, in the order of ranks, in which no two are shown to differ."""
    differ = {frozenset((pair.model, pair.against)) for pair in pairs if pair.differ}
    reached = 0
    for start in range(len(names)):
        end = start + 1
        while end < len(names) and not any({name, names[end]} in differ for name in names[start:end]):
            end += 1
        if end > max(reached, start + 1):
            yield tuple(names[start:end])
        reached = max(reached, end)
