"""Results as plain values."""

from __future__ import annotations

import math

import pytest
from samples import tuning


def test_optimism_is_above_0_where_validation_is_better_than_the_test() -> None:
    assert tuning(level=0.25).optimism(0.2) == pytest.approx(0.05)
    assert tuning(level=0.9, metric="rmse").optimism(1.0) == pytest.approx(0.1)


def test_trials_are_counted_over_all_folds() -> None:
    found = tuning(24, folds=2)
    assert [found.count(state) for state in ("done", "dropped", "failed")] == [38, 8, 2]
    assert found.seconds == pytest.approx(46 * 0.75)


def test_the_value_of_the_defaults_is_the_mean_over_folds_and_nan_where_they_failed() -> None:
    found = tuning(24, folds=2)
    rows = found.trials.to_pylist()
    first = [row["value"] for row in rows if row["trial"] == 0]
    assert found.defaults == pytest.approx(sum(first) / 2)
    rows[24]["value"] = None
    broken = tuning(24, trials=found.trials.from_pylist(rows))
    assert math.isnan(broken.defaults)
