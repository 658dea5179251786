"""Statistics over users: intervals of means, paired comparisons, corrections for multiple comparisons."""

from __future__ import annotations

from evalplugin.comparison.statistics.best import may_be_best
from evalplugin.comparison.statistics.intervals import (
    AUTO_BOOTSTRAP_BELOW,
    Interval,
    Method,
    distribution_interval,
    mean_interval,
    mean_intervals,
)
from evalplugin.comparison.statistics.one_sided import lower_bound, p_above
from evalplugin.comparison.statistics.paired import (
    TESTS,
    Paired,
    Test,
    benjamini_hochberg,
    compare_pairs,
    holm,
)
from evalplugin.comparison.statistics.pairs import paired_difference, standard_deviation
from evalplugin.comparison.statistics.permutation import RELIABLE_FROM
from evalplugin.comparison.statistics.power import POWER, detectable_gain, users_needed
from evalplugin.comparison.statistics.seeds import (
    SeedSpread,
    bound_with_seeds,
    interval_with_seeds,
    p_above_with_seeds,
    paired_with_seeds,
    range_of_seeds,
    seed_spread,
)

__all__ = [
    "AUTO_BOOTSTRAP_BELOW",
    "POWER",
    "RELIABLE_FROM",
    "TESTS",
    "Interval",
    "Method",
    "Paired",
    "SeedSpread",
    "Test",
    "benjamini_hochberg",
    "bound_with_seeds",
    "compare_pairs",
    "detectable_gain",
    "distribution_interval",
    "holm",
    "interval_with_seeds",
    "lower_bound",
    "may_be_best",
    "mean_interval",
    "mean_intervals",
    "p_above",
    "p_above_with_seeds",
    "paired_difference",
    "paired_with_seeds",
    "range_of_seeds",
    "seed_spread",
    "standard_deviation",
    "users_needed",
]
