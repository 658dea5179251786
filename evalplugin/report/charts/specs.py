"""All charts as Vega-Lite specifications without data: the page and ``charts/pictures.py`` fill them.

A text ``$name`` in a specification is a placeholder: a title or the end of an axis. Each row of ``rows`` has its own
colour, shape and position, so that a model looks the same in all charts. The ``label`` of a mark is for screen readers:
Vega-Lite's own description would put titles into an expression, which some names of models would break.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, TypeVar

import altair as alt

from evalplugin.report.charts.theme import TIME_AXIS

_Channel = TypeVar("_Channel", alt.Color, alt.Fill, alt.Opacity, alt.Shape, alt.StrokeWidth)

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_HEIGHT = 260
# Of a label at its point: alignment, and distance in pixels.
_SIDES: tuple[tuple[Literal["left", "right"], int], ...] = (("left", 7), ("right", -7))


@cache
def chart_specs() -> dict[str, dict[str, Any]]:
    """Return every chart as Vega-Lite by name, with the data ``rows`` left empty.

    Charts with a row for each model or group need a ``$height``.
    """
    charts = {
        "forest": _forest("model"),
        "means": _forest("model", at_zero=False),
        "shares": _shares(),
        "distribution": _curves("$shares", percent=True),
        "at_k": _curves("k"),
        "precision": _curves("recall", percent=True),
        "cost": _cost("linear"),
        "cost_log": _cost("log"),
        "groups": _groups(),
        "group_differences": _forest("group"),
        "trend": _trend(),
        "hit_rates": _hit_rates(),
        "card_popularity": _popularity(),
        "card_times": _bars("start:T", "end:T"),
        "card_times_cut": _bars("start:T", "end:T", has_cuts=True),
        "card_order": _bars("start:Q", "end:Q"),
        "card_order_cut": _bars("start:Q", "end:Q", has_cuts=True),
        "card_ratings": _bars("model:N"),
        "one_model": _one_model(),
        "tune_history": _tune_history(),
        "tune_importance": _tune_importance(),
    }
    # Of no minor version, as the specifications need none, and Altair names that of its own release.
    return {name: chart | {"$schema": _SCHEMA} for name, chart in charts.items()}


def _forest(field: str, *, at_zero: bool = True) -> dict[str, Any]:
    """Differences with intervals around zero, or means; a hollow point where nothing is shown."""
    base = _base().encode(y=_names(field, headed=field == "group"), color=_as_is(alt.Color, "colour:N"))
    zero = _base().mark_rule(color="var(--quiet)", strokeDash=[3, 3], aria=False).encode(x=alt.datum(0))
    x = alt.X("difference:Q", title="$title", scale=alt.Scale(nice=True), axis=alt.Axis(tickCount=5))
    point = _points(base, "name", size=75, strokeWidth=2, opacity=1).encode(
        x=x, fill=_as_is(alt.Fill, "fill:N")
    )
    text = base.mark_text(align="left", dx=10, color="var(--ink)", aria=False).encode(
        x=alt.value("width"), text="text:N", color=alt.value("var(--ink)")
    )
    return _layered(*([zero] if at_zero else []), _interval(base), point, text)


def _shares() -> dict[str, Any]:
    """Users for whom a model is better, the same, worse: one bar a model."""
    base = _base().encode(y=_names("model"))
    x = alt.X(
        "start:Q",
        title="$shares",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1], grid=False),
    )
    bars = base.mark_bar(height=14).encode(
        x=x,
        x2="end:Q",
        color=_as_is(alt.Color, "colour:N"),
        description="label:N",
        tooltip=_tooltip("model", "kind", "text"),
    )
    text = (
        base.transform_filter("datum.inside !== ''")
        .mark_text(fontSize=11, aria=False)
        .encode(x=alt.X("middle:Q"), text="inside:N", color=_as_is(alt.Color, "ink:N"))
    )
    return _layered(bars, text)


def _curves(x_title: str, *, percent: bool = False) -> dict[str, Any]:
    """One line a model, with its outline at some of the points; the line of the model in focus is wider."""
    axis = alt.Axis(format=".0%", tickCount=5) if percent else alt.Axis(format="d", tickCount=6)
    domain = [0, 1] if percent else ["$left", "$right"]
    base = _base().encode(
        x=alt.X("x:Q", title=x_title, scale=alt.Scale(domain=domain, nice=False), axis=axis),
        y=_values("y"),
        color=_as_is(alt.Color, "colour:N"),
        opacity=_as_is(alt.Opacity, "opacity:Q"),
        detail="model:N",
    )
    return _layered(*_lines(base), height=_HEIGHT)


def _cost(scale: Literal["linear", "log"]) -> dict[str, Any]:
    """Quality against one cost; models on the Pareto frontier are filled and joined."""
    base = _base().encode(
        x=alt.X(
            "cost:Q",
            title="$cost",
            scale=alt.Scale(type=scale, domain=["$left", "$right"], nice=False),
            axis=alt.Axis(tickCount=4, format=".3~r", labelOverlap="greedy"),
        ),
        y=_values("quality"),
    )
    frontier = (
        base.transform_filter("datum.frontier")
        .mark_line(interpolate="step-after", color="var(--quiet)", strokeWidth=1.5, opacity=0.7, aria=False)
        .encode(order="cost:Q")
    )
    points = _points(base, size=80, strokeWidth=2, opacity=1).encode(
        color=_as_is(alt.Color, "colour:N"), fill=_as_is(alt.Fill, "fill:N")
    )
    # First an outline in the colour of the page, so that a label is readable on a line.
    labels = [
        base.transform_filter(f"datum.side === '{side}'")
        .mark_text(
            align=side, dx=dx, fontSize=11, color="var(--ink)", aria=False, stroke=outline, strokeWidth=4
        )
        .encode(y=alt.Y("labelY:Q"), text="name:N")
        for side, dx in _SIDES
        for outline in ("var(--surface)", alt.Undefined)
    ]
    return _layered(frontier, points, *labels, height=220)


def _groups() -> dict[str, Any]:
    """Means with intervals of the model in focus and of the baseline, by group of users."""
    base = _base().encode(
        y=_names("group", headed=True),
        yOffset=alt.YOffset("model:N", sort=None, scale=alt.Scale(paddingInner=0.2, paddingOuter=0.35)),
        color=_as_is(alt.Color, "colour:N"),
    )
    point = _points(base, size=65, filled=True, opacity=1).encode(
        x=alt.X("mean:Q", title="$title", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5))
    )
    return _layered(_interval(base), point)


def _hit_rates() -> dict[str, Any]:
    """Share of the relevant held-out items that are listed, by group of items, one line a model."""
    # The label of a group has its share of these items in brackets, which go below.
    below = "indexof(datum.label, ' (')"
    axis = alt.Axis(
        labelAngle=0,
        labelExpr=f"[slice(datum.label, 0, {below}), slice(datum.label, {below} + 1)]",
        grid=False,
    )
    base = _base().encode(
        x=alt.X("x:N", title="$popularity", sort=None, axis=axis, scale=alt.Scale(type="point", padding=0.3)),
        y=alt.Y(
            "y:Q",
            title="$title",
            scale=alt.Scale(domain=["$low", "$high"], nice=False),
            axis=alt.Axis(tickCount=5, format=".2~%"),
        ),
        color=_as_is(alt.Color, "colour:N"),
        opacity=_as_is(alt.Opacity, "opacity:Q"),
        detail="model:N",
    )
    return _layered(*_lines(base), height=_HEIGHT)


def _trend() -> dict[str, Any]:
    """Means over time with their intervals, joined where they can be compared; a sign at promotions."""
    base = _base().encode(
        x=alt.X("at:T", scale=alt.Scale(type="utc", padding=16), axis=alt.Axis(**TIME_AXIS)),
        y=_values("mean"),
        color=alt.Color("model:N", title=None, scale=alt.Scale(domain=["$models"], range=["$colours"])),
        detail="line:N",
    )
    bounds = base.encode(y=alt.Y("low:Q", title="$title"), y2="high:Q")
    shade = bounds.mark_area(opacity=0.12, aria=False)
    # Without it a single point would have no visible interval.
    bar = bounds.mark_rule(opacity=0.4, aria=False)
    line = base.mark_line(strokeCap="round", strokeWidth=1.75, aria=False)
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        shape=alt.Shape("model:N", title=None, scale=alt.Scale(domain=["$models"], range=["$shapes"])),
        description="label:N",
        tooltip=_tooltip("model", "text"),
    )
    signs = base.mark_text(dy=-13, fontSize=14, aria=False).encode(
        text="sign:N", color=alt.value("var(--ink)")
    )
    return _layered(shade, bar, line, points, signs, height=_HEIGHT)


def _one_model() -> dict[str, Any]:
    """Every user's value of one model, lowest first, with its mean, before the lines of the other models."""
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    base = _base().encode(
        x=alt.X("x:Q", title="$shares", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis),
        y=_values("y"),
        color=_as_is(alt.Color, "colour:N"),
    )
    own = base.transform_filter("datum.own")
    # Opacities of fills: for one of a whole mark, a picture takes twice as long to draw.
    area = own.mark_area(opacity=1, fillOpacity=0.13).encode(y2=alt.datum("$low"))
    mean = own.transform_filter("datum.x === 0").encode(y=alt.Y("mean:Q", title="$title"))
    level = mean.mark_rule(strokeWidth=1.2, strokeDash=[1, 2]).encode(x=alt.datum(0), x2=alt.datum(1))
    label = mean.mark_text(align="left", fontSize=13, fontWeight="bold", dx=6, dy=-10).encode(text="text:N")
    line, points = _lines(base.encode(detail="model:N"), size=110, opacity=1, fillOpacity=0.7)
    return _layered(area, line, level, points, label, height=_HEIGHT)


def _tune_history() -> dict[str, Any]:
    """Trials of one model in their order, the best so far as a line before those of the other tuned models."""
    axis = alt.Axis(tickMinStep=1, format="d")
    scale = alt.Scale(domain=["$left", "$right"], nice=False)
    base = _base().encode(
        x=alt.X("x:Q", title="trial; the first has the defaults", scale=scale, axis=axis),
        y=_values("y"),
        color=_as_is(alt.Color, "colour:N"),
    )
    best = (
        base.transform_filter("datum.kind === 'best'")
        .mark_line(interpolate="step-after")
        .encode(detail="line:N", strokeWidth=_as_is(alt.StrokeWidth, "width:Q"))
    )
    trials = (
        base.transform_filter("datum.kind === 'trial'")
        .mark_point(size=45, strokeWidth=1.2, clip=False)
        .encode(shape=_as_is(alt.Shape, "shape:N"), fill=_as_is(alt.Fill, "fill:N"))
    )
    test = base.transform_filter("datum.kind === 'test'")
    level = test.mark_rule(strokeWidth=1.2, strokeDash=[1, 2]).encode(
        x=alt.datum("$left"), x2=alt.datum("$right")
    )
    label = test.mark_text(align="right", fontSize=13, dx=-4, dy=-10).encode(text="text:N")
    return _layered(best, trials, level, label, height=_HEIGHT)


def _tune_importance() -> dict[str, Any]:
    """The importance of one model's parameters with their best values, a bar each."""
    axis = alt.Axis(title=None, minExtent=140, maxExtent=140, labelLimit=134, grid=False, labelFontSize=13)
    y = alt.Y("model:N", sort=None, scale=alt.Scale(domain=["$names"], padding=0.3), axis=axis)
    x = alt.X(
        "share:Q",
        title="importance",
        scale=alt.Scale(domain=[0, 1], nice=False),
        axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]),
    )
    base = _base().encode(y=y, x=x)
    bars = base.mark_bar().encode(color=_as_is(alt.Color, "colour:N"))
    short = base.transform_filter("datum.share <= 0.55").mark_text(align="left", dx=6, color="var(--ink)")
    long = base.transform_filter("datum.share > 0.55").mark_text(align="right", dx=-6, color="var(--surface)")
    labels = [label.encode(text="text:N", size=alt.value(13)) for label in (short, long)]
    return _layered(bars, *labels, height=_HEIGHT)


def _popularity() -> dict[str, Any]:
    """Share of the interactions that the busiest share of items, and of users, have."""
    axis = alt.Axis(format=".0%", tickCount=5)
    domain = alt.Scale(domain=[0, 1], nice=False)
    base = _base().encode(
        x=alt.X("x:Q", title="share of items or users, busiest first", scale=domain, axis=axis),
        y=alt.Y("y:Q", title="share of interactions", scale=domain, axis=axis),
        color=_as_is(alt.Color, "colour:N"),
        detail="model:N",
    )
    line = base.mark_line(strokeWidth=2.5, aria=False)
    points = base.mark_point(filled=True, size=60, opacity=0).encode(
        description="label:N", tooltip=_tooltip("model", "text")
    )
    names = (
        base.transform_filter("datum.x === 0")
        .mark_text(align="right", fontSize=12, aria=False)
        .encode(x=alt.datum(0.97), y=alt.Y("labelY:Q"), text="model:N")
    )
    return _layered(line, points, names, height=220)


def _bars(start: str, end: str | None = None, *, has_cuts: bool = False) -> dict[str, Any]:
    """Numbers of interactions: by name, or between two points of an axis, with lines at the cuts if there are any."""
    count = alt.Y("count:Q", title="interactions", axis=alt.Axis(tickCount=4, format="~s"))
    bars = (
        _base()
        .transform_filter("isValid(datum.count)")
        .encode(y=count, description="label:N", tooltip=_tooltip("model", "text"))
    )
    if end is None:
        return _layered(
            bars.mark_bar(color="var(--accent)", opacity=0.7).encode(
                x=alt.X(start, title="rating", sort=None, axis=alt.Axis(labelAngle=0, labelOverlap=True))
            ),
            height=220,
        )
    scale = alt.Scale(type="utc", nice=False) if end.endswith("T") else alt.Scale(nice=False, zero=False)
    x = alt.X(start, title="$title", scale=scale, axis=alt.Axis(tickCount=4))
    cuts = (
        _base()
        .transform_filter("isValid(datum.cut)")
        .mark_rule(color="var(--quiet)", strokeWidth=2)
        .encode(x=alt.X(f"cut:{end[-1]}"), description="label:N")
    )
    shown = bars.mark_bar(color="var(--accent)", opacity=0.7).encode(
        x=x, x2=end.partition(":")[0], y2=alt.datum(0)
    )
    # Without a cut, Vega would complain of a field without values.
    return _layered(shown, *([cuts] if has_cuts else []), height=220)


def _base() -> alt.Chart:
    return alt.Chart()


def _values(field: str) -> alt.Y:
    """Return the axis of a metric's values."""
    scale = alt.Scale(domain=["$low", "$high"], nice=False, zero=False)
    return alt.Y(f"{field}:Q", title="$title", scale=scale, axis=alt.Axis(tickCount=5))


def _lines(base: alt.Chart, size: int = 45, **mark: Any) -> tuple[alt.Chart, alt.Chart]:
    """Return a line for each model, dashed for the baseline, and outlines of a size at some of its points."""
    # In the order of the rows, not of x: a line with gaps may be several that begin at the same x.
    line = base.mark_line(strokeCap="round", aria=False, order=False).encode(
        strokeWidth=_as_is(alt.StrokeWidth, "width:Q"),
        strokeDash=alt.condition("datum.baseline", alt.value([6, 4]), alt.value([])),
    )
    return line, _points(base.transform_filter("datum.point"), strokeWidth=1, filled=True, size=size, **mark)


def _points(chart: alt.Chart, name: str = "model", **mark: Any) -> alt.Chart:
    """Return points with the outline of their model; the tooltip has the field ``name`` and the text."""
    points: alt.Chart = chart.mark_point(**mark).encode(
        shape=_as_is(alt.Shape, "shape:N"), description="label:N", tooltip=_tooltip(name, "text")
    )
    return points


def _interval(base: alt.Chart) -> alt.Chart:
    """Return horizontal intervals."""
    rule = base.mark_rule(strokeWidth=2.5, strokeCap="round", aria=False)
    interval: alt.Chart = rule.encode(x=alt.X("low:Q", title="$title"), x2="high:Q")
    return interval


def _layered(*layers: alt.Chart, height: int | None = None) -> dict[str, Any]:
    """Return layers as one chart, as wide as its container; without ``height`` that is a placeholder."""
    chart = alt.layer(*layers, data=alt.NamedData("rows")).properties(
        width="container",
        description="$description",
        padding={"left": 0, "top": 6, "bottom": 4, "right": 10},
    )
    return {**chart.to_dict(), "height": "$height" if height is None else height, "config": _config()}


def _names(field: str, *, headed: bool = False) -> alt.Y:
    """Return the axis of names; if ``headed``, of groups: ``h0|activity`` is a heading, ``g0.1|30-69`` a group."""
    axis = alt.Axis(
        title=None,
        labelColor="var(--ink)",
        labelFontSize=13,
        labelPadding=8,
        labelLimit=alt.ExprRef("$limit"),
        grid=False,
    )
    if not headed:
        return alt.Y(f"{field}:N", sort=None, axis=axis)
    axis.labelExpr = "slice(datum.label, indexof(datum.label, '|') + 1)"
    axis.labelColor = alt.condition(
        "slice(datum.value, 0, 1) === 'h'", alt.value("var(--quiet)"), alt.value("var(--ink)")
    )
    return alt.Y(f"{field}:N", sort=None, scale=alt.Scale(domain=["$groups"]), axis=axis)


def _as_is(channel: type[_Channel], field: str) -> _Channel:
    """Return an encoding of values that are colours, outlines or widths, without a scale."""
    return channel(field, scale=None, legend=None)


def _tooltip(*fields: str) -> Sequence[alt.Tooltip]:
    return [alt.Tooltip(f"{field}:N", title="" if field == "text" else field) for field in fields]


def _config() -> dict[str, Any]:
    quiet = {"labelColor": "var(--quiet)", "titleColor": "var(--quiet)"}
    return {
        "background": None,
        "font": _FONT,
        "view": {"stroke": None},
        "axis": {
            **quiet,
            "domain": False,
            "ticks": False,
            "gridColor": "var(--line)",
            "labelFontSize": 12,
            "labelFontWeight": "normal",
            "labelPadding": 6,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
        },
        "axisX": {"titleAnchor": "start", "labelPadding": 10, "labelSeparation": 8},
        "axisY": {"titleAnchor": "end"},
        "axisQuantitative": {"labelFlush": False},
        "text": {"fontSize": 12, "baseline": "middle"},
        # The page has legends of its own.
        "legend": {"disable": True},
    }
