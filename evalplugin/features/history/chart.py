"""The chart of a history: means over time with intervals, promotions, and models that got worse."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from evalplugin.base.errors import DataError
from evalplugin.base.numbers import percent
from evalplugin.base.text import escape_nested
from evalplugin.comparison.compared import LEVEL
from evalplugin.execution.results import DataSplit
from evalplugin.features.history.report import NO_LINE, PROMOTED, WORSE
from evalplugin.features.history.trends import History, Point
from evalplugin.files.outputs import check_writable, open_output
from evalplugin.report.page.theme import TIME_AXIS
from evalplugin.report.palette import model_colours

FORMATS = (".html", ".png", ".svg")
_WORSE = "#B0400B"
_ROOM = 16  # pixels from the first and the last points to the frame


def trend_spec(history: History) -> dict[str, Any]:
    """Return the chart as Vega-Lite with its data, a panel for each dataset and split."""
    every = zip(history.rows(), history.points, strict=True)
    rows = [_row(row, point) for row, point in every if point.value is not None]
    models = list(dict.fromkeys(row["model"] for row in rows))
    colours = model_colours(models, history.bakeoffs[-1].baseline)
    scale = {"domain": models, "range": [colours[model] for model in models]}
    places = dict.fromkeys(DataSplit(row["dataset"], row["split"]) for row in rows)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {
            "text": f"{history.experiment}: {history.metric}",
            "subtitle": _legend(rows),
            "anchor": "start",
            "offset": 12,
        },
        "vconcat": [
            _panel(
                [row for row in rows if (row["dataset"], row["split"]) == place],
                str(place),
                history.metric,
                scale,
            )
            for place in places
        ],
    }


def check_picture(path: str | Path) -> None:
    """Check that a chart can be written to a path, before any work is done.

    Raises:
        DataError: The file has another format, or its folder does not exist.
    """
    suffix = PurePath(path).suffix
    if suffix.lower() not in FORMATS:
        raise DataError(f"{path}: a picture is written as {', '.join(FORMATS)}, not {suffix!r}")
    check_writable(path)


def write_trend(history: History, path: str | Path) -> None:
    """Write the chart to a file: ``.html`` (which needs no network), ``.png`` or ``.svg``.

    Raises:
        DataError: The file has another format, or cannot be written.
    """
    check_picture(path)
    import vl_convert

    spec, kind = escape_nested(trend_spec(history)), PurePath(path).suffix.lower()
    if kind == ".png":
        drawn = vl_convert.vegalite_to_png(spec, scale=2)
    elif kind == ".svg":
        drawn = vl_convert.vegalite_to_svg(spec).encode()
    else:
        drawn = vl_convert.vegalite_to_html(spec, bundle=True).encode()
    try:
        with open_output(path) as file:
            file.write(drawn)
    except OSError as error:
        raise DataError(f"{path}: the picture cannot be written: {error.strerror}") from None


def _row(row: dict[str, Any], point: Point) -> dict[str, Any]:
    signs = ["★"] * (point.role == "promoted") + ["▼"] * bool(row["worse"])
    return {**row, "line": point.line, "sign": " ".join(signs)}


def _legend(rows: list[dict[str, Any]]) -> str:
    signs = {row["sign"] for row in rows}
    parts = {
        f"shaded: {percent(LEVEL)} interval of the mean": any(row["low"] is not None for row in rows),
        PROMOTED: any("★" in sign for sign in signs),
        WORSE: any("▼" in sign for sign in signs),
        NO_LINE: any(row["line"] for row in rows),
    }
    return " · ".join(text for text, is_shown in parts.items() if is_shown)


def _domain(rows: list[dict[str, Any]]) -> list[float]:
    ends = [row[name] for row in rows for name in ("mean", "low", "high") if row[name] is not None]
    low, high = min(ends), max(ends)
    room = 0.08 * (high - low or abs(high) or 1)  # for the signs above the points
    return [low - room, high + room]


def _panel(rows: list[dict[str, Any]], title: str, metric: str, colours: dict[str, Any]) -> dict[str, Any]:
    mean = {
        "field": "mean",
        "type": "quantitative",
        "title": metric,
        "scale": {"domain": _domain(rows), "nice": False, "zero": False},
    }
    interval = {"y": {**mean, "field": "low"}, "y2": {"field": "high"}}
    has_interval = {"filter": "isValid(datum.low)"}
    tooltip = ["model", "bakeoff", "mean", "low", "high", "role", "outcome"]
    colour = {
        "field": "model",
        "type": "nominal",
        "scale": colours,
        "legend": {"symbolType": "circle", "symbolOpacity": 1},
    }
    return {
        "title": {"text": title, "anchor": "start"},
        "width": 640,
        "height": 260,
        "data": {"values": rows},
        "encoding": {
            "x": {
                "field": "at",
                "type": "temporal",
                "scale": {"type": "utc", "padding": _ROOM},
                "axis": TIME_AXIS,
            },
            "color": colour,
            "detail": {"field": "line", "type": "nominal"},
        },
        "layer": [
            {"transform": [has_interval], "mark": {"type": "area", "opacity": 0.15}, "encoding": interval},
            # Without it a single point would have no visible interval.
            {"transform": [has_interval], "mark": {"type": "rule", "opacity": 0.4}, "encoding": interval},
            {"mark": "line", "encoding": {"y": mean}},
            {
                "mark": {"type": "point", "filled": True, "opacity": 1},
                "encoding": {"y": mean, "tooltip": [{"field": name} for name in tooltip]},
            },
            {
                "transform": [{"filter": "datum.sign"}],
                "mark": {"type": "text", "dy": -12, "fontSize": 14},
                "encoding": {
                    "y": mean,
                    "text": {"field": "sign"},
                    "color": {"condition": {"test": "datum.worse", "value": _WORSE}, "value": "black"},
                },
            },
        ],
    }
