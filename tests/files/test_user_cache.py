"""Content in the user's cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalplugin.files.user_cache import cached

MADE = b"line\nand\0bytes"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, which does not exist yet."""
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")
    return tmp_path / "cache"


class Maker:
    """Makes the content, and counts how often."""

    calls = 0

    def __call__(self) -> bytes:
        self.calls += 1
        return MADE


def test_content_is_made_once(folder: Path) -> None:
    make = Maker()
    assert cached("thing", make) == cached("thing", make) == MADE
    assert make.calls == 1


def test_a_folder_that_cannot_be_written_costs_only_time(folder: Path) -> None:
    make = Maker()
    folder.write_text("a file")
    assert cached("thing", make) == cached("thing", make) == MADE
    assert make.calls == 2
