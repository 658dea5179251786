"""Points in time: timestamps, ISO 8601 dates, and their text."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

_SINCE_1971 = 31_536_000  # smaller numbers are no seconds since 1970, but an order such as 1, 2, 3
NOT_SECONDS = 10**11  # as seconds it is the year 5138; milliseconds of today are above
_YEAR_1 = -62_135_596_800
DATETIME_UNITS = {1: "s", 10**3: "ms", 10**6: "us", 10**9: "ns"}  # of NumPy and Arrow, by ticks a second
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_of(time: int | str, name: str) -> int | Fraction:
    """Return a timestamp as it is, or an ISO 8601 date in seconds since 1970, exactly; ``name`` is for the error.

    A date without a time zone is UTC.

    Raises:
        ValueError: It is neither.
    """
    if isinstance(time, int):
        return time
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        raise ValueError(
            f"{name} must be a timestamp or an ISO 8601 date such as 2020-01-31, not {time!r}"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    digits = re.search(r"[.,]\d{6}(\d+)", time)  # which Python reads over
    beyond = Fraction(int(digits[1]), 10 ** (6 + len(digits[1]))) if digits else 0
    return Fraction((moment - _1970) // timedelta(microseconds=1), 10**6) + beyond


def moment_text(time: int, ticks_per_second: int = 1) -> str:
    """Return a time in ticks as a date and time (UTC) to the tick; as a number if it cannot be seconds since 1970."""
    seconds, ticks = divmod(time, ticks_per_second)
    if not _YEAR_1 <= seconds < NOT_SECONDS:
        return number_text(time, ticks_per_second)
    text = datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")
    digits = len(str(ticks_per_second)) - 1
    return f"{text}.{ticks:0{digits}}Z" if ticks else f"{text}Z"


def number_text(time: int, ticks_per_second: int) -> str:
    """Return a time or a length of time in ticks as a number of seconds, exactly."""
    return f"{Decimal(time) / ticks_per_second:f}"


def time_text(timestamp: float) -> str:
    """Return a timestamp as a date (UTC) if it can be seconds since 1970, else as a number."""
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d}" if is_date(timestamp) else f"{timestamp:,}"


def is_date(timestamp: float) -> bool:
    """Return whether a timestamp can be seconds since 1970; milliseconds of today cannot."""
    return _SINCE_1971 <= timestamp < NOT_SECONDS
