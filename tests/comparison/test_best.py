"""The models that may be the best by a metric: which models and users are compared, and how many more would tell."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from evalplugin.comparison.best import BestModels, best_models
from evalplugin.comparison.comparison import compare
from evalplugin.comparison.statistics import may_be_best, users_needed
from evalplugin.metrics import parse
from evalplugin.metrics.scores import Units
from evalplugin.report.competition import competitions_of
from evalplugin.report.sentences.verdict import why_several
from evalplugin.segments import Segmentation


def may_win(metric: str = "rr", **columns: object) -> BestModels | None:
    values = {model: np.asarray(column, dtype=np.float64) for model, column in columns.items()}
    rng = np.random.default_rng(0)
    return best_models(values, parse(metric), level=0.95, rng=rng, seeds={})


def found(metric: str = "rr", **columns: object) -> BestModels:
    best = may_win(metric, **columns)
    assert best is not None
    return best


def test_only_users_with_values_of_all_models_count() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 50))
    a[:5] = b[:3] = np.nan
    best = found(a=a, b=b)
    assert best.users == 45
    stays = may_be_best(np.column_stack([a[5:], b[5:]]), rng=np.random.default_rng(0))
    assert set(best.models) == {name for name, kept in zip("ab", stays, strict=True) if kept}


def test_lower_values_are_better_where_the_metric_says_so() -> None:
    far, near = np.full(20, 2.0), np.full(20, 1.0)
    assert found("rmse", far=far, near=near).models == ("near",)


def test_a_model_without_any_value_is_not_compared() -> None:
    best = found(a=np.ones(5), none=np.full(5, np.nan))
    assert best.compared == ("a",)
    assert may_win(a=[np.nan]) is None


def test_a_single_user_tells_nothing() -> None:
    best = found(a=[0.1], b=[0.9])
    assert (best.models, best.users, best.users_to_tell) == (("b", "a"), 1, None)
    assert why_several(best, Units(np.empty(0))) == ["A single user has values of all models."]


def test_without_a_user_in_common_all_may_be_the_best() -> None:
    best = found(a=[0.1, 0.2, np.nan, np.nan], b=[np.nan, np.nan, 0.9, 0.8])
    assert (set(best.models), best.users, best.users_to_tell) == ({"a", "b"}, 0, None)
    assert why_several(best, Units(np.empty(0))) == ["No user has values of all models."]


def test_the_users_to_tell_are_those_of_the_rival_that_is_hardest_to_tell() -> None:
    rng = np.random.default_rng(2)
    leader = rng.random(100)
    close = leader - 0.02 + 0.2 * rng.standard_normal(100)  # the second by its mean
    noisy = leader - 0.03 + rng.standard_normal(100)
    noisy += (leader - noisy).mean() - 0.03
    close += (leader - close).mean() - 0.02
    best = found(leader=leader, close=close, noisy=noisy)
    assert best.models == ("leader", "close", "noisy")
    assert best.rival == "noisy"
    sd = (leader - noisy).std(ddof=1)
    assert best.users_to_tell == users_needed(sd, 0.03, level=0.975, one_sided=True) - 100


def test_the_level_of_groups_holds_for_all_of_them_together(make: SimpleNamespace) -> None:
    models = (make.model_result("a", 0.5), make.model_result("b", 0.3), make.failed_result("c"))
    (contest,) = competitions_of(make.bakeoff(["a", "b", "c"], baseline="b"), models)
    users = np.arange(200)
    thirds = Segmentation("third", ("x", "y", "z", "nobody"), users, (users % 3).astype(np.int32))
    comparison = compare(replace(contest, segments=(thirds,)))
    groups = comparison.best_in_groups("third", "rr")
    assert [group.label for group in groups] == ["x", "y", "z"]
    assert [group.level for group in groups] == pytest.approx([1 - 0.05 / 4] * 3)
    assert all("c" not in group.compared for group in (*groups, comparison.best["rr"]))
    assert comparison.best.keys() == {"ndcg@10", "recall@10", "rr"}
