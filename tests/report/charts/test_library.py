"""The chart library of the page and the specifications, which are files of the package."""

from __future__ import annotations

from evalplugin.report.charts.library import chart_library


def test_the_library_is_a_script_with_every_chart_of_the_page() -> None:
    script, charts = chart_library()
    assert "window.vegaEmbed" in script
    assert "</script" not in script
    assert set(charts) >= {"forest", "trend", "one_model"}


def test_the_library_names_the_licences_of_its_parts() -> None:
    licences = chart_library().script.partition("*/")[0]
    for holder in ("University of Washington Interactive Data Lab", "Mike Bostock", "Joachim Wester"):
        assert f"{holder}" in licences
