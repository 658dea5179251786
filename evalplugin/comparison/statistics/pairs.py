"""Moments of the differences of two models, and their standard deviation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalplugin.comparison.statistics.intervals import Column
from evalplugin.metrics.moments import ROUNDING, ExactSum, Moments


@dataclass(frozen=True)
class PairMoments:
    """Exact sums over the users for whom two models are defined."""

    difference: Moments  # of a - b
    fourth: ExactSum  # powers of the difference, each rounded
    above: int  # users with a > b
    below: int  # users with a < b

    @classmethod
    def of(cls, difference: Column) -> PairMoments:
        """Return the moments of the differences (n,) of pairs without NaN."""
        with np.errstate(over="ignore", under="ignore"):
            squares = difference * difference
            return cls(
                Moments.of(difference),
                ExactSum.of(squares * squares),
                int(np.count_nonzero(difference > 0)),
                int(np.count_nonzero(difference < 0)),
            )

    @property
    def n(self) -> int:
        """The number of pairs."""
        return self.difference.n

    @property
    def is_testable(self) -> bool:
        """Whether there are at least two pairs, all of them finite."""
        return self.n > 1 and not self.difference.sum.infinite

    @property
    def std(self) -> float:
        """The standard deviation of the differences, 0 where they differ by rounding alone, NaN below two."""
        return _spread(self.difference)


def paired_difference(a: Column, b: Column) -> Column:
    """Return a - b, users (U,); 0 where they differ by rounding alone."""
    with np.errstate(invalid="ignore"):  # of infinite values
        difference: Column = a - b
        difference[(a == b) | (np.abs(difference) <= ROUNDING * np.minimum(np.abs(a), np.abs(b)))] = 0
        return difference


def standard_deviation(values: Column) -> float:
    """Return the sample's standard deviation, 0 where values differ by rounding alone, NaN below two."""
    return _spread(Moments.of(values))


def _spread(moments: Moments) -> float:
    if moments.sum.infinite:
        return float("nan")
    size = max(moments.highest, -moments.lowest)
    alike = moments.n > 1 and moments.highest - moments.lowest <= ROUNDING * size
    return 0.0 if alike else moments.std
