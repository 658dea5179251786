from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from evalplugin.base.errors import StoreError
from evalplugin.execution.store import private_folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which private folders are made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_private_folder_is_empty_writable_by_its_owner_alone_and_removed(temporary: Path) -> None:
    with private_folder() as folder:
        assert list(folder.iterdir()) == []
        assert folder.parent == temporary
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").write_text("x")
    assert list(temporary.iterdir()) == []


def test_private_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    if (child := os.fork()) == 0:
        with private_folder() as folder:
            (folder / "left").write_text("x")
            os._exit(0)
    os.waitpid(child, 0)
    assert list(temporary.rglob("left")) != []
    with private_folder() as mine:
        assert list(temporary.rglob("left")) == []
        with private_folder():
            assert mine.exists()


def test_private_folder_names_tmpdir_where_it_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(StoreError, match=r"cannot write to .*TMPDIR"), private_folder():
        pass


@pytest.mark.usefixtures("temporary")
def test_an_error_of_the_work_in_a_private_folder_stays_what_it_is() -> None:
    with pytest.raises(PermissionError), private_folder():
        raise PermissionError("of the work")
