"""The models that may be the best: all that no other is shown to beat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Floats, Ints
from evalplugin.base.errors import DataError
from evalplugin.base.libraries import special
from evalplugin.comparison.statistics.clusters import Clustered, check_clusters, clusters_in_order
from evalplugin.comparison.statistics.intervals import Column
from evalplugin.comparison.statistics.one_sided import weakest
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.seeds import SeedSpread
from evalplugin.metrics.moments import ROUNDING, mean_of_defined

_DRAWS = 10_000
_VALUES_AT_ONCE = 2**20
# Below this share of their variance, the variance of a difference is taken from the differences themselves: by the
# covariance it would be mostly rounding.
_ALIKE = 1e-6


def may_be_best(
    scores: Floats,
    *,
    level: float = 0.95,
    seeds: Sequence[SeedSpread | None] = (),
    clusters: npt.NDArray[np.integer] | None = None,
    rng: np.random.Generator,
) -> npt.NDArray[np.bool_]:
    """Return which models may have the highest true mean: bool (M,), higher scores being better.

    A model is left out if another one beats it: by a one-sided test of its paired differences from all others
    together, at 1 - ``level``. The statistic is the largest of their t statistics, corrected for skewness as in
    ``lower_bound``; its critical value is a quantile of the largest of as many t statistics with the covariance of the
    users' scores, from random draws. So the true best is among the models returned in ``level`` of all bake-offs,
    however many models there are: only the test of the best itself can lose it.

    Where models were fitted with several ``seeds``, these are a further source of chance, which is independent between
    models: variances are added, with the fewest of Welch's degrees of freedom of any pair.

    Where users are in ``clusters``, such as the queries of sessions, linearized values of the clusters are the scores,
    with the fewest degrees of freedom of the differences from the leader.

    Models with equal scores stay or are left out together. With a single user all stay, as nothing is known of the
    spread; so does a single model. A difference that is the same for every user needs no test.

    Sources: Hsu 1996, "Multiple comparisons: theory and methods" (comparisons with the best); Hansen, Lunde and Nason
    2011, "The model confidence set". Rates: experiments/statistics.

    Args:
        scores: float64 (U, M), a row for each user; without NaN.
        level: Least probability that the best is among them.
        seeds: Spread of each model's mean from seed to seed; None for a model that was fitted once.
        clusters: Codes (U,), equal for users that may depend on each other; None: all are independent.
        rng: Draws the critical values.

    Raises:
        DataError: A level that is not at least 0.5 and below 1, scores that are not finite, or clusters of other users.
    """
    if not 0.5 <= level < 1:
        raise DataError(f"the level must be at least 0.5 and below 1, not {level}")
    if not np.isfinite(scores).all():
        raise DataError("the models that may be the best need finite scores")
    check_clusters(clusters, len(scores))
    codes = None if clusters is None else clusters_in_order(clusters)
    values = scores if codes is None else _linearized(scores, codes)
    n_users, n_models = values.shape
    if n_users < 2 or n_models < 2:
        return np.ones(n_models, dtype=np.bool_)

    # Sorted, so that the draws do not depend on the order of the columns.
    order = np.lexsort((np.arange(n_users) @ values, -values.mean(axis=0)))
    spreads = [seeds[model] for model in order] if any(seeds) else []
    degrees = n_users - 1 if codes is None else _cluster_degrees(scores[:, order], codes)
    gains = _gains(values[:, order], degrees, spreads)
    statistic = gains.statistic.max(axis=1)
    # One test alone, and Bonferroni's correction: the critical value is between them.
    low, high = special.stdtrit(gains.degrees, [level, 1 - (1 - level) / (n_models - 1)])
    left_out = statistic > high
    undecided = np.flatnonzero((statistic > low) & ~left_out)
    if n_models > 2 and len(undecided):
        draws = _draws(gains.covariance, gains.degrees, rng)
        for model in undecided:
            others = gains.spread[model] > 0
            largest = (draws[:, others] - draws[:, [model]]) / gains.spread[model, others]
            left_out[model] = statistic[model] > np.quantile(largest.max(axis=1), level, method="higher")
    twin = (gains.difference == 0) & (gains.spread == 0)
    stays = np.empty(n_models, dtype=np.bool_)
    stays[order] = ~left_out[np.argmax(twin, axis=1)]  # of models with equal scores, the first decides
    return stays


class _Gains(NamedTuple):
    """Paired differences of each model (in columns) from each other one (in rows)."""

    difference: Floats  # (M, M), mean
    spread: Floats  # (M, M), standard deviation; 0: the same difference for every user
    statistic: Floats  # (M, M), t or lower; without spread infinite with the sign of the difference, or 0
    covariance: Floats  # (M, M), of the models' scores
    degrees: float  # of freedom


def _linearized(scores: Floats, codes: Ints) -> Floats:
    """Return the linearized values of clusters (V, M) of scores (U, M) in clusters (U,)."""
    return np.stack([Clustered.of(column, codes).linearized for column in scores.T], axis=1)


def _cluster_degrees(scores: Floats, codes: Ints) -> float:
    """Return the fewest degrees of freedom of the differences of scores (U, M) from those of the first model."""
    gains = [paired_difference(scores[:, 0], column) for column in scores.T]
    degrees = [Clustered.of(gain, codes).spread.degrees for gain in gains if gain.any()]
    return min(degrees, default=int(codes.max()))


def _gains(scores: Floats, degrees: float, seeds: Sequence[SeedSpread | None] = ()) -> _Gains:
    n = len(scores)
    means = scores.mean(axis=0)
    difference = means - means[:, None]
    difference[np.abs(difference) <= ROUNDING * np.maximum(np.abs(means), np.abs(means)[:, None])] = 0
    products, cubes, unit = _moments(scores, means)
    variance, cube = np.diag(products), np.diag(cubes)
    square = variance[:, None] + variance - 2 * products
    third = cube - cube[:, None] + 3 * (cubes - cubes.T)
    for a, b in np.argwhere(np.triu(square <= _ALIKE * (variance[:, None] + variance), 1)):
        gain = paired_difference(scores[:, b], scores[:, a])
        mean, sd = mean_of_defined(gain), standard_deviation(gain)
        difference[a, b], difference[b, a] = mean, -mean
        square[a, b] = square[b, a] = (sd / unit) ** 2 * (n - 1) / n
        third[a, b] = float((((gain - mean) / unit) ** 3).mean())
        third[b, a] = -third[a, b]
    np.fill_diagonal(square, 0)
    if seeds:
        # As if every user had so much more variance that the mean has the variance of the seeds.
        added = (n - 1) * np.array([0.0 if spread is None else spread.error**2 for spread in seeds]) / unit**2
        degrees = _fewest_degrees(square / (n - 1), added / (n - 1), seeds, degrees)
        products = products + np.diag(added)
        square = np.where((square > 0) | (difference != 0), square + added[:, None] + added, 0)
    spread = unit * np.sqrt(square * n / (n - 1))
    varies = spread > 0
    statistic = np.where(difference == 0, 0, np.copysign(np.inf, difference))
    skewness = third[varies] / square[varies] ** 1.5
    statistic[varies] = weakest(difference[varies] / spread[varies], skewness, n)
    return _Gains(difference, spread, statistic, products * unit**2, degrees)


def _fewest_degrees(
    of_users: Floats, of_seeds: Column, seeds: Sequence[SeedSpread | None], degrees: float
) -> float:
    """Return the fewest degrees of freedom (Welch) of any pair; those of users where no seeds add to a variance.

    ``of_users`` are the variances of the mean differences over users (M, M), with ``degrees`` of freedom, ``of_seeds``
    the variances that the seeds give each mean (M,).
    """
    fits = np.array([2 if spread is None else spread.seeds for spread in seeds])
    parts = of_seeds**2 / (fits - 1)
    whole = (of_users + of_seeds[:, None] + of_seeds) ** 2
    split = of_users**2 / degrees + parts[:, None] + parts
    pairs = (split > 0) & ~np.eye(len(seeds), dtype=np.bool_)
    return float(np.min(whole[pairs] / split[pairs], initial=degrees))


def _moments(scores: Floats, means: Floats) -> tuple[Floats, Floats, float]:
    """Return the means of i j and of i^2 j over users, each (M, M), for deviations i and j in a unit, and the unit."""
    n_users, n_models = scores.shape
    products, cubes = np.zeros((n_models, n_models)), np.zeros((n_models, n_models))
    size = max(1, _VALUES_AT_ONCE // n_models)
    blocks = range(0, n_users, size)
    # Powers of deviations up to 1 do not overflow.
    unit = max(float(np.abs(scores[start : start + size] - means).max()) for start in blocks) or 1.0
    for start in blocks:
        deviations = (scores[start : start + size] - means) / unit
        products += deviations.T @ deviations
        cubes += (deviations**2).T @ deviations
    return products / n_users, cubes / n_users, unit


def _draws(covariance: Floats, degrees: float, rng: np.random.Generator) -> Floats:
    """Return draws (D, M) of mean 0 from the multivariate t with a covariance."""
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    normal = rng.standard_normal((_DRAWS, len(covariance))) @ root.T
    draws: Floats = normal / np.sqrt(rng.chisquare(degrees, _DRAWS) / degrees)[:, None]
    return draws
