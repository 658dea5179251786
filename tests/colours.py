"""Contrast of colours, for tests of the page."""

from __future__ import annotations


def contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it: 1 to 21."""

    def luminance(colour: str) -> float:
        channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(colour), luminance(other)))
    return (high + 0.05) / (low + 0.05)
