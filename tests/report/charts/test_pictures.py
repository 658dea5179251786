"""Charts outside of the page."""

from __future__ import annotations

import json

from evalplugin.report.charts.library import chart_library
from evalplugin.report.charts.pictures import Chart, stacked

VALUES = {"model": "$title", "difference": 0.1, "low": 0.0, "high": 0.2}
ROW = {**VALUES, "colour": "var(--quiet)", "text": "var(--ink)"}


def test_a_specification_is_filled_and_names_are_not() -> None:
    spec = Chart("forest", [ROW], {"title": "a title"}, "a description").spec(width=300, height=40)
    assert spec["data"] == {"values": [{**ROW, "colour": "#5A626B"}]}
    assert (spec["width"], spec["height"], spec["description"]) == (300, 40, "a description")
    without_rows = json.dumps(spec | {"data": None, "$schema": None})
    assert "a title" in without_rows
    assert '"$' not in without_rows.replace('"$schema"', "")
    assert "var(--" not in without_rows


def test_lists_of_values_fill_a_list() -> None:
    spec = Chart("tune_importance", [], {"names": ["k", " "]}, "").spec()
    assert '"domain": ["k", " "]' in json.dumps(spec)


def test_control_characters_are_escaped() -> None:
    spec = Chart("forest", [{**ROW, "model": "a\x1b"}], {"title": "\u202e"}, "").spec()
    assert "\\\\u001b" in json.dumps(spec)
    assert "\\\\u202e" in json.dumps(spec)


def test_charts_are_stacked_with_one_style() -> None:
    spec = Chart("forest", [ROW], {"title": "t"}, "").spec(title="own")
    both = stacked([spec, spec], title="all")
    assert [panel["title"] for panel in both["vconcat"]] == ["own", "own"]
    assert both["title"]["text"] == "all"
    assert both["config"] == spec["config"]
    assert "config" not in both["vconcat"][0]


def test_filling_leaves_the_specification_as_it_was() -> None:
    before = json.dumps(chart_library().charts)
    Chart("forest", [ROW], {"title": "t"}, "").spec()
    assert json.dumps(chart_library().charts) == before
