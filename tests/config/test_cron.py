"""Cron expressions have the meaning that cron gives them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from evalplugin.base.errors import DataError
from evalplugin.config.cron import check_cron, check_timezone, next_time

START = datetime(2026, 11, 20, 12, tzinfo=UTC)  # a Friday


def times(expression: str, timezone: str, start: datetime, number: int) -> list[datetime]:
    moments = [start]
    for _ in range(number):
        moments.append(next_time(expression, timezone, moments[-1]))
    return moments[1:]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 3 * * *", ["2026-11-21 03:00", "2026-11-22 03:00"]),
        ("*/20 12 * * *", ["2026-11-20 12:20", "2026-11-20 12:40", "2026-11-21 12:00"]),
        ("0 3 * * 1-5", ["2026-11-23 03:00", "2026-11-24 03:00"]),  # 1 is Monday
        ("0 3 * * 0", ["2026-11-22 03:00"]),
        ("0 3 * * 7", ["2026-11-22 03:00"]),
        ("0 3 * * sun", ["2026-11-22 03:00"]),
        ("0 3 22 * 1", ["2026-11-22 03:00", "2026-11-23 03:00"]),  # a day that fits either field
        ("0 3 1 JAN *", ["2027-01-01 03:00"]),
        ("0 3 20-31/2 * MON", ["2026-11-22 03:00", "2026-11-23 03:00", "2026-11-24 03:00"]),
        ("0 3 */2 * *", ["2026-11-21 03:00", "2026-11-23 03:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00"]),
    ],
)
def test_cron_times_match_expression(expression: str, expected: list[str]) -> None:
    check_cron(expression)
    assert [f"{t:%Y-%m-%d %H:%M}" for t in times(expression, "UTC", START, len(expected))] == expected


def test_cron_times_follow_daylight_saving() -> None:
    spring = datetime(2026, 3, 27, 12, tzinfo=UTC)
    assert [t.isoformat() for t in times("30 2 * * *", "Europe/Berlin", spring, 3)] == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",  # 02:30 is left out that day
        "2026-03-30T02:30:00+02:00",
    ]
    autumn = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert [t.isoformat() for t in times("30 2 * * *", "Europe/Berlin", autumn, 2)] == [
        "2026-10-25T02:30:00+02:00",  # it comes twice that day
        "2026-10-26T02:30:00+01:00",
    ]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("0 25 * * *", "the hour is '25'; allowed: 0-23, *, and lists"),
        ("0 3 * *", "it has 4 fields, not five: minute 0-59"),
        ("@daily", "it has 1 fields, not five"),
        ("0 0 3 * * *", "it has 6 fields, not five"),
        ("0 3 X * *", "the day of month is 'X'"),
        ("0 3 * * 1#9", "the day of week is '1#9'"),
        ("0 3 * * FRI-MON", "the day of week is 'FRI-MON'; allowed: 0-7 or SUN-SAT"),
        ("*/0 * * * *", "the minute is '*/0'"),
        ("70/5 * * * *", "the minute is '70/5'; allowed: 0-59"),
        ("0 0 31 2 *", "is not a valid cron expression: it never comes due, as no such month has the day 31"),
    ],
)
def test_invalid_cron_expression_is_refused(expression: str, why: str) -> None:
    with pytest.raises(DataError) as caught:
        check_cron(expression)
    assert str(caught.value).startswith(f"{expression!r} is not a valid cron expression")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("zone", "hint"),
    [("Europe/Berlim", "did you mean 'Europe/Berlin'?"), ("Mars", "such as UTC or Europe/Berlin")],
)
def test_unknown_time_zone_is_refused(zone: str, hint: str) -> None:
    with pytest.raises(DataError, match=f"there is no time zone '{zone}'; {hint.replace('?', '.')}"):
        check_timezone(zone)
