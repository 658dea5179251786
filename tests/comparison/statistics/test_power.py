from __future__ import annotations

from math import inf, nan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from evalplugin.base.errors import DataError
from evalplugin.comparison.statistics.one_sided import lower_bound
from evalplugin.comparison.statistics.power import detectable_gain, users_needed


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("users", [5, 50, 1000])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_the_detectable_gain_is_that_of_statsmodels(users: int, level: float, one_sided: bool) -> None:
    alternative = "larger" if one_sided else "two-sided"
    effect = TTestPower().solve_power(nobs=users, alpha=1 - level, power=0.8, alternative=alternative)
    found = detectable_gain(0.3, users, level=level, one_sided=one_sided)
    assert found == pytest.approx(0.3 * effect, rel=1e-4)


def test_users_needed_by_hand() -> None:
    # (1.96 + 0.84)^2 * (0.2 / 0.01)^2 = 3139.5 by the normal limit; Student's test needs two more.
    assert users_needed(0.2, 0.01) == 3142
    assert users_needed(0.2, 0.01, one_sided=True) == 2475  # (1.645 + 0.842)^2 * 400 = 2473.0
    assert (
        users_needed(0.2, 0.01, level=1 - 0.05 / 90, one_sided=True) == 6738
    )  # (3.26 + 0.84)^2 * 400 = 6731.8


@settings(max_examples=60)
@given(
    sd=st.floats(1e-3, 10),
    users=st.one_of(st.integers(2, 200), st.integers(200, 10**9)),
    level=st.sampled_from([0.8, 0.95, 0.99, 1 - 0.05 / 365]),
    one_sided=st.booleans(),
)
def test_one_is_the_inverse_of_the_other(sd: float, users: int, level: float, one_sided: bool) -> None:
    gain = detectable_gain(sd, users, level=level, one_sided=one_sided)
    found = users_needed(sd, gain, level=level, one_sided=one_sided)
    assert found == pytest.approx(users, rel=1e-6)
    if users < 100_000:
        assert found == users


@given(users=st.integers(2, 10**8), level=st.floats(0.5, 1 - 1e-9), power=st.floats(0.6, 0.99))
@settings(max_examples=60)
def test_more_users_find_smaller_gains(users: int, level: float, power: float) -> None:
    few = detectable_gain(1.0, users, level=level, power=power, one_sided=True)
    many = detectable_gain(1.0, 2 * users, level=level, power=power, one_sided=True)
    assert 0 < many < few


def test_a_detectable_gain_is_found_as_often_as_the_power_says() -> None:
    rng, users, level = np.random.default_rng(0), 40, 0.99
    gain = detectable_gain(1.0, users, level=level, power=0.9, one_sided=True)
    samples = rng.normal(gain, 1, (4000, users))
    t = samples.mean(axis=1) / samples.std(axis=1, ddof=1) * sqrt(users)
    found = np.mean(t > stats.t.ppf(level, users - 1))
    assert found == pytest.approx(0.9, abs=4 * sqrt(0.9 * 0.1 / 4000))


def test_the_gain_of_a_gate_is_found_as_often_as_the_power_says() -> None:
    rng, users = np.random.default_rng(1), 800
    gain = detectable_gain(sqrt(1 / 12), users, one_sided=True)
    found = np.mean([lower_bound(rng.random(users) - 0.5 + gain) > 0 for _ in range(1000)])
    assert found == pytest.approx(0.8, abs=4 * sqrt(0.8 * 0.2 / 1000))


def test_a_strict_level_with_two_users_has_a_value() -> None:
    # Student's critical value is then in the hundred thousands; its limit by the spread's error alone.
    assert detectable_gain(1.0, 2, level=1 - 1e-6, one_sided=True) == pytest.approx(
        318309.9 * 1.28155 / sqrt(2), 1e-4
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sd": 0.0}, "the standard deviation of differences must be above 0, not 0"),
        ({"sd": nan}, "the standard deviation of differences must be above 0, not nan"),
        ({"sd": inf}, "the standard deviation of differences must be above 0, not inf"),
        ({"gain": 0.0}, "the gain to be found must be above 0, not 0: no number of users shows that"),
        ({"gain": -0.01}, "the gain to be found must be above 0, not -0.01: no number of users shows that"),
        ({"gain": nan}, "the gain to be found must be above 0, not nan: no number of users shows that"),
        ({"gain": 1e-200}, "a gain of 1e-200 is too small beside a standard deviation of 1"),
        ({"level": 1.0}, "the level must be above 0 and below 1, not 1"),
        ({"level": 0.4, "one_sided": True}, "the level must be at least 0.5 and below 1, not 0.4"),
        ({"power": 0.3}, "the power must be at least 0.6 and below 1, not 0.3"),
    ],
)
def test_what_cannot_be_computed_is_an_error(given: dict[str, float], message: str) -> None:
    with pytest.raises(DataError) as error:
        users_needed(**({"sd": 1.0, "gain": 0.1} | given))
    assert str(error.value) == message


def test_one_user_is_no_comparison() -> None:
    with pytest.raises(DataError, match="at least 2 users, not 1"):
        detectable_gain(0.2, 1)
