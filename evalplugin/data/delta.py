"""Delta tables: the files of the current version, and the columns that their log keeps beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

from evalplugin.base.errors import DataError, how_to_install
from evalplugin.base.text import shorten
from evalplugin.data.libraries import pa
from evalplugin.files.remote import File, RemoteFile
from evalplugin.files.stores import delta_options
from evalplugin.files.uris import is_remote

__all__ = ["LOG", "delta_files"]

LOG = "_delta_log"
_COPY = ", or write a copy of it as plain Parquet"


def delta_files(folder: str | Path) -> tuple[tuple[File, ...], tuple[dict[str, pa.Scalar], ...]]:
    """Return the files of a table's current version, sorted, and for each its values of the partition columns.

    Raises:
        DataError: The package is missing; or the table has deletion vectors, column mapping or no files.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise DataError(
            f"{folder}: is a Delta table, and the package deltalake is not installed: "
            f"{how_to_install('deltalake', 'delta')}"
        ) from None
    try:
        options = delta_options(str(folder)) if is_remote(folder) else None
        table = DeltaTable(str(folder), storage_options=options)
        _refuse_features(folder, table)
        return _files(folder, table)
    except (DeltaError, OSError, ValueError) as error:
        text = " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())
        raise DataError(f"{folder}: cannot be read as a Delta table: {shorten(text, 300)}") from None


def _files(folder: str | Path, table: Any) -> tuple[tuple[File, ...], tuple[dict[str, pa.Scalar], ...]]:
    schema = pa.schema(table.schema())
    types = {name: schema.field(name).type for name in table.metadata().partition_columns}
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if not actions:
        raise DataError(f"{folder}: the current version {table.version()} of the Delta table has no rows")
    values: dict[File, dict[str, pa.Scalar]] = {}
    for action in actions:
        # Paths of the log are encoded as URLs; the names of files are what that stands for.
        path = unquote(action["path"])
        file: File = Path(folder) / path
        if is_remote(folder):
            uri = path if is_remote(path) else f"{str(folder).rstrip('/')}/{path}"
            file = RemoteFile(uri, action["size_bytes"], 10**6 * action["modification_time"])
        values[file] = {name: pa.scalar(action[f"partition.{name}"], kind) for name, kind in types.items()}
    files = tuple(sorted(values, key=str))
    return files, tuple(values[file] for file in files) if types else ()


def _refuse_features(folder: str | Path, table: Any) -> None:
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        raise DataError(
            f"{folder}: the Delta table has column mapping ({mapping}), which cannot be read{_COPY}"
        )
    features = table.protocol().reader_features or []
    if "deletionVectors" in features and any(batch.num_rows for batch in table.deletion_vectors()):
        raise DataError(
            f"{folder}: the Delta table has deletion vectors, which cannot be applied: run REORG TABLE ... APPLY "
            f"(PURGE) on it{_COPY}"
        )
