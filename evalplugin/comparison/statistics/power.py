"""Power of paired comparisons: the gain that a number of users shows, and the users that a gain needs."""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import special

POWER = 0.8  # by default a gain is found 4 times out of 5

_LEAST_POWER = 0.6  # scipy's inverse is wrong for a noncentrality close to 0
_NORMAL_FROM = 10**7  # users; from there on Student's and the normal quantiles agree to seven digits
_STEEP = 100.0  # critical values above it belong to a few users; scipy's inverse need not return for them
_LARGEST_RATIO = 1e150  # of spread and gain, whose square is a float


class Dependence(NamedTuple):
    """Pairs in clusters whose scores depend on each other."""

    size: float = 1.0  # mean number of pairs of a cluster, at least 1
    design_effect: float = 1.0  # variance of the mean difference over that of independent pairs, above 0


INDEPENDENT = Dependence()


def detectable_gain(
    sd: float,
    users: int,
    *,
    level: float = 0.95,
    power: float = POWER,
    one_sided: bool = False,
    dependence: Dependence = INDEPENDENT,
) -> float:
    """Return the smallest true mean difference that a paired t test finds with a probability of ``power``.

    That is d * sd / sqrt(users), where d is the noncentrality at which t with users - 1 degrees of freedom is beyond
    the critical value in that share of cases. It is a property of the test: it does not depend on what was measured.
    Where pairs are in clusters, such as the queries of sessions, t has one degree of freedom less than there are
    clusters, and the variance grows by the design effect.

    Args:
        sd: Standard deviation of users' differences, above 0.
        users: Number of pairs, at least 2 and of at least 2 clusters.
        level: Confidence of the test; for one of m comparisons (Bonferroni, the first step of Holm's correction)
            1 - (1 - level) / m.
        power: Probability that the difference is found, at least 0.6.
        one_sided: Whether only a gain is tested for, as by a gate, and not a loss too.
        dependence: Which pairs depend on each other.

    Raises:
        DataError: An argument outside its range.
    """
    _check(sd, level, power, one_sided=one_sided)
    _check_dependence(dependence)
    size, design_effect = dependence
    units = round(users / size)
    if units < 2:
        of = "" if size == 1 else f" in clusters of {size:g}: at least 2 clusters"
        raise DataError(f"a paired comparison needs at least 2 users, not {users}{of}")
    return _noncentrality(units, level, power, one_sided) * sd * math.sqrt(design_effect) / math.sqrt(users)


def users_of_units(needed: int, users: int, units: int) -> int:
    """Return how many users have so many independent units, as ``users`` have ``units``; rounded up."""
    return -(-needed * users // units)


def users_needed(
    sd: float,
    gain: float,
    *,
    level: float = 0.95,
    power: float = POWER,
    one_sided: bool = False,
    dependence: Dependence = INDEPENDENT,
) -> int:
    """Return the smallest number of users with whom ``gain`` is detectable; the inverse of ``detectable_gain``.

    Where users are in clusters, it is that of the smallest number of clusters.

    Args:
        sd, level, power, one_sided, dependence: As for ``detectable_gain``.
        gain: True mean difference, above 0.

    Raises:
        DataError: A gain that is not above 0, or is negligible beside the spread; otherwise as ``detectable_gain``.
    """
    _check(sd, level, power, one_sided=one_sided)
    if not (math.isfinite(gain) and gain > 0):
        raise DataError(f"the gain to be found must be above 0, not {gain:g}: no number of users shows that")
    _check_dependence(dependence)
    sd *= math.sqrt(dependence.design_effect / dependence.size)  # between cluster means
    if sd / gain > _LARGEST_RATIO:
        raise DataError(f"a gain of {gain:g} is too small beside a standard deviation of {sd:g}")
    normal = (_noncentrality(_NORMAL_FROM, level, power, one_sided) * sd / gain) ** 2
    if normal >= _NORMAL_FROM:
        return math.ceil(math.ceil(normal) * dependence.size)

    def is_enough(units: int) -> bool:
        return detectable_gain(sd, units, level=level, power=power, one_sided=one_sided) <= gain

    # Student's test needs a few users more than the normal limit, and each further user lowers the detectable gain.
    least, most, step = 1, max(2, math.ceil(normal)), 1
    while not is_enough(most):
        least, most, step = most, most + step, 2 * step
    return math.ceil(bisect_left(range(most), True, lo=least + 1, key=is_enough) * dependence.size)


@lru_cache(maxsize=2**14)  # many models are compared over the same users
def _noncentrality(users: int, level: float, power: float, one_sided: bool) -> float:
    """Return the mean of t at which it is beyond the critical value with probability ``power``."""
    quantile = level if one_sided else (1 + level) / 2
    if users >= _NORMAL_FROM:
        return float(special.ndtri(quantile) + special.ndtri(power))
    critical = float(special.stdtrit(users - 1, quantile))
    if critical > _STEEP:  # the spread's error alone decides whether such a value is exceeded
        return critical * math.sqrt(special.chdtri(users - 1, 1 - power) / (users - 1))
    return float(special.nctdtrinc(users - 1, 1 - power, critical))


def _check(sd: float, level: float, power: float, *, one_sided: bool) -> None:
    if not (math.isfinite(sd) and sd > 0):
        raise DataError(f"the standard deviation of differences must be above 0, not {sd:g}")
    if not 0 < level < 1 or (one_sided and level < 0.5):
        least = "at least 0.5" if one_sided else "above 0"
        raise DataError(f"the level must be {least} and below 1, not {level:g}")
    if not _LEAST_POWER <= power < 1:
        raise DataError(f"the power must be at least {_LEAST_POWER} and below 1, not {power:g}")


def _check_dependence(dependence: Dependence) -> None:
    size, design_effect = dependence
    if not (math.isfinite(size) and size >= 1):
        raise DataError(f"the mean size of clusters must be at least 1, not {size:g}")
    if not (math.isfinite(design_effect) and design_effect > 0):
        raise DataError(f"the design effect must be above 0, not {design_effect:g}")
