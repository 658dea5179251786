from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from samples import dataset_of_values, small_config

from evalplugin.base.errors import ConfigError, DataError
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import prepare
from evalplugin.features.config import load

STARS = (1, 2, 3, 4, 5)
Check = Callable[..., None]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Return a function that prepares a config on a CSV file of some values."""

    def run(values: tuple[float, ...], *, column: str = "stars", **changes: Any) -> None:
        mine = dataset_of_values(tmp_path, values, column, rating=changes.pop("rating", column))
        prepare(load(small_config(datasets=[mine], **changes)), None, Observer())

    return run


def test_a_threshold_that_no_rating_reaches_is_an_error(check: Check) -> None:
    with pytest.raises(DataError) as error:
        check(STARS, relevance={"threshold": 40.0})
    for part in ("mine", "relevance.threshold", "40", "highest is 5", "lower it"):
        assert part in str(error.value)


def test_a_metric_of_an_attribute_that_the_items_lack_is_an_error(check: Check) -> None:
    with pytest.raises(DataError, match=r"calibration@5: needs the attribute 'category' of the items"):
        check(STARS, metrics=["hit@5", "calibration@5"])


def test_a_value_of_a_policy_without_a_log_of_what_was_shown_is_an_error_of_the_config(check: Check) -> None:
    with pytest.raises(
        ConfigError, match=r"'value@5' needs a log of what was shown, a dataset of type impressions"
    ):
        check(STARS, metrics=["hit@5", "value@5"])


def test_ratings_of_which_none_is_above_0_are_an_error_without_a_threshold(check: Check) -> None:
    with pytest.raises(DataError, match=r"rating .* is above 0, the highest is -1; set relevance\.threshold"):
        check((-3, -2, -1), relevance={}, metrics=["recall@10"])


def test_a_threshold_is_not_checked_where_no_metric_looks_at_relevance(check: Check) -> None:
    check(STARS, relevance={"threshold": 40.0}, metrics=["rmse", "coverage@10"])


@pytest.mark.parametrize("gain", ["ndcg@10", "dcg(gain=exp2)@10"])
def test_negative_ratings_as_gain_are_an_error_before_anything_is_fitted(check: Check, gain: str) -> None:
    with pytest.raises(DataError) as error:
        check((-2, -1, 1, 2), relevance={"threshold": 1.0}, metrics=["recall@10", gain])
    for part in ("mine", gain, "-2", "gain=binary"):
        assert part in str(error.value)


def test_binary_gain_takes_negative_ratings(check: Check) -> None:
    values = (-2.0, -1.0, 1.0, 2.0)
    check(values, relevance={"threshold": 1.0}, metrics=["ndcg(gain=binary)@10"])


def test_exponential_gain_of_large_ratings_is_an_error(check: Check) -> None:
    with pytest.raises(DataError, match="gain=exp2 needs ratings up to 1000, but the truth has 2000"):
        check((1.0, 2000.0), metrics=["ndcg(gain=exp2)@10"], relevance={})


@pytest.mark.parametrize("name", ["gauc", "logloss", "ece"])
def test_a_truth_without_negatives_is_an_error_for_metrics_of_judged_pairs(check: Check, name: str) -> None:
    with pytest.raises(DataError, match=rf"metrics: {name}: needs judged pairs that are not relevant"):
        check((1,), relevance={}, metrics=["recall@10", name])
    check((0, 1), relevance={}, metrics=["recall@10", name])


def test_ratings_that_are_no_probabilities_are_an_error_for_metrics_of_probabilities(check: Check) -> None:
    with pytest.raises(DataError, match=r"metrics: logloss: needs probabilities.* has 1 to 5; take gauc"):
        check(STARS, relevance={"threshold": 4.0}, metrics=["recall@10", "logloss"])
    check(STARS, relevance={"threshold": 4.0}, metrics=["recall@10", "gauc"])
