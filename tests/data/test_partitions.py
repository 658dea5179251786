"""Columns that folders name."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalplugin.base.errors import DataError
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import ParquetFormat


def _files(folder: Path, path: str = ".") -> TableFiles:
    found = find_files(folder, path, "*.parquet")
    return TableFiles(path, found.files, ParquetFormat(), found.partitions)


def _write(file: Path, **columns: list[object]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), file)


def test_columns_are_those_that_arrow_finds(tmp_path: Path) -> None:
    table = pa.table(
        {
            "user": [1, 2, 3, 4],
            "day": ["2026-01-31", "a/b c", None, "2026-01-31"],
            "shard": [1, 20, -3, 1],
            "big": ["1", "99999999999", "2", "1"],
        }
    )
    pq.write_to_dataset(table, tmp_path, ["day", "shard", "big"])
    ours = _files(tmp_path).read({name: name for name in table.column_names})
    theirs = pq.read_table(tmp_path, partitioning="hive")
    assert {name: str(ours.arrow(name).type) for name in table.column_names} == {
        name: str(theirs[name].type.value_type if name != "user" else theirs[name].type).replace(
            "dictionary", ""
        )
        for name in table.column_names
    }
    rows = {name: ours.arrow(name).to_pylist() for name in table.column_names}
    expected = {name: theirs[name].to_pylist() for name in table.column_names}
    assert sorted(zip(*rows.values(), strict=True)) == sorted(zip(*expected.values(), strict=True))


def test_batches_have_the_columns_of_folders(tmp_path: Path) -> None:
    _write(tmp_path / "shard=1" / "a.parquet", user=[1, 2, 3])
    _write(tmp_path / "shard=2" / "a.parquet", user=[4])
    found = [
        (batch.arrow("user").to_pylist(), batch.arrow("shard").to_pylist())
        for batch in _files(tmp_path, "**/*.parquet").pieces({"user": "user", "rank": "shard"}, 2)
    ]
    assert found == [([1, 2], [1, 1]), ([3], [1]), ([4], [2])]


def test_columns_of_folders_stay_when_paths_become_absolute() -> None:
    _write(Path("shard=1") / "a.parquet", user=[1])
    files = pickle.loads(pickle.dumps(_files(Path()).with_absolute_paths()))
    assert files.read({"user": "user", "rank": "shard"}).arrow("shard").to_pylist() == [1]


def test_folders_before_the_wildcard_name_no_column(tmp_path: Path) -> None:
    _write(tmp_path / "run=7" / "shard=1" / "a.parquet", user=[1])
    assert _files(tmp_path, "run=7/*/*.parquet").columns == ["user", "shard"]
    assert _files(tmp_path, "run=7/shard=1/a.parquet").columns == ["user"]


def test_a_column_of_folder_and_file_is_refused_only_where_it_is_read(tmp_path: Path) -> None:
    _write(tmp_path / "shard=1" / "a.parquet", user=[1], shard=[1])
    files = _files(tmp_path)
    assert len(files.read({"user": "user"})) == 1
    with pytest.raises(DataError, match="column 'shard' is in the file, and its folder shard=1"):
        files.read({"user": "user", "rank": "shard"})


def test_a_file_outside_of_such_folders_is_refused_only_where_they_are_read(tmp_path: Path) -> None:
    _write(tmp_path / "shard=1" / "a.parquet", user=[1])
    _write(tmp_path / "b.parquet", user=[2])
    files = _files(tmp_path)
    assert len(files.read({"user": "user"})) == 2
    with pytest.raises(DataError, match=r"b\.parquet: no column 'shard', and no folder shard="):
        files.read({"user": "user", "rank": "shard"})
