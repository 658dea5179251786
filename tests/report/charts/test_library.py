"""The chart library of the page: made once, then read from the user's cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evalplugin.report.charts import library
from evalplugin.report.charts.library import ChartLibrary, chart_library

MADE = ChartLibrary("(() => {\nmade\n})();", {"forest": {"mark": "point"}})


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ChartLibrary]]:
    """A library that takes no time to make, with an empty cache; what was made."""
    calls: list[ChartLibrary] = []
    monkeypatch.setattr(library, "_make", lambda: (calls.append(MADE), MADE)[1])
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")
    chart_library.cache_clear()
    yield calls
    chart_library.cache_clear()


def again() -> ChartLibrary:
    chart_library.cache_clear()
    return chart_library()


def test_it_is_made_once_and_then_read_from_the_cache(made: list[ChartLibrary], tmp_path: Path) -> None:
    assert chart_library() == again() == MADE
    assert len(made) == 1
    (file,) = (tmp_path / "cache").iterdir()
    assert file.name.startswith("charts-")


def test_a_change_of_what_makes_it_makes_it_anew(made, monkeypatch):
    chart_library()
    monkeypatch.setattr(library, "version", lambda name: "0.0.1")
    again()
    assert len(made) == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b"{}"])
def test_a_damaged_file_is_replaced(made: list[ChartLibrary], tmp_path: Path, damage: bytes) -> None:
    chart_library()
    (file,) = (tmp_path / "cache").iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage)
    assert again() == MADE
    assert len(made) == 2
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_only_time(made: list[ChartLibrary], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert chart_library() == again() == MADE
    assert len(made) == 2


@pytest.mark.slow
def test_the_library_is_a_script_with_every_chart_of_the_page() -> None:
    script, charts = library._make()
    assert "window.vegaEmbed" in script
    assert "</script" not in script
    assert set(charts) >= {"forest", "trend", "one_model"}
