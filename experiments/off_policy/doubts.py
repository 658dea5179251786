"""Rules of doubt: what a log says of a value that cannot be trusted, as first designed and as proposed.

Each rule is a function of measured quantities, which are numbers of one value or columns of many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from reference import Floats, Ints

from evalplugin.comparison.statistics.intervals import mean_interval

Rules = Mapping[str, Callable[[Any], Any]]


def _off(q: Any) -> Any:
    """Return whether the mean weight is not 1: also where weights differ too little to have an interval."""
    return ~((q.w_low <= 1) & (q.w_high >= 1)) & (np.abs(q.w - 1) > 1e-9)


DESIGNED: Rules = {
    "effective decisions < 100": lambda q: q.ess < 100,
    "largest weight > 5 %": lambda q: q.top > 0.05,
    "mean weight's interval without 1": _off,
    "effective rewarded decisions < 10": lambda q: q.ess_rewarded < 10,
    "unsupported > 5 %": lambda q: q.unsupported > 0.05,
}
# Estimators with a doubt of their own: dm's interval does not hold the error of its model, replay needs a uniform log.
OF_ESTIMATORS: Rules = {
    "dm": lambda q: np.ones(np.shape(q.ess), dtype=bool),
    "replay": lambda q: q.match_spread > 1.01,
}
PROPOSED: Rules = {
    "effective decisions < 100": lambda q: q.ess < 100,
    "largest weight > 1 %": lambda q: q.top > 0.01,
    "mean weight's interval without 1": _off,
    "effective rewarded clusters < 20": lambda q: q.ess_rewarded_clusters < 20,
    "unsupported > 5 %": lambda q: q.unsupported > 0.05,
}


def quantities(
    weight: Floats, reward: Floats, unsupported: float, clusters: Ints | None = None
) -> SimpleNamespace:
    """Return what rules ask of one value.

    Args:
        weight: Of each decision (n,), as the estimator uses it.
        reward: Sum of rewards of each decision (n,).
        unsupported: Share of the policy's probability on items that the log never shows.
        clusters: Codes (n,), equal for decisions of one user; None: all are independent.
    """
    interval = mean_interval(
        weight, bounds=(-np.inf, np.inf), clusters=clusters, rng=np.random.default_rng(0)
    )
    rewarded = weight * reward
    return SimpleNamespace(
        ess=effective(weight),
        top=largest(weight),
        w=interval.mean,
        w_low=interval.low,
        w_high=interval.high,
        ess_rewarded=effective(rewarded),
        ess_rewarded_clusters=effective(sums(rewarded, clusters)),
        unsupported=unsupported,
    )


def in_doubt(rules: Rules, q: Any) -> list[str]:
    """Return the names of the rules that doubt one value."""
    return [name for name, rule in rules.items() if rule(q)]


def sums(values: Floats, clusters: Ints | None) -> Floats:
    """Return the sums of clusters, or the values (n,) themselves where there are none."""
    return values if clusters is None else np.bincount(clusters, weights=values)


def effective(values: Floats) -> float:
    """Return the number of equal values that say as much (Kish); 0 where all are 0."""
    squares = float((values**2).sum())
    return float(values.sum()) ** 2 / squares if squares else 0.0


def largest(values: Floats) -> float:
    """Return the share of the largest value in the sum; 1 where all are 0."""
    total = float(values.sum())
    return float(values.max()) / total if total else 1.0
