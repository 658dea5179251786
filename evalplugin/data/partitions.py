"""Columns that folders name, such as ``day=2026-01-31``: Hive's partitions, as Spark and Arrow write them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from evalplugin.base.errors import DataError
from evalplugin.data.reading import path_text
from evalplugin.files.remote import File

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NO_PARTITIONS", "Partitions", "partitions_below"]

_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class Partitions:
    """Columns whose value is the same in all rows of a file, and is that of its folder."""

    types: Mapping[str, Any] = field(default_factory=dict)  # of Arrow, by the name of the column
    # By file and column; None: null.
    values: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)

    def check(self, file: File, names: Sequence[str], wanted: Collection[str]) -> None:
        """Check that a value of each column that is ``wanted`` is known, and only one.

        Args:
            file: One of the files.
            names: The columns in it.
            wanted: Names of columns.

        Raises:
            DataError: A column is in the file too, or the file is in no folder that names it.
        """
        values = self.values.get(str(file), {})
        for name in (name for name in self.types if name in wanted):
            if name in names and name in values:
                raise DataError(
                    f"{path_text(file)}: column {name!r} is in the file, and its folder {name}={values[name]} is "
                    f"such a column too: rename one"
                )
            if name not in names and name not in values:
                raise DataError(
                    f"{path_text(file)}: no column {name!r}, and no folder {name}=... as of other files: all need it"
                )

    def add_to(self, table: pa.Table, file: File, wanted: Collection[str]) -> pa.Table:
        """Return the rows of a file with those of the columns that are ``wanted``."""
        import pyarrow as pa

        value = self.values.get(str(file), {})
        for name, kind in self.types.items():
            if name in wanted and name in value:
                scalar = pa.scalar(value[name], pa.string()).cast(kind)
                table = table.append_column(name, pa.repeat(scalar, len(table)))
        return table


NO_PARTITIONS = Partitions()


def partitions_below(folder: str | Path, files: Sequence[File]) -> Partitions:
    """Return the columns that the folders between ``folder`` and the files name.

    Values are 32-bit integers if all of a column are, or else text, as Arrow infers.
    """
    found = {str(file): values for file in files if (values := _values(str(file)[len(str(folder)) :]))}
    names = dict.fromkeys(name for values in found.values() for name in values)
    if not names:
        return NO_PARTITIONS
    return Partitions(
        {name: _type([values[name] for values in found.values() if name in values]) for name in names}, found
    )


def _values(path: str) -> dict[str, str | None]:
    pairs = [part.partition("=") for part in path.replace("\\", "/").split("/")[:-1]]
    named = {unquote(name): unquote(value) for name, equals, value in pairs if name and equals}
    return {name: None if value == _NULL else value for name, value in named.items()}


def _type(values: Sequence[str | None]) -> pa.DataType:
    import pyarrow as pa

    try:
        pa.array(values, pa.string()).cast(pa.int32())
    except pa.ArrowInvalid:
        return pa.string()
    return pa.int32()
