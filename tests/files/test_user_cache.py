"""Content in the user's cache: made once, checked when it is read, made in the background."""

from __future__ import annotations

import subprocess
import sys
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


@pytest.mark.parametrize("damage", [b"", b"{", b"\n", b"\xff", None])
def test_a_damaged_file_is_not_used_and_replaced(folder: Path, damage: bytes | None) -> None:
    make = Maker()
    assert cached("thing", make) == cached("thing", make) == MADE
    assert make.calls == 1
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"bytes", b"other") if damage is None else damage)
    assert cached("thing", make) == MADE
    assert make.calls == 2
    assert file.read_bytes() == whole


def test_a_folder_that_cannot_be_written_costs_only_time(folder: Path) -> None:
    make = Maker()
    folder.write_text("a file")
    assert cached("thing", make) == cached("thing", make) == MADE
    assert make.calls == 2


def test_a_process_that_is_not_needed_ends_with_this_one() -> None:
    code = (
        "from evalplugin.files import user_cache\n"
        "user_cache.make_in_background('a file that is not there', 'signal', 'pause')\n"
        "print(user_cache._processes['a file that is not there'].pid)\n"
    )
    command = [sys.executable, "-W", "always", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    assert not Path(f"/proc/{done.stdout.strip()}").exists()
