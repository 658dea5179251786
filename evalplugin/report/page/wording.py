"""Numbers as the page holds them and as its sentences and tables write them."""

from __future__ import annotations

import math

from evalplugin.report.text import number, share

__all__ = ["bounds", "p_text", "plain", "share", "shown", "signed"]


def plain(value: float, digits: int = 6) -> float | None:
    """Return a number with that many significant digits, None where it is undefined or infinite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def shown(value: float, digits: int = 4) -> str:
    """Return a number with that many decimals and a true minus sign, or a dash where it is undefined."""
    return number(value, digits).replace("-", "\N{MINUS SIGN}")


def signed(value: float, digits: int = 4) -> str:
    """Return a difference with its sign."""
    return ("+" if value > 0 else "") + shown(value, digits)


def bounds(low: float, high: float) -> str:
    """Return ``[low, high]``, or nothing where there is no interval."""
    return f"[{shown(low)}, {shown(high)}]" if math.isfinite(low) and math.isfinite(high) else ""


def p_text(p: float) -> str:
    """Return a p-value as it is written in a sentence: ``p = 0.012``, ``p < 0.001``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
