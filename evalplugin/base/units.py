"""Sizes, times and counts in text: ``4GB``, ``30d``, ``1 model``."""

from __future__ import annotations

import re

from evalplugin.base.errors import DataError
from evalplugin.base.text import shorten

_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", re.ASCII)
_BYTES = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_LONGEST = 1e12  # seconds, 30,000 years: more than any clock can show
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}


def bytes_of(size: str | int, name: str = "memory") -> int:
    """Return a size such as ``2GB`` or ``500 MB`` in bytes (units of 1024); ``name`` is for the error.

    Raises:
        DataError: It is not a size.
    """
    match = _AMOUNT.fullmatch(str(size))
    number = 0.0
    if match is not None:
        number = float(match[1]) * _BYTES.get(match[2].upper().replace("IB", "B"), 0)
    if not 1 <= number < 2**63:
        raise DataError(f"{name} must be a size such as 2GB or 500MB, not {shorten(repr(size), 100)}")
    return int(number)


def seconds_of(time: str, name: str) -> float:
    """Return a time such as ``30d``, ``12h`` or ``90s`` in seconds; ``name`` is for the error.

    Raises:
        DataError: It is not a time.
    """
    match = _AMOUNT.fullmatch(time)
    if match is None or match[2].lower() not in _SECONDS:
        raise DataError(f"{name} must be a time such as 30d, 12h, 15m or 90s, not {time!r}")
    return min(float(match[1]) * _SECONDS[match[2].lower()], _LONGEST)


def duration_text(seconds: float) -> str:
    """Return a time as ``seconds_of`` reads it, in the largest unit that it has one of: ``7d``, ``1.5h``."""
    unit = next((unit for unit in "dhm" if seconds >= _SECONDS[unit]), "s")
    return f"{round(seconds / _SECONDS[unit], 1):g}{unit}"


def spoken_time(seconds: float) -> str:
    """Return a duration as people say it: ``0.1 s``, ``3.1 s``, ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 0.95:
        return f"{round(seconds, 3):.1g} s"
    if seconds < 100:
        return f"{round(seconds, 1 if seconds < 9.95 else 0):g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def plural(noun: str) -> str:
    """Return the plural of a regular noun, such as ``users`` or ``queries``."""
    return f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"


def noun_of(column: str) -> str:
    """Return the noun that a column of ids names: ``question`` for ``question_id``."""
    words = re.sub(r"([a-z])(?=[A-Z])", r"\1 ", column)
    words = re.sub(
        r"[\s_-]*\b(id|ids)$|[\s_-]+(id|ids)$", "", re.sub(r"[_\s]+", " ", words), flags=re.I
    ).strip()
    return words.casefold() or column


def count_text(n: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 model`` or ``3 models``."""
    return f"{n:,} {noun if n == 1 else plural(noun)}"


def size_text(size: float) -> str:
    """Return a number of bytes in words, such as ``1.5 GB``."""
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GB"
