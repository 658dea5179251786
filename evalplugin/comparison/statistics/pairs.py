"""Moments of the paired values of two models, which merge, and their standard deviation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from evalplugin.comparison.statistics.intervals import ROUNDING, Column
from evalplugin.metrics.moments import ExactSum, Moments

__all__ = ["PairMoments", "paired_difference", "standard_deviation"]


@dataclass(frozen=True)
class PairMoments:
    """Exact sums over the users for whom two models are defined; those of parts of the users add up."""

    a: ExactSum = field(default_factory=ExactSum)
    b: ExactSum = field(default_factory=ExactSum)
    difference: Moments = field(default_factory=Moments)  # of a - b
    fourth: ExactSum = field(default_factory=ExactSum)  # powers of the difference, each rounded
    above: int = 0  # users with a > b
    below: int = 0  # users with a < b

    @classmethod
    def of(cls, a: Column, b: Column) -> PairMoments:
        """Return the moments of the users (U,) for whom both are defined (not NaN)."""
        both = ~(np.isnan(a) | np.isnan(b))
        a, b = a[both], b[both]
        return cls.of_pairs(a, b, paired_difference(a, b))

    @classmethod
    @np.errstate(over="ignore", under="ignore")
    def of_pairs(cls, a: Column, b: Column, difference: Column) -> PairMoments:
        """Return the moments of pairs (n,) without NaN and of their differences."""
        squares = difference * difference
        return cls(
            ExactSum.of(a),
            ExactSum.of(b),
            Moments.of(difference),
            ExactSum.of(squares * squares),
            int(np.count_nonzero(difference > 0)),
            int(np.count_nonzero(difference < 0)),
        )

    def __add__(self, other: PairMoments) -> PairMoments:
        return PairMoments(
            self.a + other.a,
            self.b + other.b,
            self.difference + other.difference,
            self.fourth + other.fourth,
            self.above + other.above,
            self.below + other.below,
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


@np.errstate(invalid="ignore")  # of infinite values
def paired_difference(a: Column, b: Column) -> Column:
    """Return a - b, users (U,); 0 where they differ by rounding alone."""
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
