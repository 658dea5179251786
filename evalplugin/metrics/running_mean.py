"""Exact mean of values in blocks."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from evalplugin.base.arrays import Floats

__all__ = ["RunningMean"]

_MANTISSA, _HALF = 53, 27  # binary digits of a float64


class RunningMean:
    """The mean of the defined values of many blocks: exact, so that it does not depend on the blocks."""

    def __init__(self) -> None:
        self.sums: dict[int, int] = {}  # exponent -> sum of the integers that it scales
        self.n = 0
        self.infinite = 0.0  # sum of the infinite values

    def add(self, values: Floats) -> None:
        """Add values (n,), without NaN."""
        defined = values[~np.isnan(values)]
        self.n += len(defined)
        if not np.isfinite(defined).all():
            self.infinite += float(defined[np.isinf(defined)].sum())
            defined = defined[np.isfinite(defined)]
        fraction, exponent = np.frexp(defined)
        scaled = np.ldexp(fraction, _MANTISSA).astype(np.int64)
        # Sums of half of the digits each stay far below what float64 holds exactly.
        high, low = scaled >> _HALF, scaled & (2**_HALF - 1)
        lowest = int(exponent.min(initial=0))
        highs = np.bincount(exponent - lowest, weights=high)
        lows = np.bincount(exponent - lowest, weights=low)
        for bucket in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
            total = (int(highs[bucket]) << _HALF) + int(lows[bucket])
            self.sums[bucket + lowest] = self.sums.get(bucket + lowest, 0) + total

    @property
    def value(self) -> float:
        """The mean so far, NaN without any value."""
        if not self.n:
            return float("nan")
        least = min(self.sums, default=0)
        total = Fraction(sum(t << (e - least) for e, t in self.sums.items()))
        return float(total * Fraction(2) ** (least - _MANTISSA) / self.n) + self.infinite
