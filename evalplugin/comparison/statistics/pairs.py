"""Moments of the paired values of two models, and their standard deviation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import np
from evalplugin.comparison.statistics.intervals import Column
from evalplugin.metrics.moments import ROUNDING, ExactSum, Moments, ordinary_rows

_PAIRS_AT_ONCE = 16  # whose values stay in the processor's cache


@dataclass(frozen=True)
class PairMoments:
    """Exact sums over the users for whom two models are defined."""

    a: ExactSum
    b: ExactSum
    difference: Moments  # of a - b
    fourth: ExactSum  # powers of the difference, each rounded
    above: int  # users with a > b
    below: int  # users with a < b

    @classmethod
    def of(cls, a: Column, b: Column, difference: Column) -> PairMoments:
        """Return the moments of pairs (n,) without NaN and of their differences."""
        with np.errstate(over="ignore", under="ignore"):
            squares = difference * difference
            return cls(
                ExactSum.of(a),
                ExactSum.of(b),
                Moments.of(difference),
                ExactSum.of(squares * squares),
                int(np.count_nonzero(difference > 0)),
                int(np.count_nonzero(difference < 0)),
            )

    @classmethod
    def of_each(
        cls, pairs: Sequence[tuple[Column, Column]], differences: Sequence[Column]
    ) -> Iterator[PairMoments]:
        """Yield ``of`` each pair of columns; those of one length and without extreme values share the work."""
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            block = slice(start, start + _PAIRS_AT_ONCE)
            columns = *zip(*pairs[block], strict=True), differences[block]
            a, b, difference = map(ordinary_rows, columns)
            if a is None or b is None or difference is None:
                yield from map(cls.of, *columns)
            else:
                yield from cls._of_rows(a, b, difference)

    @classmethod
    def _of_rows(cls, a: Floats, b: Floats, difference: Floats) -> Iterator[PairMoments]:
        squares = difference * difference
        return map(
            cls,
            ExactSum.of_rows(a),
            ExactSum.of_rows(b),
            Moments.of_rows(difference),
            ExactSum.of_rows(squares * squares),
            np.count_nonzero(difference > 0, axis=1).tolist(),
            np.count_nonzero(difference < 0, axis=1).tolist(),
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
