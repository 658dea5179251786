"""Cron expressions in a time zone, as cronsim reads them: as Debian's cron does, with L and # besides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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
# Listed among the time zones, but not the zone of any location.
_NO_LOCATIONS = {"Factory", "localtime"}


@dataclass(frozen=True)
class Cron:
    """A checked cron expression in a time zone. Make it with ``of``."""

    expression: str
    timezone: str

    @classmethod
    def of(cls, expression: str, timezone: str = "UTC") -> Cron:
        """Return a checked expression.

        Raises:
            DataError: It is not a cron expression, its times never come, or the time zone is unknown.
        """
        cls.check_expression(expression)
        cls.check_timezone(timezone)
        return cls(" ".join(expression.split()), timezone)

    @staticmethod
    def check_expression(expression: str) -> None:
        """Check a cron expression.

        Raises:
            DataError: It is not one, or means times that never come.
        """
        given = expression.upper().split()
        refuse = f"{expression!r} is not a valid cron expression"
        if len(given) != len(_FIELDS):
            fields = ", ".join(f"{name} {values}" for name, values in _FIELDS.items())
            raise DataError(f"{refuse}: it has {len(given)} fields, not five: {fields}")
        parts = dict(zip(_FIELDS, given, strict=True))
        wrong = due = None
        try:
            due = next(cronsim.CronSim(expression, datetime(2024, 1, 1)), None)
        except cronsim.CronSimError as error:
            wrong = str(error).removeprefix("Bad ").replace("-", " ")
            if wrong == "day of month" and parts[wrong].isdigit() and 1 <= int(parts[wrong]) <= 31:
                wrong = None  # such as 30 February, which never comes
        if wrong:
            raise DataError(
                f"{refuse}: the {wrong} is {parts[wrong]!r}; allowed: {_FIELDS[wrong]}, *, and lists, ranges and steps "
                f"of them, such as 1,15 or 1-5 or */2"
            )
        if due is None:
            raise DataError(
                f"{refuse}: it never comes due, as no such month has the day {parts['day of month']}"
            )

    @staticmethod
    def check_timezone(timezone: str) -> None:
        """Check the name of a time zone.

        Raises:
            DataError: No time zone has this name.
        """
        known = available_timezones() - _NO_LOCATIONS
        if timezone not in known:
            near = did_you_mean(timezone, sorted(known), noun=None)
            raise DataError(f"there is no time zone {timezone!r}{near or '; such as UTC or Europe/Berlin'}")

    def times(self, after: datetime) -> Iterator[datetime]:
        """Yield the times after one, in the time zone.

        A time in the hour that summer time skips is due at its end; a time in the hour that comes twice is due once, as
        with Debian's cron.
        """
        return cronsim.CronSim(self.expression, after.astimezone(ZoneInfo(self.timezone)))

    def next(self, after: datetime) -> datetime:
        """Return the first time after another, in the time zone."""
        return next(self.times(after))
