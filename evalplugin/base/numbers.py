"""Numbers as text: means, differences, intervals, shares and p-values, the same in every output."""

from __future__ import annotations

import math
from collections.abc import Sequence

UNDEFINED = "–"


def number(value: float, digits: int = 4) -> str:
    """Return a number with that many decimals and a true minus sign, or a dash where it is undefined."""
    return _text(value, f"z.{digits}f")  # z: no minus before a zero


def signed(value: float, digits: int = 4) -> str:
    """Return a difference with its sign, or a dash where it is undefined."""
    return _text(value, f"+z.{digits}f")


def relative(value: float) -> str:
    """Return a relative difference as signed percent, or nothing where it is undefined."""
    return f"{signed(100 * value, 1 if abs(value) < 0.1 else 0)} %" if math.isfinite(value) else ""


def span(low: float, high: float, *, sign: bool = False) -> str:
    """Return an interval as ``low–high``, or ``low to high`` where there are signs; nothing without an interval."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if sign:
        return f"{signed(low)} to {signed(high)}"
    return f"{number(low)}{' to ' if low < 0 else '–'}{number(high)}"


def share(value: float) -> str:
    """Return a share as percent; one between 0 and 1 is never shown as 0 % or 100 %."""
    if not math.isfinite(value):
        return UNDEFINED
    in_percent = 100 * value
    if 0 < in_percent < 1:
        return "< 1 %"
    return "> 99 %" if 99 < in_percent < 100 else f"{in_percent:.0f} %"


def percent(level: float) -> str:
    """Return a level as percent, with as many digits as it takes: 95 %, 97.5 %, 98.33 %, 99.944 %."""
    rest = 100 * min(level, 1 - level)
    digits = 2 if rest <= 0 else max(2, 1 - math.floor(math.log10(rest)))
    return f"{round(100 * level, digits):.12g} %"


def p_value(p: float) -> str:
    """Return a p-value as tables show it: ``0.0120``, ``< 0.0001``."""
    return UNDEFINED if math.isnan(p) else "< 0.0001" if p < 0.0001 else f"{p:.4f}"


def p_equals(p: float, correction: str = "") -> str:
    """Return a p-value as sentences show it: ``p = 0.0120``, ``p < 0.0001``, corrected ``p (Holm) = 0.0120``."""
    name = f"p ({correction})" if correction else "p"
    return f"{name} {p_value(p)}" if p < 0.0001 else f"{name} = {p_value(p)}"


def count_range(counts: Sequence[int]) -> str:
    """Return the lowest and the highest of some counts, or the only one."""
    low, high = min(counts), max(counts)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def about(count: int) -> str:
    """Return an estimated count with two significant digits."""
    return f"{round(count, min(0, 2 - len(str(count)))):,}"


def seconds(value: float) -> str:
    """Return a duration in seconds."""
    return f"{number(value, 2)} s" if math.isfinite(value) else UNDEFINED


def memory(mb: float | None) -> str:
    """Return an amount of memory, given in 2**20 bytes."""
    if mb is None or math.isnan(mb):
        return UNDEFINED
    return f"{mb / 1024:.1f} GB" if mb >= 1024 else f"{mb:.1f} MB" if mb < 10 else f"{mb:.0f} MB"


def rounded(value: float, digits: int = 6) -> float | None:
    """Return a number with that many significant digits, None where it is undefined or infinite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _text(value: float, form: str) -> str:
    return format(value, form).replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else UNDEFINED
