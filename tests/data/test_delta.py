"""Delta tables, on this machine and in S3: the current version, its partitions, and what cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from servers import ObjectStorage

import evalplugin
from evalplugin.base.errors import DataError
from evalplugin.data import LoadContext, Parquet
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import ParquetFormat
from evalplugin.files.stores import delta_options

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("s3")]

MAPPED = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
COLUMNS = ("user", "item", "rank", "day", "shard")
DAY = "2026-01-31"
ROWS = [(1, 10, 1, DAY, 1), (1, 11, 2, DAY, 1), (2, 12, 1, "a b/%c", 2), (3, 13, 1, None, 3)]


def _write(uri: str) -> None:
    from deltalake import DeltaTable, write_deltalake

    options: dict[str, str] = delta_options(uri) if "://" in uri else {}
    table = pa.table(dict(zip(COLUMNS, zip(*ROWS, strict=True), strict=True)))
    write_deltalake(uri, table, partition_by=["day", "shard"], storage_options=options)
    write_deltalake(uri, table.slice(2, 1), mode="append", storage_options=options)
    DeltaTable(uri, storage_options=options).delete("user = 3")
    DeltaTable(uri, storage_options=options).delete("item = 12")
    write_deltalake(uri, table.slice(2), mode="append", storage_options=options)


def _rows(uri: str) -> list[tuple[Any, ...]]:
    found = find_files(Path(), uri, "*.parquet")
    table = TableFiles(uri, found.files, ParquetFormat(), found.partitions).read(
        {name: name for name in COLUMNS}
    )
    return sorted(zip(*(table.arrow(name).to_pylist() for name in COLUMNS), strict=True))


@pytest.mark.parametrize("remote", [False, True])
def test_the_current_version_is_read(s3: ObjectStorage, tmp_path: Path, remote: bool) -> None:
    uri = f"{s3.bucket}/delta/of lists" if remote else str(tmp_path / "table")
    _write(uri)
    assert _rows(uri) == ROWS
    truth = pa.table({"user": [1, 2, 3], "item": [11, 12, 0]})
    assert evalplugin.score(uri, truth, ["hit@1"]).means == {"hit@1": pytest.approx(1 / 3)}
    assert len(Parquet(path=uri).load(LoadContext())) == 4


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    _write(str(tmp_path))
    DeltaTable(tmp_path).delete()
    with pytest.raises(DataError, match="the current version 5 of the Delta table has no rows"):
        find_files(tmp_path, ".", "*.parquet")


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(DataError, match="cannot be read as a Delta table: ") as caught:
        find_files(tmp_path, ".", "*.parquet")
    assert "\n" not in str(caught.value)


def test_features_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    field = {"name": "user", "type": "long", "nullable": True, "metadata": MAPPED}
    schema = {"type": "struct", "fields": [field]}
    metadata = {
        "id": "a", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(schema),
        "partitionColumns": [], "configuration": {}, "createdTime": 0,
    }  # fmt: skip
    # Row 0 is deleted: a roaring bitmap, as the protocol of Delta writes it into the log.
    vector = {"storageType": "i", "pathOrInlineDv": "", "sizeInBytes": 0, "cardinality": 1}
    vector |= _inline_vector()
    stats = json.dumps({"numRecords": 5})
    add = {"path": "a.parquet", "partitionValues": {}, "size": 9, "modificationTime": 0, "dataChange": True}
    (tmp_path / "_delta_log").mkdir()
    log = tmp_path / "_delta_log" / "00000000000000000000.json"

    def write(feature: str, configuration: dict[str, str], **more: object) -> None:
        protocol: dict[str, object] = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": [feature], "writerFeatures": [feature]}
        metadata["configuration"] = configuration
        actions = ({"protocol": protocol}, {"metaData": metadata}, {"add": {**add, "stats": stats, **more}})
        log.write_text("\n".join(map(json.dumps, actions)))

    write("deletionVectors", {"delta.enableDeletionVectors": "true"}, deletionVector=vector)
    with pytest.raises(DataError, match="has deletion vectors, which cannot be applied: run REORG TABLE"):
        find_files(tmp_path, ".", "*.parquet")
    write("deletionVectors", {"delta.enableDeletionVectors": "true"})
    assert [file.name for file in find_files(tmp_path, ".", "*.parquet").files] == ["a.parquet"]
    write("columnMapping", {"delta.columnMapping.mode": "name"})
    with pytest.raises(DataError, match=r"has column mapping \(name\)"):
        find_files(tmp_path, ".", "*.parquet")


def _inline_vector() -> dict[str, object]:
    """Return a deletion vector of row 0: a portable 64-bit roaring bitmap behind its magic number, in Z85."""
    import struct

    bitmap = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, 0)  # cookie, containers, key, rows - 1, offset, row
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    data += b"\0" * (-len(data) % 4)
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        text += "".join(letters[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return {"pathOrInlineDv": text, "sizeInBytes": len(data)}
