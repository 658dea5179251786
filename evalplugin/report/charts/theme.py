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
