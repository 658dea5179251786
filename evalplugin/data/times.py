"""Points in time: timestamps, ISO 8601 dates, and their text."""

from __future__ import annotations

from datetime import UTC, datetime

_SINCE_1971 = 31_536_000  # smaller numbers are no seconds since 1970, but an order such as 1, 2, 3
NOT_SECONDS = 10**11  # as seconds it is the year 5138; milliseconds of today are above


def timestamp_of(time: int | str, name: str) -> int:
    """Return a timestamp as it is, or an ISO 8601 date in seconds since 1970; ``name`` is for the error.

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
    return int(moment.timestamp() // 1)


def time_text(timestamp: int) -> str:
    """Return a timestamp as a date (UTC) if it can be seconds since 1970, else as a number."""
    return f"{datetime.fromtimestamp(timestamp, UTC):%Y-%m-%d}" if is_date(timestamp) else f"{timestamp:,}"


def is_date(timestamp: int) -> bool:
    """Return whether a timestamp can be seconds since 1970; milliseconds of today cannot."""
    return _SINCE_1971 <= timestamp < NOT_SECONDS
