"""Cron expressions in a time zone, as cronsim reads them: as Debian's cron does, with L and # besides."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.base.libraries import cronsim

_FIELDS = {
    "minute": "0-59",
    "hour": "0-23",
    "day of month": "1-31",
    "month": "1-12 or JAN-DEC",
    "day of week": "0-7 or SUN-SAT",
}


def check_cron(expression: str) -> None:
    """Check a cron expression.

    Raises:
        DataError: It is not one, or means times that never come.
    """
    given = expression.upper().split()
    refuse = f"{expression!r} is not a valid cron expression"
    if len(given) != len(_FIELDS):
        fields = ", ".join(f"{name} {values}" for name, values in _FIELDS.items())
        raise DataError(f"{refuse}: it has {len(given)} fields, not five: {fields}")
    try:
        due = next(cronsim.CronSim(expression, datetime(2024, 1, 1)), None)
    except cronsim.CronSimError as error:
        wrong = str(error).removeprefix("Bad ").replace("-", " ")
        part = dict(zip(_FIELDS, given, strict=True))[wrong]
        if not (wrong == "day of month" and part in ("30", "31")):  # a day that the month lacks
            raise DataError(
                f"{refuse}: the {wrong} is {part!r}; allowed: {_FIELDS[wrong]}, *, and lists, ranges and steps of "
                f"them, such as 1,15 or 1-5 or */2"
            ) from None
        due = None
    if due is None:
        raise DataError(f"{refuse}: it never comes due, as no such month has the day {given[2]}")


def check_timezone(timezone: str) -> None:
    """Check the name of a time zone.

    Raises:
        DataError: No time zone has this name.
    """
    known = available_timezones()
    if timezone not in known:
        near = did_you_mean(timezone, sorted(known), noun=None)
        raise DataError(f"there is no time zone {timezone!r}{near or '; such as UTC or Europe/Berlin'}")


def next_time(expression: str, timezone: str, after: datetime) -> datetime:
    """Return the first time of a checked expression after another, in the time zone.

    A time in the hour that summer time skips is due at its end; a time in the hour that comes twice is due once, as
    with Debian's cron.
    """
    return next(cronsim.CronSim(expression, after.astimezone(ZoneInfo(timezone))))
