"""Values that processes share: read back as they were, read-only, through one handle a file."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import interactions
from scipy import sparse

from evalplugin.base.errors import StoreError
from evalplugin.execution.shared import private_folder, read_value, write_value

VALUES: dict[str, Any] = {
    "nothing": {},
    "arrays": {"a": np.arange(7, dtype=np.int8), "b": np.linspace(0, 1, 10), "c": np.arange(3.0)},
    "empty": {"a": np.empty(0), "b": np.empty((0, 3), dtype=np.int32), "c": np.arange(2)},
    "strides": {"a": np.arange(20)[::3], "b": np.arange(12.0).reshape(3, 4).T, "c": np.array(5.0)},
    "objects": {"a": np.array(["x", "yz", None], dtype=object), "b": "text", "c": [1, {"d": 2.5}]},
    "words": {"a": np.array(["x", "yz"])},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_values_are_read_as_they_were_written(tmp_path: Path, value: dict[str, Any]) -> None:
    write_value(value, tmp_path / "shared")
    read = read_value(tmp_path / "shared")
    assert list(read) == list(value)
    for name, expected in value.items():
        np.testing.assert_array_equal(read[name], expected, strict=isinstance(expected, np.ndarray))


def test_data_and_matrices_have_the_same_bits(tmp_path: Path) -> None:
    data, matrix = interactions(text_ids=True), sparse.random(30, 20, 0.3, format="csr", rng=1)
    write_value((data, matrix), tmp_path / "shared")
    again, product = read_value(tmp_path / "shared")
    assert again.digest == data.digest
    assert (product != matrix).nnz == 0


def test_arrays_are_aligned_and_cannot_be_changed(tmp_path: Path) -> None:
    write_value([np.arange(n, dtype=np.int16) for n in range(1, 40)], tmp_path / "shared")
    for array in read_value(tmp_path / "shared"):
        assert array.ctypes.data % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="the system does not show handles")
def test_one_handle_is_open_for_all_arrays_of_a_file(tmp_path: Path) -> None:
    write_value([np.arange(100)] * 3 + [np.ones(n) for n in range(30)], tmp_path / "shared")
    before = len(os.listdir("/dev/fd"))
    held = read_value(tmp_path / "shared")
    assert len(os.listdir("/dev/fd")) - before <= 1
    assert len(held) == 33
    del held
    assert len(os.listdir("/dev/fd")) == before


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
