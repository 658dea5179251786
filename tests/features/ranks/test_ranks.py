"""Ranks over several datasets: arithmetic, other implementations, what few datasets can show."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan, sqrt

import numpy as np
import pytest
from samples import bakeoff, data_info, failed_result, model_result
from scipy import stats

from evalplugin.comparison.comparison import Comparison, compare
from evalplugin.features.ranks.ranks import Ranks, rank_models, ranks_of, signed_rank_p
from evalplugin.report.competition import competitions_of


def ranked(means: dict[str, list[float]], metric: str = "ndcg@10") -> Ranks:
    n = len(next(iter(means.values())))
    return rank_models(metric, [f"d{i}" for i in range(n)], means)


def led(n: int, models: str = "abc") -> dict[str, list[float]]:
    """Return means of models in the same order on each of n datasets, by differences that are never tied."""
    return {model: [0.5 - 0.1 * i - 0.001 * i * d for d in range(n)] for i, model in enumerate(models)}


def test_average_ranks_share_ties_and_follow_the_direction_of_the_metric() -> None:
    means = {"a": [0.3, 0.2, 0.1], "b": [0.3, 0.4, 0.2], "c": [0.1, 0.3, 0.2]}
    found = ranked(means)
    ranks = {row.model: row.ranks for row in found.models}
    assert ranks == {"a": (1.5, 3, 3), "b": (1.5, 1, 1.5), "c": (3, 2, 1.5)}
    assert [(row.model, row.mean) for row in found.models] == [("b", 4 / 3), ("c", 6.5 / 3), ("a", 7.5 / 3)]
    reversed_ = ranked(means, "rmse")
    assert all(row.ranks == tuple(4 - rank for rank in ranks[row.model]) for row in reversed_.models)


@pytest.mark.parametrize(("n", "m", "tied"), [(4, 3, False), (30, 5, False), (30, 4, True)])
def test_friedman_has_the_statistic_of_scipy_and_its_p_where_datasets_are_many(n, m, tied):
    rng = np.random.default_rng(n + m)
    values = rng.normal(0, 1, (n, m)) + np.linspace(0, 0.4, m)
    values = np.round(values) if tied else values
    found = ranked({str(j): values[:, j].tolist() for j in range(m)}).friedman
    expected = stats.friedmanchisquare(*values.T)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    if n == 30:
        assert found.p == pytest.approx(expected.pvalue, abs=0.02)


def test_friedman_of_few_datasets_is_that_of_all_permutations() -> None:
    # Three models in the same order on n datasets: one permutation of 6 on each after the first gives the highest sum.
    for n in (2, 3):
        found = ranked(led(n)).friedman
        assert found.p == pytest.approx((1 / 6) ** (n - 1), abs=0.006)
        assert found.statistic == pytest.approx(2 * n)  # n (m - 1), the highest


def test_signed_rank_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(3)
    for n in (2, 5, 12, 40):
        d = rng.normal(0.4, 1, n)
        assert signed_rank_p(d) == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, rel=1e-12)
    tied = np.array([1.0, 1.0, -1.0, 2.0, 3.0, 3.0])  # ranks 2 2 2 4 5.5 5.5: the lower sum is 2
    below = sum(np.dot([2, 2, 2, 4, 5.5, 5.5], signs) <= 2 for signs in np.ndindex(*[2] * 6))
    assert signed_rank_p(tied) == pytest.approx(2 * below / 2**6)
    assert signed_rank_p(np.append(tied, 0.0)) == signed_rank_p(tied)
    assert signed_rank_p(np.zeros(4)) == 1.0


def test_pairs_are_corrected_and_cliques_join_those_that_are_not_told_apart() -> None:
    found = ranked(led(8))
    assert [(pair.model, pair.against) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [pair.p for pair in found.pairs] == pytest.approx([2 / 2**8] * 3)
    assert [pair.p_holm for pair in found.pairs] == pytest.approx([3 * 2 / 2**8] * 3)
    assert found.cliques == ()
    means = led(8) | {"b2": [0.4 + 0.01 * (-1) ** d - 0.001 * d for d in range(8)]}
    found = ranked(means)
    assert found.cliques == (("b", "b2"),) or found.cliques == (("b2", "b"),)
    assert all(pair.differ == ({pair.model, pair.against} != {"b", "b2"}) for pair in found.pairs)


def test_few_datasets_show_no_difference_and_the_number_needed_does() -> None:
    assert ranked(led(3)).needed == 7  # 3 pairs, 2 / 2^7 * 3 = 0.047
    for n, differ in ((6, False), (7, True)):
        assert [pair.differ for pair in ranked(led(n)).pairs] == [differ] * 3
    assert ranked(led(5)).cliques == (("a", "b", "c"),)
    assert ranked(led(2, "ab")).needed == 6


def test_models_without_a_value_somewhere_are_left_out() -> None:
    found = ranked({"a": [0.1, 0.2], "b": [0.2, nan], "c": [inf, nan], "d": [0.3, 0.1]})
    assert [row.model for row in found.models] == ["a", "d"]
    assert found.left_out == {"b": ("d1",), "c": ("d0", "d1")}
    assert found.friedman is None
    assert len(found.pairs) == 1


def test_fewer_than_two_models_are_not_tested() -> None:
    for means in ({"a": [0.1, 0.2]}, {"a": [nan, 0.2]}):
        found = ranked(means)
        assert (found.friedman, found.pairs, found.cliques) == (None, (), ())


def test_twins_have_equal_ranks_and_p_1() -> None:
    same = [0.1, 0.2, 0.3, 0.4]
    found = ranked({"a": same, "b": same, "c": same})
    assert [row.mean for row in found.models] == [2, 2, 2]
    assert (found.friedman.statistic, found.friedman.p) == (0, 1)
    assert [pair.p_holm for pair in found.pairs] == [1, 1, 1]


@pytest.mark.slow
def test_friedman_and_pairs_hold_their_level() -> None:
    rng = np.random.default_rng(0)
    found = [ranked({m: rng.random(8).tolist() for m in "abcd"}) for _ in range(60)]
    rejected = [ranks.friedman is not None and ranks.friedman.p <= 0.05 for ranks in found]
    limit = 0.05 + 3 * sqrt(0.05 * 0.95 / 60)
    assert np.mean(rejected) <= limit
    assert np.mean([any(pair.differ for pair in ranks.pairs) for ranks in found]) <= limit


def on(dataset: str, digest: str, level: float = 0.3, split: str = "last") -> Comparison:
    """Return the comparison of two models and one that failed, on one dataset."""
    info = data_info(dataset, split)
    models = [
        model_result("random", info=info, level=level),
        model_result("knn", info=info, level=level / 2),
        failed_result("svd", info=info),
    ]
    (contest,) = competitions_of(bakeoff(), models)
    return compare(replace(contest, digest=digest))


def test_splits_and_copies_of_a_dataset_are_not_datasets() -> None:
    one, two = on("one", "1"), on("two", "2")
    assert ranks_of([one]) == ()
    assert ranks_of([one, on("one", "3", split="other")]) == ()
    assert ranks_of([one, on("copy", "1")]) == ()
    (found,) = ranks_of([one, two, on("copy", "1")])
    assert found.datasets == ("one", "two")
    assert found.same_data == {"copy": "one"}
    assert found.left_out == {"svd": ("one", "two")}
    assert [row.model for row in found.models] == ["random", "knn"]
    by_split = ranks_of([one, two, on("one", "3", split="other"), on("two", "4", split="other")])
    assert [ranks.split for ranks in by_split] == ["last", "other"]
