"""The chart library of the page: made once, then read from the user's cache."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalplugin.files import user_cache
from evalplugin.report.page import library
from evalplugin.report.page.library import ChartLibrary, chart_library, make_in_background

MADE = ChartLibrary("(() => {\nmade\n})();", {"forest": {"mark": "point"}})


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ChartLibrary]]:
    """A library that takes no time to make, with an empty cache; what was made."""
    calls: list[ChartLibrary] = []
    monkeypatch.setattr(library, "_make", lambda: (calls.append(MADE), MADE)[1])
    monkeypatch.setattr(user_cache, "_processes", {})
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


def test_a_change_of_what_makes_it_makes_it_anew(
    made: list[ChartLibrary], monkeypatch: pytest.MonkeyPatch
) -> None:
    chart_library()
    monkeypatch.setattr(library, "version", lambda name: "0.0.1")
    again()
    assert len(made) == 2


@pytest.mark.slow
def test_it_is_made_in_the_background_unless_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(user_cache, "_processes", processes := {})
    make_in_background()
    make_in_background()
    ((name, process),) = processes.items()
    assert process.wait(60) == 0
    content = (tmp_path / "evalplugin" / name).read_bytes().partition(b"\n")[2]
    assert set(json.loads(content)["charts"]) >= {"forest", "trend"}
    processes.clear()
    make_in_background()
    assert processes == {}
    monkeypatch.setattr(library, "_make", lambda: pytest.fail("it is there"))
    assert "vegaEmbed" in again().script
