"""Charts outside of the page: a specification filled with data and light colours, as Altair chart or file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

from evalplugin.base.errors import how_to_install
from evalplugin.base.libraries import vl_convert
from evalplugin.base.numbers import number
from evalplugin.base.places import DataSplit
from evalplugin.base.text import escape_nested
from evalplugin.report.charts.library import chart_library
from evalplugin.report.charts.theme import LIGHT

_LIGHT = {f"var(--{name})": colour for name, colour in LIGHT.items()}
_SCALE = 1.5  # pixels of a picture for each of the chart
_COLOURS = ("colour", "fill")  # fields of rows
_ONLY_AT_THE_TOP = ("$schema", "config", "padding")
NO_PICTURES = (
    f"pictures (PNG, SVG) need the package vl-convert-python, which is not installed: "
    f"{how_to_install('vl-convert-python', 'pictures')}"
)


def can_draw() -> bool:
    """Return whether the package that draws pictures is installed; charts on pages and in notebooks need none."""
    return find_spec("vl_convert") is not None


class ModelPicture(NamedTuple):
    """A file of a model's run: the same name and axes in all runs, as MLflow's compare page shows them side by side."""

    place: DataSplit
    model: str
    path: str
    draw: Callable[[], bytes]  # the PNG; drawn while other values are logged


@dataclass(frozen=True)
class Chart:
    """A chart: the name of its specification, and the data to fill it with."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    values: Mapping[str, Any]  # of the placeholders in the specification
    description: str

    def spec(
        self, *, width: int = 560, title: str | Mapping[str, Any] = "", **changes: Any
    ) -> dict[str, Any]:
        """Return the Vega-Lite specification with its data, for a white background.

        Args:
            width: Of the drawing in pixels, without names and numbers beside it.
            title: Title, or its properties.
            changes: Other top-level properties.
        """
        values = {"description": self.description, "limit": "260", **self.values}
        filled: dict[str, Any] = _filled(chart_library().charts[self.name], values)
        filled["config"] |= {"background": LIGHT["surface"], "legend": _LEGEND, "title": _TITLE}
        rows = [{k: _LIGHT.get(v, v) if k in _COLOURS else v for k, v in row.items()} for row in self.rows]
        spec: dict[str, Any] = escape_nested(filled | {"data": {"values": rows}, "title": title})
        return spec | {"width": width} | changes

    def figure(
        self, kind: str, columns: Sequence[str], cells: Sequence[Sequence[object]], *, words: int
    ) -> dict[str, Any]:
        """Return the chart as the page's scripts show it, with a table of its numbers.

        Args:
            kind: Name of the figure on the page.
            columns: Names of the table's columns.
            cells: The table's rows: texts, counts, and numbers that are shown with four digits; None is unknown.
            words: How many of the columns are words.
        """
        kinds = [{"name": name, "kind": "text" if i < words else "number"} for i, name in enumerate(columns)]
        numbers = [
            {"cells": [{"value": c, "content": [number(c)]} if isinstance(c, float) else c for c in row]}
            for row in cells
        ]
        data = {"rows": self.rows, "values": self.values, "description": self.description}
        return {"kind": kind, "chart": self.name, "why": "", **data, "columns": kinds, "numbers": numbers}


_LEGEND = {"labelFontSize": 12, "labelColor": LIGHT["ink"], "labelLimit": 220, "symbolOpacity": 1}
_TITLE = {
    "anchor": "start",
    "frame": "group",
    "fontSize": 14,
    "color": LIGHT["ink"],
    "subtitleColor": LIGHT["quiet"],
    "subtitleFontSize": 12,
    "subtitlePadding": 5,
    "offset": 10,
}


def stacked(specs: Sequence[dict[str, Any]], title: str = "", subtitle: str = "") -> dict[str, Any]:
    """Return specifications as one, below each other."""
    panels = [{key: value for key, value in spec.items() if key not in _ONLY_AT_THE_TOP} for spec in specs]
    top = {key: specs[0][key] for key in _ONLY_AT_THE_TOP}
    heading = {"text": title, "subtitle": subtitle, "offset": 20}
    return {**top, "padding": 10, "spacing": 30, "title": heading, "vconcat": panels}


def picture_of_run(chart: Chart, *, title: str, colour: str, subtitle: Sequence[str]) -> bytes:
    """Return a chart of one model as PNG, in the same size and layout for all models.

    Args:
        chart: The chart.
        title: In the colour; what does not fit is cut.
        colour: Of the model.
        subtitle: Lines below the title.
    """
    heading = {"text": title, "color": colour, "fontSize": 18, "subtitle": list(subtitle), "frame": "bounds"}
    heading["limit"] = 610
    size = {"width": 640, "height": 440, "autosize": {"type": "fit", "contains": "padding"}, "padding": 12}
    return png_of(chart.spec(title=heading) | size)


def png_of(spec: Mapping[str, Any]) -> bytes:
    """Return a specification as PNG."""
    png: bytes = vl_convert.vegalite_to_png(dict(spec), scale=_SCALE)
    return png


def png_of_svg(svg: str) -> bytes:
    """Return an SVG as PNG."""
    png: bytes = vl_convert.svg_to_png(svg, scale=_SCALE)
    return png


def _filled(spec: Any, values: Mapping[str, Any]) -> Any:
    """Return a specification with values for its placeholders, and the light page's colours for its variables."""
    if isinstance(spec, dict):
        return {key: _filled(value, values) for key, value in spec.items()}
    if isinstance(spec, list):
        filled = [_filled(value, values) for value in spec]
        return filled[0] if len(filled) == 1 and isinstance(filled[0], list) else filled
    if isinstance(spec, str) and spec.startswith("$") and spec[1:] in values:
        return values[spec[1:]]
    return _LIGHT.get(spec, spec) if isinstance(spec, str) else spec
