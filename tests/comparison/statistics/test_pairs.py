"""The moments of paired values."""

from __future__ import annotations

import numpy as np

from evalplugin.comparison.statistics.pairs import standard_deviation


def test_values_that_differ_by_rounding_alone_have_no_spread() -> None:
    assert standard_deviation(np.array([0.1 + 0.2, 0.3])) == 0
    assert standard_deviation(np.array([0.25, 0.75])) == np.std([0.25, 0.75], ddof=1)
    assert np.isnan(standard_deviation(np.array([1.0])))
    assert np.isnan(standard_deviation(np.array([np.inf, 0.0])))
