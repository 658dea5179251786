"""The moments of paired values."""

from __future__ import annotations

import numpy as np

from evalplugin.comparison.statistics.pairs import PairMoments, paired_difference, standard_deviation


def test_values_that_differ_by_rounding_alone_have_no_spread() -> None:
    assert standard_deviation(np.array([0.1 + 0.2, 0.3])) == 0
    assert standard_deviation(np.array([0.25, 0.75])) == np.std([0.25, 0.75], ddof=1)
    assert np.isnan(standard_deviation(np.array([1.0])))
    assert np.isnan(standard_deviation(np.array([np.inf, 0.0])))


def test_many_pairs_have_the_moments_of_each() -> None:
    rng = np.random.default_rng(0)
    scores = [np.where(rng.random(200) < 0.6, 0, rng.random(200)) for _ in range(6)]
    # One is too small, one infinite, one shorter than the others: these share no work.
    extremes = [
        (scores[0] * 1e-80, scores[1]),
        (np.full(200, np.inf), scores[2]),
        (scores[3][:50], scores[4][:50]),
    ]
    pairs = [(a, b) for i, a in enumerate(scores) for b in scores[i + 1 :]] + 2 * extremes
    for start in range(0, len(pairs), 4):
        several = pairs[start : start + 20]
        differences = [paired_difference(a, b) for a, b in several]
        each = [PairMoments.of(a, b, d) for (a, b), d in zip(several, differences, strict=True)]
        assert [*PairMoments.of_each(several, differences)] == each
