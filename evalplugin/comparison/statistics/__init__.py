"""Statistics over users: intervals of means, paired comparisons, corrections for multiple comparisons."""

from __future__ import annotations

from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.corrections import benjamini_hochberg, holm
from evalplugin.comparison.statistics.intervals import (
    AUTO_BOOTSTRAP_BELOW,
    Interval,
    Method,
    mean_interval,
    mean_intervals,
)
from evalplugin.comparison.statistics.one_sided import lower_bound, p_above
from evalplugin.comparison.statistics.paired import TESTS, Paired, Test, compare_pairs, paired_difference
from evalplugin.comparison.statistics.power import POWER, detectable_gain, users_needed

__all__ = [
    "AUTO_BOOTSTRAP_BELOW",
    "POWER",
    "TESTS",
    "Interval",
    "Method",
    "Paired",
    "Test",
    "benjamini_hochberg",
    "compare_pairs",
    "detectable_gain",
    "holm",
    "lower_bound",
    "may_be_best",
    "mean_interval",
    "mean_intervals",
    "p_above",
    "paired_difference",
    "users_needed",
]
