from __future__ import annotations

import stat

import pytest

from evalplugin.base.errors import StoreError
from evalplugin.execution.store import private_folder


def test_private_folder_is_empty_writable_by_its_owner_alone_and_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with private_folder() as folder:
        assert list(folder.iterdir()) == []
        assert folder.parent == tmp_path
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").write_text("x")
    assert list(tmp_path.iterdir()) == []


def test_private_folder_names_tmpdir_where_it_cannot_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(StoreError, match=r"cannot write to .*TMPDIR"), private_folder():
        pass
