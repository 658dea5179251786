"""The page's two main charts as files, for places where no JavaScript runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from evalplugin.comparison import Comparison
from evalplugin.report.figures import axis_limits
from evalplugin.report.page.charts import chart_specs, filled
from evalplugin.report.page.data import colours_of
from evalplugin.report.page.theme import LIGHT, SHAPES
from evalplugin.report.page.wording import plain, shown, signed

__all__ = ["comparison_figures"]

_WIDTH = 760  # pixels
_ROW = 26
_MARKS = {"+": " ▲", "-": " ▼", "": ""}


def comparison_figures(comparison: Comparison, *, format: Literal["svg", "png"] = "svg") -> dict[str, bytes]:
    """Return pictures of the primary metric by file name, where there is something to draw.

    ``differences.svg``: each model's mean difference from the baseline with its interval. ``users.svg``: every
    user's value, lowest first. Light, on white.
    """
    charts = {
        "differences": _differences(comparison),
        "users": _users(comparison),
    }
    return {f"{name}.{format}": _drawn(chart, format) for name, chart in charts.items() if chart is not None}


def _differences(comparison: Comparison) -> dict[str, Any] | None:
    contest = comparison.contest
    rows = []
    for standing in comparison.standings:
        cell = standing.cells.get(contest.primary)
        if cell is None or cell.difference is None:
            continue
        look = _look(comparison, standing.model)
        interval = cell.difference.paired.interval
        rows.append(
            {
                **look,
                "name": standing.model,
                "difference": plain(interval.mean),
                "low": plain(interval.low),
                "high": plain(interval.high),
                "fill": look["colour"] if cell.mark else LIGHT["surface"],
                "text": f"{signed(interval.mean)}{_MARKS[cell.mark]}",
            }
        )
    title = f"{contest.primary}: model \N{MINUS SIGN} {contest.baseline}"
    values = {"title": title, "height": _ROW * len(rows), "description": title}
    return _with_rows(filled(chart_specs()["forest"], values), rows)


def _users(comparison: Comparison) -> dict[str, Any] | None:
    metric = comparison.contest.primary
    drawn = {}
    for standing in comparison.standings:
        cell = standing.cells.get(metric)
        if cell is not None and cell.summary is not None and cell.summary.n:
            drawn[standing.model] = cell.summary.quantiles.tolist()
    rows = [
        {
            **_look(comparison, model),
            "x": percent / 100,
            "y": y,
            "baseline": model == comparison.contest.baseline,
            "width": 2,
            "opacity": 1,
            "point": percent % 16 == (5 + 3 * number) % 16 and y > quantiles[0],
            "text": shown(y),
        }
        for number, (model, quantiles) in enumerate(drawn.items())
        for percent, y in enumerate(quantiles)
    ]
    low, high = axis_limits(metric, [np.array(q) for q in drawn.values()])
    values = {"title": metric, "low": low, "high": high, "description": f"{metric} of every user"}
    spec = _with_rows(filled(chart_specs()["distribution"], values), rows)
    if spec is not None:
        looks = [_look(comparison, model) for model in drawn]
        for layer in spec["layer"]:
            # A line with a shape would draw it at every value.
            kept = [c for c in ("color", "shape") if c in layer["encoding"]]
            layer["encoding"] |= {channel: _named(channel, looks) for channel in kept}
    return spec


def _look(comparison: Comparison, model: str) -> dict[str, str]:
    colours = colours_of(comparison)
    return {
        "model": model,
        "colour": colours[model],
        "shape": SHAPES[list(colours).index(model) % len(SHAPES)],
    }


def _named(channel: str, looks: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return an encoding that names the models beside the chart; the page has a legend of its own."""
    kind = "colour" if channel == "color" else channel
    scale = {"domain": [look["model"] for look in looks], "range": [look[kind] for look in looks]}
    return {"field": "model", "type": "nominal", "title": None, "scale": scale}


def _with_rows(spec: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    return {**spec, "datasets": {"rows": rows}} if rows else None


def _drawn(spec: Mapping[str, Any], format: Literal["svg", "png"]) -> bytes:
    import vl_convert

    text = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], json.dumps(spec))
    light = {**json.loads(text), "width": _WIDTH, "background": LIGHT["surface"], "padding": 12}
    if format == "png":
        return vl_convert.vegalite_to_png(light, scale=2)
    return vl_convert.vegalite_to_svg(light).encode()
