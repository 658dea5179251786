"""Exact sums of values and of their squares, and the means and standard deviations that follow.

A sum is a whole number of the smallest float64, so that it depends neither on the order of the values nor on how they
were divided: over blocks, processes or machines. Means and deviations are rounded once, correctly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from evalplugin.base.arrays import Floats

ROUNDING = 1e-12  # sums of the same numbers in another order are equal up to this share

_UNIT = 1074  # all float64 are multiples of 2 ** -1074, their squares of its square
_BLOCK, _BITS = 2**15, 16  # values that stay in the processor's cache; 2 + _BLOCK <= 2 ** _BITS
_HUGE = 2.0**900  # below it, no sum of a block overflows
# Between them, squares and their rounding errors are normal numbers.
_SQUARE_FROM, _SQUARE_TO = 2.0**-480, 2.0**480
_SPLITTER = 2.0**27 + 1  # Veltkamp's, of 53 binary digits into two halves
_DIGITS = 66  # of a square root before it is rounded to 53


@dataclass(frozen=True)
class ExactSum:
    """The exact sum of the defined values of any number of parts."""

    n: int = 0  # number of values
    units: int = 0  # the sum of the finite ones, in units of 2 ** -1074
    infinite: float = 0.0  # sum of the infinite values

    @classmethod
    def of(cls, values: Floats) -> ExactSum:
        """Return the sum of values (n,), without NaN."""
        total = cls()
        for block in _blocks(values):
            total += block.sum
        return total

    def __add__(self, other: ExactSum) -> ExactSum:
        return ExactSum(self.n + other.n, self.units + other.units, self.infinite + other.infinite)

    @property
    def mean(self) -> float:
        """The mean, rounded correctly; NaN without a value."""
        # True division of integers rounds correctly.
        return self.units / (self.n << _UNIT) + self.infinite if self.n else math.nan


@dataclass(frozen=True)
class Moments:
    """Exact sums of the defined values of any number of parts and of their squares, and the range of the values."""

    sum: ExactSum = field(default_factory=ExactSum)
    squares: int = 0  # of the finite ones, in units of 2 ** -2148
    lowest: float = math.inf
    highest: float = -math.inf

    @classmethod
    def of(cls, values: Floats) -> Moments:
        """Return the moments of values (n,), without NaN."""
        moments = cls()
        for block in _blocks(values):
            moments += cls(block.sum, _square_units(block.finite), block.lowest, block.highest)
        return moments

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.sum + other.sum,
            self.squares + other.squares,
            min(self.lowest, other.lowest),
            max(self.highest, other.highest),
        )

    @property
    def n(self) -> int:
        """The number of values."""
        return self.sum.n

    @property
    def mean(self) -> float:
        """The mean, rounded correctly; NaN without a value."""
        return self.sum.mean

    @property
    def is_binary(self) -> bool:
        """Whether all values are 0 or 1."""
        return self.lowest >= 0 and self.highest <= 1 and self.sum.units << _UNIT == self.squares

    @property
    def std(self) -> float:
        """The sample's standard deviation, rounded correctly; NaN below two values or with an infinite one."""
        if self.n < 2 or self.sum.infinite:
            return math.nan
        spread = self.n * self.squares - self.sum.units**2
        return _root(spread, self.n * (self.n - 1) << 2 * _UNIT)

    @property
    def sum_over_norm(self) -> float:
        """The sum over the root of the sum of squares, rounded correctly; NaN without a value other than 0."""
        if not self.squares or self.sum.infinite:
            return math.nan
        size = _root(self.sum.units**2, self.squares)
        return -size if self.sum.units < 0 else size


def mean_of_defined(values: Floats) -> float:
    """Return the mean of the values that are not NaN, rounded correctly; NaN if there are none."""
    return ExactSum.of(values).mean


class _Block(NamedTuple):
    """The defined values of some users."""

    finite: Floats
    sum: ExactSum  # of all, infinite ones included
    lowest: float
    highest: float


def _blocks(values: Floats) -> Iterator[_Block]:
    """Yield the values that are not NaN, some at a time."""
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        lowest, highest, infinite = float(block.min()), float(block.max()), 0.0
        finite = block
        if not (math.isfinite(lowest) and math.isfinite(highest)):  # NaN is the lowest and the highest
            block = block[~np.isnan(block)]
            if not len(block):
                continue
            lowest, highest = float(block.min()), float(block.max())
            finite = block[np.isfinite(block)]
            with np.errstate(invalid="ignore"):  # of opposite infinities
                infinite = float(block[np.isinf(block)].sum())
        size = max(highest, -lowest) if len(finite) == len(block) else _largest(finite)
        yield _Block(finite, ExactSum(len(block), _units(finite, size), infinite), lowest, highest)


def _units(block: Floats, highest: float) -> int:
    """Return the exact sum of up to ``_BLOCK`` finite values of a ``highest`` size, in units of 2 ** -1074.

    Leading digits of all values are summed, then those that follow, until none are left (Rump, Ogita and Oishi 2008,
    "Accurate floating-point summation"): adding and subtracting a power of two cuts values into multiples of one
    number, few enough for float64 to hold every sum of them.
    """
    if highest >= _HUGE:
        return sum(map(_in_units, block.tolist()))
    total = 0
    while highest:
        cut = math.ldexp(1.0, math.frexp(highest)[1] + _BITS)
        leading = block + cut
        leading -= cut
        total += _in_units(float(leading.sum()))
        block = np.subtract(block, leading, out=leading)
        highest = _largest(block)
    return total


def _square_units(block: Floats) -> int:
    """Return the exact sum of the squares of up to ``_BLOCK`` finite values, in units of 2 ** -2148."""
    size = np.abs(block)
    if ((size > 0) & ((size < _SQUARE_FROM) | (size >= _SQUARE_TO))).any():
        return sum(_in_units(value) ** 2 for value in block.tolist())
    return sum(_units(part, _largest(part)) for part in _squares(block)) << _UNIT


def _squares(block: Floats) -> tuple[Floats, Floats]:
    """Return squares that are normal numbers, and the rounding error of each."""
    square = block * block
    scaled = _SPLITTER * block
    high = scaled - (scaled - block)
    low = block - high
    return square, ((high * high - square) + 2 * (high * low)) + low * low  # Dekker's: without rounding


def _in_units(value: float) -> int:
    """Return a value in units of 2 ** -1074."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_UNIT + 1 - denominator.bit_length())


def _largest(block: Floats) -> float:
    return max(float(block.max()), -float(block.min())) if len(block) else 0.0


def _root(numerator: int, denominator: int) -> float:
    """Return the square root of a fraction, rounded correctly."""
    shift = max(0, _DIGITS - (numerator.bit_length() - denominator.bit_length()) // 2)
    scaled, rest = divmod(numerator << 2 * shift, denominator)
    root = math.isqrt(scaled)
    inexact = rest > 0 or root * root != scaled
    return (root << 1 | inexact) / (1 << shift + 1)  # the last digit tells a tie from its neighbours
