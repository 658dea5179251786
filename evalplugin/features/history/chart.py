"""The chart of a history: means over time with intervals and promotions, on the page and in a file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from evalplugin.base.errors import DataError, MissingPackageError
from evalplugin.base.libraries import vl_convert
from evalplugin.base.numbers import number, percent, rounded, span
from evalplugin.comparison.compared import LEVEL
from evalplugin.comparison.comparison import Comparison
from evalplugin.features.history.history import PROMOTED, History, ModelRole, Point, history_of
from evalplugin.features.history.past import PastBakeoff
from evalplugin.features.words import outcome_words
from evalplugin.files.outputs import check_writable, open_output
from evalplugin.report.charts.palette import SHAPES, model_styles
from evalplugin.report.charts.pictures import NO_PICTURES, Chart, can_draw, stacked

FORMATS = (".html", ".png", ".svg")
_LEAST = 2  # bake-offs that make a trend
_ROLES: dict[ModelRole, str] = {
    "promoted": "★ promoted",
    "champion": "☆ champion",
    "baseline": "baseline",
    "challenger": "",
}
_COLUMNS = ("Bake-off", "Started (UTC)", "Decision", "Model", "Role", "Mean", "Low", "High")
_WORDS = 5  # of the columns


def history_spec(history: History) -> dict[str, Any]:
    """Return the chart as Vega-Lite with its data, a panel for each dataset and split."""
    drawn = [point for point in history.points if point.value is not None]
    names = list(dict.fromkeys(point.model.model for point in drawn))
    styles = model_styles(names, history.bakeoffs[-1].baseline)
    by_place = {place: [point for point in drawn if point.place == place] for place in history.places}
    panels = [
        _chart(history.metric, points, styles).spec(width=640, title=str(place))
        for place, points in by_place.items()
        if points
    ]
    return stacked(
        panels, title=f"{history.experiment}: {history.metric}", subtitle=" · ".join(_signs(drawn))
    )


def check_picture(path: str | Path) -> None:
    """Check that a chart can be written to a path, before any work is done.

    Raises:
        DataError: The file has another format, or its folder does not exist.
        MissingPackageError: The package that draws it is not installed.
    """
    suffix = PurePath(path).suffix
    if suffix.lower() not in FORMATS:
        raise DataError(f"{path}: a picture is written as {', '.join(FORMATS)}, not {suffix!r}")
    check_writable(path)
    if not can_draw():
        raise MissingPackageError(f"{path}: {NO_PICTURES}")


def write_history(history: History, path: str | Path) -> None:
    """Write the chart to a file: ``.html`` (which needs no network), ``.png`` or ``.svg``.

    Raises:
        DataError: The file has another format, or cannot be written.
        MissingPackageError: The package that draws it is not installed.
    """
    check_picture(path)
    spec, kind = history_spec(history), PurePath(path).suffix.lower()
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


def history_tab(
    comparison: Comparison, past: Sequence[PastBakeoff], models: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the past bake-offs by the primary metric on the comparison's data; None if there are too few.

    Args:
        comparison: The comparison on the page.
        past: Bake-offs of its experiment, its own one included, in any order.
        models: The models of the page, with their colours and outlines; past ones that are not among them are grey.

    Keys: ``note``, ``models`` with their styles, and the ``figure``.
    """
    contest = comparison.contest
    if not any(contest.primary in model.values for bakeoff in past for model in bakeoff.models):
        return None
    history = history_of(contest.name, past, contest.primary)
    points = [p for p in history.points if p.place == contest.place and p.value is not None]
    bakeoffs = len({point.bakeoff.id for point in points})
    if bakeoffs < _LEAST:
        return None
    known = {model["name"]: {"colour": model["colour"], "shape": model["shape"]} for model in models}
    names = dict.fromkeys(point.model.model for point in points)
    grey = {"colour": "var(--quiet)", "shape": SHAPES[0]}
    styles = {name: known.get(name, grey) for name in (*(n for n in known if n in names), *names)}
    note = (
        f"The latest {bakeoffs} bake-offs of this experiment on this dataset and split; the data may differ."
    )
    chart = _chart(contest.primary, points, styles)
    return {
        "note": " ".join([note, *(f"{sign[0].upper()}{sign[1:]}." for sign in _signs(points))]),
        "models": [{"name": name, **style} for name, style in styles.items()],
        "figure": chart.figure("trend", _COLUMNS, [*map(_cells, reversed(points))], words=_WORDS),
    }


def _chart(metric: str, points: Sequence[Point], styles: Mapping[str, Mapping[str, str]]) -> Chart:
    """Return the chart of points with values on one dataset and split."""
    rows = [_row(point) for point in points]
    ends = [row[name] for row in rows for name in ("mean", "low", "high")]
    low, high = min(ends), max(ends)
    room = 0.08 * (high - low or abs(high) or 1)  # for the signs above the points
    shown = {row["model"]: styles[row["model"]] for row in rows}
    values = {
        "title": f"{metric}, mean",
        "low": low - room,
        "high": high + room,
        "models": list(shown),
        "colours": [style["colour"] for style in shown.values()],
        "shapes": [style["shape"] for style in shown.values()],
    }
    return Chart(
        "trend", rows, values, f"Mean {metric} in the bake-offs of this experiment, a line for each model"
    )


def _row(point: Point) -> dict[str, Any]:
    value = point.value
    assert value is not None
    is_known = math.isfinite(value.low) and math.isfinite(value.high)
    low, high = (value.low, value.high) if is_known else (value.mean, value.mean)
    text = (number(value.mean), span(value.low, value.high), _ROLES[point.role])
    return {
        "model": point.model.model,
        "at": point.bakeoff.at.isoformat(timespec="seconds"),
        "mean": rounded(value.mean),
        "low": rounded(low),
        "high": rounded(high),
        "line": point.line,
        "sign": "★" if point.role == "promoted" else "",
        "text": " ".join(filter(None, text)),
    }


def _cells(point: Point) -> list[object]:
    value, bakeoff = point.value, point.bakeoff
    assert value is not None
    decision = outcome_words(point.outcome) if point.outcome else ""
    words = (bakeoff.id, f"{bakeoff.at:%Y-%m-%d %H:%M}", decision, point.model.model, _ROLES[point.role])
    return [*words, *(rounded(number) for number in (value.mean, value.low, value.high))]


def _signs(points: Sequence[Point]) -> Iterator[str]:
    """Yield the meanings of the signs that the chart has."""
    if any(point.value is not None and not math.isnan(point.value.low) for point in points):
        yield f"shaded: {percent(LEVEL)} interval of the mean"
    if any(point.role == "promoted" for point in points):
        yield PROMOTED
    if any(point.line for point in points):
        yield "no line where type, parameters or rules changed"
