"""Cron expressions in a time zone: five fields with one meaning, also in cron, systemd, Kubernetes and GitHub."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
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
# L, W, # and ? are understood by some programs only.
_SIGNS = r"(?:[0-9*]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT|[,/-])+"
# Listed among the time zones, but not the zone of any location.
_NO_LOCATIONS = {"Factory", "localtime"}
_WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")


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
        wrong = next((name for name, part in parts.items() if not re.fullmatch(_SIGNS, part)), None)
        due = None
        try:
            due = None if wrong else next(cronsim.CronSim(expression, datetime(2024, 1, 1)), None)
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
        _check_same_everywhere(refuse, parts)

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

    @property
    def portable(self) -> str:
        """The expression with Sunday as 0 throughout: not every program takes 7."""
        *others, weekday = self.expression.split()
        if "7" in weekday:
            weekday = ",".join(map(str, sorted({day % 7 for day in self._sets.weekdays})))  # type: ignore[operator]
        return " ".join([*others, weekday])

    @property
    def calendar(self) -> list[str]:
        """The times as systemd writes them, one or two ``OnCalendar`` values."""
        sets = self._sets
        time = f"{_list(sets.hours, 24)}:{_list(sets.minutes, 60)}:00 {self.timezone}"
        month = _list(sets.months, 12)
        days = _list(sets.days, 31)
        weekdays = sorted({day % 7 for day in sets.weekdays})  # type: ignore[operator]
        week = "" if len(weekdays) == 7 else ",".join(_WEEKDAYS[day] for day in weekdays) + " "
        if sets.day_and:
            return [f"{week}*-{month}-{days} {time}"]
        # Both fields restrict the days: cron takes a day that fits either.
        if not week or days == "*":
            return [f"*-{month}-* {time}"]
        return [f"*-{month}-{days} {time}", f"{week}*-{month}-* {time}"]

    @property
    def quartz(self) -> str:
        """The expression as Quartz writes it, for Databricks: with seconds, and Sunday as 1.

        Raises:
            DataError: The days fit either of two fields, which Quartz cannot express.
        """
        sets = self._sets
        weekdays = sorted({day % 7 + 1 for day in sets.weekdays})  # type: ignore[operator]
        if not sets.day_and and len(weekdays) < 7 and len(sets.days) < 31:
            raise DataError(
                f"{self.expression!r}: Databricks takes no schedule with both a day of month and a day of week: write "
                f"two configs"
            )
        minutes, hours, _, months, _ = self.expression.split()
        months = months if months == "*" else ",".join(map(str, sorted(sets.months)))
        days = "*" if len(sets.days) == 31 else ",".join(map(str, sorted(sets.days)))
        if len(weekdays) == 7:
            return f"0 {minutes} {hours} {days} {months} ?"
        if not sets.day_and:  # every day of month is one that fits
            return f"0 {minutes} {hours} * {months} ?"
        return f"0 {minutes} {hours} ? {months} {','.join(map(str, weekdays))}"

    @cached_property
    def _sets(self) -> cronsim.CronSim:
        return cronsim.CronSim(self.expression, datetime(2024, 1, 1))


def _check_same_everywhere(refuse: str, parts: Mapping[str, str]) -> None:
    """Refuse expressions that other programs do not understand, or read as other times."""
    for name, part in parts.items():
        if (bare := re.search(r"(?:^|,)(\w+)/(\d+)", part)) is not None:
            start, step = bare.groups()
            numbers, _, names = _FIELDS[name].partition(" or ")
            last = (numbers if start.isdigit() else names).rpartition("-")[2]
            raise DataError(
                f"{refuse}: the {name} is {part!r}; a step goes with * or a range, such as {start}-{last}/{step}"
            )
    day, weekday = parts["day of month"], parts["day of week"]
    if "*" in day + weekday and "*" not in (day, weekday):
        either = f"{day.replace('*', '1-31')} and {weekday.replace('*', '0-6')}"
        raise DataError(
            f"{refuse} everywhere: some programs take the days that fit both the day of month {day!r} and the day of "
            f"week {weekday!r}, others the days that fit either; leave one of them at *, or, for either, write them "
            f"as {either}"
        )


def _list(values: set[int], whole: int) -> str:
    return "*" if len(values) == whole else ",".join(f"{value:02d}" for value in sorted(values))
