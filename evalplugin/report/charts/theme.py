"""The page's colours in light and dark, and the axis of times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LIGHT = {
    "ink": "#1B1E22",
    "quiet": "#5A626B",
    "line": "#DDE1E5",
    "surface": "#FFFFFF",
    "sunken": "#F5F6F8",
    "accent": "#0B5CAD",
    "better": "#00736B",
    "worse": "#B0400B",
    "equal": "#C3C9CF",
}
DARK = {
    "ink": "#E7E9EC",
    "quiet": "#A2AAB3",
    "line": "#373C43",
    "surface": "#15181C",
    "sunken": "#1E2227",
    "accent": "#7DB7F0",
    "better": "#4CC2B4",
    "worse": "#F0935B",
    "equal": "#5A626B",
}
# Each label is a date, with the time of day unless that is midnight.
_CLOCK = "utcFormat(datum.value, utcseconds(datum.value) ? '%H:%M:%S' : '%H:%M')"
_DATE = "utcFormat(datum.value, '%Y-%m-%d')"
TIME_AXIS: dict[str, Any] = {
    "title": "started (UTC)",
    "tickCount": 6,
    "labelOverlap": True,
    "labelExpr": f"datum.value % 86400000 ? [{_CLOCK}, {_DATE}] : {_DATE}",
}
_READABLE = 4.0  # contrast of a line with the page; WCAG requires 3


def contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours (``#RRGGBB``) as WCAG 2 defines it: 1 to 21."""
    low, high = sorted((_luminance(colour), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def for_dark(colour: str) -> str:
    """Return a colour of the same hue, mixed with enough white to be readable on the dark page."""
    channels = _channels(colour)
    for percent in range(0, 100, 2):
        mixed = "#" + "".join(f"{round(c + (255 - c) * percent / 100):02X}" for c in channels)
        if contrast(mixed, DARK["surface"]) >= _READABLE:
            return mixed
    return "#FFFFFF"


def theme_css(name: str, light: Mapping[str, str], dark: Mapping[str, str]) -> str:
    """Return CSS that sets the variables ``--name`` of a selector: dark ones in the dark theme, never in print."""
    return (
        f"{name}{{{_declared(light)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]) {name}{{{_declared(dark)}}}}}\n"
        f"@media screen{{:root[data-theme=dark] {name}{{{_declared(dark)}}}}}\n"
    )


def model_variables(colours: Mapping[str, str]) -> dict[str, str]:
    """Return the name of each model's CSS variable: ``m0``, ``m1``, in the order of the colours."""
    return {model: f"m{i}" for i, model in enumerate(colours)}


def _declared(colours: Mapping[str, str]) -> str:
    return "".join(f"--{name}:{colour};" for name, colour in colours.items())


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def _luminance(colour: str) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (channel / 255 for channel in _channels(colour))
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
