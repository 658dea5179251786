"""Paired tests and intervals of clusters of unequal size: level, agreement of p and interval, exact flips."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from evalplugin.comparison.statistics.paired import Paired, compare_pairs
from evalplugin.comparison.statistics.permutation import NORMAL_FROM
from evalplugin.comparison.statistics.seeds import SeedSpread, paired_with_seeds


def compare(difference: np.ndarray, clusters: np.ndarray, level: float = 0.95) -> Paired:
    zeros = np.zeros((len(difference), 1))
    rng = np.random.default_rng(0)
    return compare_pairs(difference[:, None], zeros, tests=["t"], level=level, clusters=clusters, rng=rng)[0]


def drawn(seed: int, n_clusters: int, power: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Return differences and clusters, whose sizes have a power law up to 300."""
    rng = np.random.default_rng(seed)
    sizes = np.clip((1 - rng.random(n_clusters)) ** -power, 1, 300).astype(int)
    clusters = np.repeat(np.arange(n_clusters), sizes)
    mean = rng.choice([0.0, 0.4])
    return mean + rng.normal(0, 0.4, n_clusters)[clusters] + rng.standard_normal(len(clusters)), clusters


def test_clusters_whose_difference_depends_on_their_size_are_rarely_called_different() -> None:
    # Of 1 to 500 queries, in a share of clusters proportional to n^-1.5; the mean over queries is 0.
    n = np.arange(1, 501)
    share = n**-1.5 / (n**-1.5).sum()
    queries = n * share / (n * share).sum()
    effect = np.log(n) - (queries * np.log(n)).sum()
    effect *= 0.2 / np.sqrt((queries * effect**2).sum())
    rng = np.random.default_rng(5)
    found = sums = 0
    for _ in range(100):
        which = rng.choice(500, 50, p=share)
        clusters = np.repeat(np.arange(50), n[which])
        shared = rng.random(len(clusters)) < np.sqrt(0.2)
        noise = np.where(shared, rng.standard_normal(50)[clusters], rng.standard_normal(len(clusters)))
        difference = effect[which][clusters] + noise
        found += compare(difference, clusters).p["permutation"] <= 0.05
        by_sums = np.bincount(clusters, difference)
        sums += compare(by_sums, np.arange(50)).p["permutation"] <= 0.05
    assert sums >= 0.12 * 100
    assert found <= 0.1 * 100


@pytest.mark.parametrize("kind", ["continuous", "hits", "rare"])
@pytest.mark.parametrize("n_clusters", [2, 4, 6, 9, 15, 40])
def test_p_value_and_interval_of_unequal_clusters_agree(kind: str, n_clusters: int) -> None:
    for seed, level in product(range(8), (0.5, 0.9, 0.95, 0.99)):
        difference, clusters = drawn(seed, n_clusters)
        if kind != "continuous":
            difference = np.sign(np.round(difference / 2))
        if kind == "rare":
            difference[np.random.default_rng(seed).random(len(difference)) < 0.9] = 0
        paired = compare(difference, clusters, level)
        interval = paired.interval
        if interval.method == "flips":
            is_outside = not interval.low <= 0 <= interval.high
            assert is_outside == (paired.p["permutation"] <= 1 - level), (seed, level)


@pytest.mark.parametrize("size", [None, 4])
def test_p_value_and_interval_of_clusters_agree_with_seeds(size: int | None) -> None:
    outcomes = set()
    for seed in range(40):
        difference, clusters = drawn(seed, 20)
        if size is not None:
            clusters = np.arange(len(difference)) // size
            difference, clusters = difference[: clusters.max() * size], clusters[: clusters.max() * size]
        paired = paired_with_seeds(compare(difference, clusters), SeedSpread(0.1, 3), SeedSpread(0.1, 4))
        is_outside = not paired.interval.low <= 0 <= paired.interval.high
        outcomes.add(is_outside)
        if size is None:
            assert is_outside == (paired.p["permutation"] <= 0.05), seed
    assert outcomes == {True, False}


def statistic(sums: np.ndarray, sizes: np.ndarray) -> float:
    """Return Hall's transform of t of the mean over queries, by the definition."""
    n, total = len(sums), sizes.sum()
    mean = sums.sum() / total
    residuals = (sums - sizes * mean) / np.sqrt(1 - sizes / total)
    sd = np.sqrt((residuals**2).sum() * n) / total
    skewness = (residuals**3).sum() / (residuals**2).sum() ** 1.5 * np.sqrt(n)
    s = mean / sd
    return abs(s + skewness * s**2 / 3 + skewness**2 * s**3 / 27 + skewness / (6 * n))


def test_all_signs_of_few_unequal_clusters_are_tried() -> None:
    difference, clusters = drawn(3, 8)
    sums, sizes = np.bincount(clusters, difference), np.bincount(clusters)
    least = statistic(sums, sizes) * (1 - 1e-9)
    every = [statistic(sums * signs, sizes) >= least for signs in product([-1, 1], repeat=8)]
    paired = compare(difference, clusters)
    assert (paired.p["permutation"], paired.permutations) == (np.mean(every), "exact")


def test_clusters_of_one_size_have_the_test_of_their_sums() -> None:
    difference = np.random.default_rng(1).normal(0.1, 1, 90)
    clusters = np.arange(90) // 3
    paired = compare(difference, clusters)
    by_sums = compare(np.bincount(clusters, difference), np.arange(30))
    assert paired.p["permutation"] == by_sums.p["permutation"]
    assert paired.interval.method == "t"


def test_a_p_value_below_the_resolution_is_not_below_that_of_students_t() -> None:
    difference, clusters = drawn(4, 40, power=0.5)
    paired = compare(difference + 2, clusters)
    assert paired.permutations == "bound of all sign flips"
    assert paired.p["t"] <= paired.p["permutation"] < 1 / 10_001


def test_many_unequal_clusters_have_the_normal_limit() -> None:
    difference, clusters = drawn(7, NORMAL_FROM + 10, power=0.3)
    difference -= difference.mean() - 0.03
    paired = compare(difference, clusters)
    sums, sizes = np.bincount(clusters, difference), np.bincount(clusters)
    expected = 2 * stats.norm.sf(statistic(sums, sizes) * np.sqrt(len(sums)))
    assert paired.permutations == "normal limit"
    assert paired.p["permutation"] == pytest.approx(expected)
    assert (paired.p["permutation"] <= 0.05) == (not paired.interval.low <= 0 <= paired.interval.high)


def test_unequal_clusters_without_spread_have_an_interval_of_their_mean() -> None:
    paired = compare(np.full(10, 0.5), np.repeat(np.arange(7), [1, 1, 1, 1, 2, 2, 2]))
    assert (paired.p["permutation"], paired.permutations) == (2 / 2**7, "exact")
    assert (paired.interval.low, paired.interval.high) == pytest.approx((0.5, 0.5))
