"""Student's t corrected for skewness, of means and of sums over clusters whose signs are flipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evalplugin.base.arrays import Floats
from evalplugin.base.libraries import special
from evalplugin.comparison.statistics.clusters import Clustered
from evalplugin.metrics.moments import ROUNDING

Statistic = TypeVar("Statistic", float, Floats)

_NO_SPREAD = 1e50  # t of a mean without spread: above any other, and its cube is a float


def hall(s: Statistic, skewness: Statistic, n: int) -> Statistic:
    """Return Hall's transform of means over standard deviations; it rises with ``s``.

    Source: Hall 1992, "On the removal of skewness by transformation".
    """
    g = skewness
    transformed: Statistic = s + g * s**2 / 3 + g**2 * s**3 / 27 + g / (6 * n)
    return transformed


def hall_inverse(value: float, skewness: float, n: int) -> float:
    """Return the mean over the standard deviation that ``hall`` transforms to a value."""
    # (1 + g s / 3)^3 = 1 + g (s + g s^2 / 3 + g^2 s^3 / 27); without skewness s itself, and nearly so close to it.
    if abs(skewness) < 1e-9:
        return value
    return float(3 / skewness * (np.cbrt(1 + skewness * (value - skewness / (6 * n))) - 1))


def skewness_of(deviations: Floats) -> float:
    """Return the skewness of deviations from their mean (n,), scaled so that powers neither overflow nor vanish."""
    variance, third = float((deviations**2).mean()), float((deviations**3).mean())
    return float(third / variance**1.5)


@dataclass(frozen=True, eq=False)
class SkewedT:
    """Hall's transform of t of the mean over clusters of unequal size, when the signs of their sums are flipped.

    Residuals are corrected as those of ``Clustered``. With the sum A of all clusters and the shares h of values, a
    residual is S - h A: their squares and cubes are polynomials in A and in sums over clusters, linear in the signs.
    """

    # (C, 4) S, w S h, w^1.5 S^3 and w^1.5 S h^2, with w = 1 / (1 - h); the largest S is 1 or -1
    terms: Floats
    fixed: Floats  # (4,) sums over clusters of w S^2, w h^2, w^1.5 S^2 h and w^1.5 h^3
    degrees: float  # of freedom of t

    @classmethod
    def of(cls, clustered: Clustered) -> SkewedT:
        """Return the statistic of at least two clusters with finite sums, one of which is not 0."""
        s = clustered.sums / np.abs(clustered.sums).max()  # powers then neither overflow nor vanish
        h = clustered.sizes / clustered.sizes.sum()
        w = 1 / (1 - h)
        terms = np.stack([s, w * s * h, w**1.5 * s**3, w**1.5 * s * h**2], axis=1)
        fixed = np.array(
            [(w * s**2).sum(), (w * h**2).sum(), (w**1.5 * s**2 * h).sum(), (w**1.5 * h**3).sum()]
        )
        return cls(terms, fixed, clustered.spread.degrees)

    def _moments(self, sums: Floats) -> tuple[Floats, Floats]:
        """Return means over standard deviations and skewness (F,), given sums (F, 4) of ``terms``."""
        n, (a, b, c, d) = len(self.terms), sums.T
        squares, shares, cross, cubes = self.fixed
        square = squares - 2 * a * b + a**2 * shares
        third = c - 3 * a * cross + 3 * a**2 * d - a**3 * cubes
        varies = square > ROUNDING * squares
        root = np.sqrt(np.where(varies, square, 1))
        mean_over_sd = np.where(varies, a / root / math.sqrt(n), np.sign(a) * _NO_SPREAD)
        return mean_over_sd, np.where(varies, third / root**3 * math.sqrt(n), 0)

    @property
    def _observed(self) -> tuple[float, float]:
        mean_over_sd, skewness = self._moments(self.terms.sum(axis=0)[None])
        return float(mean_over_sd[0]), float(skewness[0])

    def sizes(self, sums: Floats) -> Floats:
        """Return the sizes of the statistic (F,), given sums (F, 4) of ``terms``."""
        size: Floats = np.abs(hall(*self._moments(sums), len(self.terms)))
        return size

    @property
    def observed(self) -> float:
        """The size of the statistic, with room for rounding."""
        size = abs(hall(*self._observed, len(self.terms)))
        return size - 1e-9 * max(size, 1)

    @property
    def p_of_t(self) -> float:
        """The two-sided p-value of Student's t."""
        return float(2 * special.stdtr(self.degrees, -abs(self._observed[0]) * math.sqrt(len(self.terms))))

    def interval(self, mean: float, sd: float, critical: float) -> tuple[float, float]:
        """Return the interval of the means for which the statistic has at most a critical size."""
        n, skewness = len(self.terms), self._observed[1]
        return mean - sd * hall_inverse(critical, skewness, n), mean - sd * hall_inverse(
            -critical, skewness, n
        )
