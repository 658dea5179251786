"""Numbers as text."""

from __future__ import annotations

import math

import pytest

from evalplugin.base.numbers import (
    memory,
    number,
    p_equals,
    relative,
    rounded,
    share,
    signed,
    span,
)
from evalplugin.base.units import spoken_time


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0 %"), (1.0, "100 %"), (0.001, "< 1 %"), (0.999, "> 99 %"), (0.414, "41 %"), (float("nan"), "–")],
)
def test_a_share_is_never_rounded_to_none_or_all(value: float, shown: str) -> None:
    assert share(value) == shown


def test_what_is_undefined_is_a_dash() -> None:
    assert number(float("nan")) == "–"
    assert span(float("nan"), 0.5) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"), (0.00004, "0 s"), (0.013, "0.01 s"), (0.13, "0.1 s"), (0.97, "1 s"), (3.14, "3.1 s"),
        (9.97, "10 s"), (13.97, "14 s"), (99.0, "99 s"), (520.8, "9 min"), (9000.0, "2.5 h"),
    ],
)  # fmt: skip
def test_times_are_as_people_say_them(seconds: float, text: str) -> None:
    assert spoken_time(seconds) == text


@pytest.mark.parametrize(
    ("mb", "text"), [(None, "–"), (float("nan"), "–"), (0.5, "0.5 MB"), (12.4, "12 MB"), (1536.0, "1.5 GB")]
)
def test_sizes_are_short(mb: float | None, text: str) -> None:
    assert memory(mb) == text


def test_numbers_keep_six_digits_and_no_undefined_ones() -> None:
    assert rounded(1 / 3) == 0.333333
    assert rounded(math.nan) is None
    assert rounded(math.inf) is None


def test_negative_numbers_have_a_minus_sign_and_zero_has_none() -> None:
    assert (number(-0.5), signed(-0.5), signed(0.5)) == ("−0.5000", "−0.5000", "+0.5000")
    assert (number(-0.00001), signed(-0.00001)) == ("0.0000", "+0.0000")
    assert (relative(-0.041), relative(0.41), relative(math.nan)) == ("−4.1 %", "+41 %", "")


def test_intervals_with_signs_are_spelled_out() -> None:
    assert (span(0.1, 0.2), span(-0.1, 0.2)) == ("0.1000–0.2000", "−0.1000 to 0.2000")
    assert span(0.1, 0.2, sign=True) == "+0.1000 to +0.2000"


def test_small_p_values_are_bounded() -> None:
    assert (p_equals(0.00009), p_equals(0.012), p_equals(math.nan)) == ("p < 0.0001", "p = 0.0120", "p = –")
