"""One-sided bounds and tests of means, corrected for skewness."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import special
from evalplugin.comparison.statistics.clusters import independent_units
from evalplugin.comparison.statistics.intervals import Column
from evalplugin.comparison.statistics.paired import LEAST_P
from evalplugin.comparison.statistics.pairs import standard_deviation
from evalplugin.comparison.statistics.skewness import Statistic, hall, hall_inverse, skewness_of
from evalplugin.metrics.moments import mean_of_defined


def lower_bound(
    values: Column, *, level: float = 0.95, clusters: npt.NDArray[np.integer] | None = None
) -> float:
    """Return the one-sided lower bound of the true mean, given users' values (U,) without NaN.

    It is Student's bound, or Hall's where that is lower. Student's is too high where few values are far below the
    rest, as when a model loses much on few users: with 500 users and a skewness of -5 the true mean is below a 95 %
    bound in 8 of 100 cases, not 5. Hall's bound corrects for the skewness of the sample; on values that are not
    skewed the correction is noise, so it may only lower the bound (experiments/gate has the rates).

    NaN below two values or with an infinite one; the mean itself where all values are equal.
    Source: Hall 1992, "On the removal of skewness by transformation".

    Args:
        values: float64 (U,).
        level: Share of bounds that are below the true mean.
        clusters: Codes (U,), equal for values that may depend on each other; None: all are independent.

    Raises:
        DataError: A level that is not at least 0.5 and below 1, or clusters of other values.
    """
    if not 0.5 <= level < 1:
        raise DataError(f"the level of a one-sided bound must be at least 0.5 and below 1, not {level}")
    units, degrees = independent_units(values, clusters)
    if not _is_testable(units):
        return float("nan")
    mean, sd, skewness = _moments(units)
    if not sd:
        return mean

    n = len(units)
    student = float(special.stdtrit(degrees, level)) / np.sqrt(n)
    return float(mean - sd * max(student, hall_inverse(student, skewness, n)))


def p_above(values: Column, limit: float = 0.0, *, clusters: npt.NDArray[np.integer] | None = None) -> float:
    """Return the one-sided p-value of a true mean above ``limit``, given users' values (U,) without NaN.

    It is below ``1 - level`` exactly where ``lower_bound`` at that level is above the limit. NaN as there.
    """
    units, degrees = independent_units(values, clusters)
    if not _is_testable(units):
        return float("nan")
    mean, sd, skewness = _moments(units)
    if not sd:
        return LEAST_P if mean > limit else 1.0

    statistic = weakest((mean - limit) / sd, skewness, len(units))
    return float(np.maximum(special.stdtr(degrees, -statistic), LEAST_P))


def weakest(standardised: Statistic, skewness: Statistic, n: int) -> Statistic:
    """Return the t statistics of means above 0, or Hall's where they are lower.

    Args:
        standardised: Means over standard deviations, of any shape.
        skewness: Of the values of each, the same shape.
        n: Number of values.
    """
    statistic: Statistic = np.sqrt(n) * np.minimum(standardised, hall(standardised, skewness, n))
    return statistic


def _is_testable(values: Column) -> bool:
    """Return whether there are at least two values, all of them finite."""
    return len(values) > 1 and bool(np.isfinite(values).all())


def _moments(values: Column) -> tuple[float, float, float]:
    """Return mean, standard deviation (0 where values differ by rounding alone) and skewness."""
    mean, sd = mean_of_defined(values), standard_deviation(values)
    if not sd:
        return mean, 0.0, 0.0
    deviations = (values - mean) / np.abs(values).max()  # powers then neither overflow nor vanish
    return mean, sd, skewness_of(deviations)
