"""A picture of a history: each model's mean over time with its interval, what was promoted, what got worse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evalplugin.errors import DataError
from evalplugin.report.palette import model_colours
from evalplugin.trends import History

__all__ = ["FORMATS", "trend_spec", "write_trend"]

FORMATS = (".html", ".png", ".svg")
_WORSE = "#B0400B"


def trend_spec(history: History) -> dict[str, Any]:
    """Return the picture as Vega-Lite with its numbers, a panel for each dataset and split."""
    rows = [row for row in history.rows() if row["mean"] is not None]
    models = list(dict.fromkeys(row["model"] for row in rows))
    colours = model_colours(models, history.bakeoffs[-1].baseline)
    places = dict.fromkeys((row["dataset"], row["split"]) for row in rows)
    days = (history.bakeoffs[-1].at - history.bakeoffs[0].at).days
    time = {
        "field": "at",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc"},
        "axis": {"format": "%Y-%m-%d", "tickCount": {"interval": "day", "step": days // 8 + 1}}
        if days
        else {},
    }
    panels = [
        _panel(
            [row for row in rows if (row["dataset"], row["split"]) == place],
            ", ".join(filter(None, place)),
            history.metric,
            time,
        )
        for place in places
    ]
    scale = {"domain": models, "range": [colours[model] for model in models]}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": f"{history.experiment}: {history.metric}",
        "vconcat": [_coloured(panel, scale) for panel in panels],
    }


def write_trend(history: History, path: Path) -> None:
    """Write the picture to a file: ``.html`` (one that needs no network), ``.png`` or ``.svg``.

    Raises:
        DataError: Another kind of file.
    """
    kind = path.suffix.lower()
    if kind not in FORMATS:
        raise DataError(f"{path}: a picture is written as {', '.join(FORMATS)}")
    import vl_convert

    spec = trend_spec(history)
    if kind == ".png":
        path.write_bytes(vl_convert.vegalite_to_png(spec, scale=2))
    elif kind == ".svg":
        path.write_text(vl_convert.vegalite_to_svg(spec), encoding="utf-8")
    else:
        path.write_text(vl_convert.vegalite_to_html(spec, bundle=True), encoding="utf-8")


def _panel(rows: list[dict[str, Any]], place: str, metric: str, time: dict[str, Any]) -> dict[str, Any]:
    mean = {"field": "mean", "type": "quantitative", "title": metric, "scale": {"zero": False}}
    told = ["model", "bakeoff", "mean", "low", "high", "role", "outcome"]
    marked = {"filter": "datum.role == 'promoted' || datum.worse"}
    return {
        "title": {"text": place, "anchor": "start"},
        "width": 640,
        "height": 260,
        "data": {"values": rows},
        "encoding": {"x": time},
        "layer": [
            {
                "mark": {"type": "errorband", "opacity": 0.15},
                "encoding": {"y": {**mean, "field": "low"}, "y2": {"field": "high"}},
            },
            {"mark": "line", "encoding": {"y": mean}},
            {
                "mark": {"type": "point", "filled": True, "opacity": 1},
                "encoding": {"y": mean, "tooltip": [{"field": name} for name in told]},
            },
            {
                "transform": [
                    marked,
                    {"calculate": "datum.role == 'promoted' ? '★ promoted' : '▼ worse'", "as": "said"},
                ],
                "mark": {"type": "text", "dy": -12, "align": "center"},
                "encoding": {
                    "y": mean,
                    "text": {"field": "said"},
                    "color": {"condition": {"test": "datum.worse", "value": _WORSE}, "value": "black"},
                },
            },
        ],
    }


def _coloured(panel: dict[str, Any], scale: dict[str, Any]) -> dict[str, Any]:
    colour = {"field": "model", "type": "nominal", "title": "model", "scale": scale}
    layers = [
        layer if "color" in layer["encoding"] else layer | {"encoding": layer["encoding"] | {"color": colour}}
        for layer in panel["layer"]
    ]
    return panel | {"layer": layers}
