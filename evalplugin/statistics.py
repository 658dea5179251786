"""Intervals of a mean over users, and of the mean difference between two models on the same users."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from evalplugin.errors import DataError

__all__ = ["AUTO_BOOTSTRAP_BELOW", "Interval", "mean_interval", "paired_interval"]

# Per-user scores are skewed and full of zeros. The t interval's error in each tail falls with skewness /
# sqrt(n): at a skewness of 3 and this many users it is below 0.006, and the bootstrap's work would only grow.
AUTO_BOOTSTRAP_BELOW = 2000
_DRAWS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that covers the true one at a level; bounds are NaN below two values."""

    mean: float
    low: float
    high: float
    level: float
    method: Literal["bootstrap", "t"]
    n: int  # users (or pairs) it rests on

    def excludes(self, value: float = 0.0) -> bool:
        """Return whether ``value`` lies outside; never when the bounds are undefined."""
        return bool(value < self.low or value > self.high)


def mean_interval(
    values: npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    method: Literal["auto", "bootstrap", "t"] = "auto",
    n_resamples: int = 2000,
    rng: np.random.Generator,
) -> Interval:
    """Return the mean of the defined values (U,) and its interval over users.

    ``bootstrap``: resamples users; bias-corrected and accelerated (Efron 1987), so that the interval leans
    the way skewed scores do. ``t``: Student's interval, drawn from no random numbers. ``auto``: bootstrap
    below ``AUTO_BOOTSTRAP_BELOW`` users, t from there on, where both agree. ``Interval.method`` says which
    one it was.

    NaN values are left out. Without a value the mean is NaN; with fewer than two, so are the bounds. Equal
    values make an interval of no width. Memory is bounded by some megabytes, however many users.

    Raises:
        DataError: A level outside 0 to 1, an unknown method, fewer than 100 resamples.
    """
    if not 0 < level < 1:
        raise DataError(f"the level of an interval must be between 0 and 1, not {level}")
    if method not in ("auto", "bootstrap", "t"):
        raise DataError(f"the method of an interval must be auto, bootstrap or t, not {method!r}")
    if n_resamples < 100:
        raise DataError(f"a bootstrap needs at least 100 resamples, not {n_resamples}")
    defined = values[~np.isnan(values)]
    n = len(defined)
    used: Literal["bootstrap", "t"] = (
        method if method != "auto" else "bootstrap" if n < AUTO_BOOTSTRAP_BELOW else "t"
    )
    mean = float(defined.mean()) if n else float("nan")
    if n < 2:
        low = high = float("nan")
    elif (defined == defined[0]).all():
        low = high = mean = float(defined[0])
    elif used == "t":
        low, high = _t_bounds(defined, level)
    else:
        low, high = _bootstrap_bounds(defined, level, n_resamples, rng)
    return Interval(mean, low, high, level, used, n)


def paired_interval(
    a: npt.NDArray[np.float64],
    b: npt.NDArray[np.float64],
    *,
    level: float = 0.95,
    method: Literal["auto", "bootstrap", "t"] = "auto",
    n_resamples: int = 2000,
    rng: np.random.Generator,
) -> Interval:
    """Return the interval of the mean of ``a - b`` over the users whom both are defined for.

    ``a`` and ``b`` are float64 (U,), the same user at the same place. ``n`` of the result is the count of
    pairs.

    Raises:
        DataError: Arrays of different lengths; otherwise as ``mean_interval``.
    """
    if a.shape != b.shape:
        raise DataError(f"paired values must be of the same users: {len(a)} against {len(b)}")
    return mean_interval(a - b, level=level, method=method, n_resamples=n_resamples, rng=rng)


def _t_bounds(values: npt.NDArray[np.float64], level: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    n = len(values)
    half = float(stdtrit(n - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(n))
    mean = float(values.mean())
    return mean - half, mean + half


def _bootstrap_bounds(
    values: npt.NDArray[np.float64], level: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float]:
    means = _resampled_means(values, n_resamples, rng)
    normal = NormalDist()
    below = np.count_nonzero(means < values.mean()) + 0.5 * np.count_nonzero(means == values.mean())
    bias = normal.inv_cdf((below + 0.5) / (n_resamples + 1))
    deviation = values - values.mean()
    acceleration = (deviation**3).sum() / (6 * (deviation**2).sum() ** 1.5)
    bounds = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(tail)
        bounds.append(normal.cdf(bias + z / (1 - acceleration * z)))
    low, high = np.quantile(means, bounds)
    return float(low), float(high)


def _resampled_means(
    values: npt.NDArray[np.float64], n_resamples: int, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    n = len(values)
    rows = max(1, _DRAWS_AT_ONCE // n)
    return np.concatenate(
        [
            values[rng.integers(0, n, size=(min(rows, n_resamples - done), n), dtype=np.int32)].mean(axis=1)
            for done in range(0, n_resamples, rows)
        ]
    )
