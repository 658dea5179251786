"""Paired permutation tests, by sign flips of the differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evalplugin.base.arrays import Floats, on_one_thread
from evalplugin.base.libraries import special
from evalplugin.comparison.statistics.intervals import Column
from evalplugin.comparison.statistics.pairs import PairMoments
from evalplugin.comparison.statistics.skewness import SkewedT
from evalplugin.metrics.moments import ROUNDING, Moments

# Users with different scores from whom on a test at 5 % calls models of equal means different in 5.5 % on average and
# at most 6.3 %, also where one serves twice as many half as well; below it is up to 8 % (experiments/statistics).
RELIABLE_FROM = 30
# The flips' own normal limit from so many differences on. It is furthest off for 0/1 scores, whose sums are whole
# numbers: by 0.0017 at p = 0.05 and 0.0004 at 0.01, where 10,000 random flips err by 0.0022 and 0.0010.
NORMAL_FROM = 5000
# But not where a few large ones dominate the sum, so that it has the variance of fewer equal differences than these.
_DECISIVE = 50
_FOURTH_UNITS = 3 * 1074  # the square of a sum of squares has this power of two less as its unit than a sum
_LEAST_SIZE = 2.0**-200  # fourth powers of smaller differences would vanish
_SIGNS_AT_ONCE = 2**22
_COLUMNS_AT_ONCE = 256  # that share random signs, which take long to draw


class Permuted(NamedTuple):
    """A two-sided p-value, and its method: exact, 10,000 sign flips, bound of all sign flips, normal limit."""

    p: float
    by: str
    critical: float = (
        math.nan
    )  # largest size of the statistic that is not significant at the level; NaN: unknown


def sign_flip_tests(
    columns: Sequence[Column],
    n_permutations: int,
    rng: np.random.Generator,
    pairs: Sequence[PairMoments],
    skewed: Sequence[SkewedT | None] = (),
    level: float = 0.95,
) -> list[Permuted]:
    """Return the test of a mean difference of 0 for each column of finite differences, of any length.

    If the two models were interchangeable, every difference could as well have the other sign. All signs are tried
    where that takes no more than ``n_permutations``, otherwise that many random ones, the same for all columns; the
    p-value is then (as extreme + 1) / (tried + 1), which is never 0 and never too small on average (Phipson and Smyth
    2010). If none is as extreme, that is only the resolution of the flips: the p-value is then the ``_normal_bound``,
    where that is smaller. With ``NORMAL_FROM`` differences and more, sums of random signs are normal. Differences of 0
    change nothing.

    The statistic is the sum, or ``SkewedT`` for clusters of unequal size, whose bound is not below Student's p-value.

    Args:
        columns: float64, each of any length.
        n_permutations: Of the signs.
        rng: Draws the signs.
        pairs: Moments of each column.
        skewed: The statistic of each column, None for the sum; empty: all are sums.
        level: Of ``critical``.
    """
    seed = int(rng.integers(2**63))
    tests: dict[int, Permuted] = {}
    statistics = list(skewed) or [None] * len(columns)
    # Clusters whose sum is 0 have no sign.
    terms = [
        _nonzero(c)[:, None] if t is None else t.terms[c != 0]
        for c, t in zip(columns, statistics, strict=True)
    ]
    observed = [
        _as_extreme(part[:, 0]) if t is None else t.observed
        for part, t in zip(terms, statistics, strict=True)
    ]
    for i, statistic in enumerate(statistics):
        if 2 ** len(terms[i]) <= n_permutations:
            tests[i] = _test(_sizes(_all_sums(terms[i]), statistic), observed[i], "exact", level)
        elif (limit := _normal_limit(pairs[i])) is not None:
            tests[i] = limit
            if statistic is not None:
                norm = math.sqrt(len(columns[i]))
                critical = float(special.ndtri((1 + level) / 2)) / norm
                tests[i] = Permuted(float(2 * special.ndtr(-observed[i] * norm)), limit.by, critical)
    to_flip = [i for i in range(len(columns)) if i not in tests]
    for start in range(0, len(to_flip), _COLUMNS_AT_ONCE):
        batch = to_flip[start : start + _COLUMNS_AT_ONCE]
        # Row i of the signs is for a column's i-th difference, whatever the other columns are.
        of_batch = _flipped([terms[i] for i in batch], n_permutations, np.random.default_rng(seed))
        for i, sums in zip(batch, of_batch, strict=True):
            sizes = np.append(_sizes(sums, statistics[i]), math.inf)
            tests[i] = _test(sizes, observed[i], f"{n_permutations:,} sign flips", level)
            if tests[i].p == 1 / (n_permutations + 1):
                bound = max(
                    _normal_bound(pairs[i].difference), 0 if (t := statistics[i]) is None else t.p_of_t
                )
                tests[i] = min(tests[i], tests[i]._replace(p=bound, by="bound of all sign flips"))
    return [tests[i] for i in range(len(columns))]


def _sizes(sums: Floats, statistic: SkewedT | None) -> Floats:
    return np.abs(sums[:, 0]) if statistic is None else statistic.sizes(sums)


def _test(sizes: Floats, observed: float, by: str, level: float) -> Permuted:
    """Return the test of an observed size, given that of each flip, which two flips have at least."""
    allowed = (1 - level) * len(sizes)
    rank = len(sizes) - int(allowed) - 1
    critical = float(np.partition(sizes, rank)[rank]) if allowed >= 2 else math.nan
    return Permuted(float(np.mean(sizes >= observed)), by, critical)


def _nonzero(column: Column) -> Column:
    """Return the differences that are not 0, divided by the largest, so that powers neither overflow nor vanish."""
    nonzero: Column = column[column != 0]
    nonzero /= np.abs(nonzero).max(initial=0)
    return nonzero


def all_signs(column: Column) -> float:
    """Return the share of all ways to choose signs whose sum is at least as extreme as the column's own."""
    return float(np.mean(np.abs(_all_sums(column[:, None])[:, 0]) >= _as_extreme(column)))


def _all_sums(terms: Floats) -> Floats:
    """Return the sums (2 ** n, k) of terms (n, k) with all signs."""
    sums = np.zeros((1, terms.shape[1]))
    for row in terms:
        sums = np.concatenate([sums - row, sums + row])
    return sums


def _normal_limit(pairs: PairMoments) -> Permuted | None:
    """Return the normal limit of the sums of random signs; None where it approximates them badly."""
    moments, fourth = pairs.difference, pairs.fourth
    too_small = max(moments.highest, -moments.lowest) < _LEAST_SIZE
    if not pairs.is_testable or pairs.above + pairs.below < NORMAL_FROM or too_small or fourth.infinite:
        return None
    if (moments.squares**2) >> _FOURTH_UNITS < _DECISIVE * fourth.units:
        return None
    return Permuted(float(2 * special.ndtr(-abs(moments.sum_over_norm))), "normal limit")


def _normal_bound(differences: Moments) -> float:
    """Return a bound of the share of all ways to choose signs whose sum is at least as extreme as the observed one.

    It holds for any differences, few or many, skewed or sparse: no sum of random signs is beyond z standard deviations
    with more than 1 / (4 P(Z > root of 2)) = 3.18 times the probability of a normal Z. Source: Bentkus and Dzindzalieta
    2015, "A tight Gaussian bound for weighted sums of Rademacher random variables".
    """
    return float(2 * special.ndtr(-abs(differences.sum_over_norm)) / (4 * special.ndtr(-math.sqrt(2))))


def _flipped(terms: Sequence[Floats], n_permutations: int, rng: np.random.Generator) -> list[Floats]:
    """Return, for terms (n, k) of each column, their sums (n_permutations, k) with random signs."""
    longest = max(map(len, terms))
    rows = _SIGNS_AT_ONCE // n_permutations + 1
    ends = np.cumsum([part.shape[1] for part in terms])
    positive = np.zeros((n_permutations, ends[-1]))  # sums of the differences whose sign is +
    # 1 for +; new memory takes longer than its contents.
    signs = np.empty((min(rows, longest), n_permutations))
    for start in range(0, longest, rows):
        size = min(rows, longest - start)
        block = np.zeros((size, ends[-1]))
        for end, whole in zip(ends, terms, strict=True):
            part = whole[start : start + size]
            block[: len(part), end - part.shape[1] : end] = part
        bits = rng.integers(0, 256, size=(size, -(-n_permutations // 8)), dtype=np.uint8)
        signs[:size] = np.unpackbits(bits, axis=1, count=n_permutations)
        with on_one_thread():
            positive += signs[:size].T @ block
    sums = 2 * positive - [column.sum() for whole in terms for column in whole.T]
    return np.split(sums, ends[:-1], axis=1)


def _as_extreme(column: Column) -> float:
    """Return the least absolute sum that counts as extreme as the observed one, with room for rounding."""
    return float(abs(column.sum()) - ROUNDING * np.abs(column).sum())
