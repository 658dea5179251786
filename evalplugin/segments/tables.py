"""Tables of users: a CSV file, a Parquet file or a DataFrame, read column by column."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.data.datasets.tables import header
from evalplugin.data.encoding import row_number
from evalplugin.data.files import find_files

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CsvTable", "FrameTable", "ParquetTable", "UserTable", "find_file", "ids_of", "values_of"]


class UserTable(Protocol):
    """A table whose columns are read when they are needed. Both methods raise DataError for what cannot be read."""

    written: ClassVar[bool]  # whether numbers stand there as text

    @property
    def source(self) -> str:
        """What messages call it."""

    def names(self) -> list[str]:
        """Return the names of the columns."""

    def read(self, name: str) -> pa.ChunkedArray:
        """Return a column."""


@dataclass(frozen=True)
class CsvTable:
    """A CSV file. All values are text, as they are written: types guessed from the first rows may not fit the rest."""

    written: ClassVar[bool] = True
    file: Path
    separator: str
    columns: list[str] | None  # where there is no header line

    @property
    def source(self) -> str:
        """The path."""
        return str(self.file)

    def names(self) -> list[str]:
        """Return the names in the header line, or those given."""
        with _reading(self.file):
            names = self.columns or header(self.file, self.separator)
        if not names:
            raise DataError(f"{self.file} is empty: it has no line with the names of its columns")
        return names

    def read(self, name: str) -> pa.ChunkedArray:
        """Return a column; what is empty is null."""
        import pyarrow as pa
        from pyarrow import csv

        options = csv.ReadOptions(column_names=self.columns)
        parse = csv.ParseOptions(delimiter=self.separator)
        convert = csv.ConvertOptions(
            include_columns=[name],
            column_types={name: pa.string()},
            null_values=[""],
            strings_can_be_null=True,
        )
        with _reading(self.file):
            return csv.read_csv(self.file, options, parse, convert).column(name)


@dataclass(frozen=True)
class ParquetTable:
    """A Parquet file."""

    written: ClassVar[bool] = False
    file: Path

    @property
    def source(self) -> str:
        """The path."""
        return str(self.file)

    def names(self) -> list[str]:
        """Return the names in the schema."""
        from pyarrow import parquet

        with _reading(self.file):
            return list(parquet.read_schema(self.file).names)

    def read(self, name: str) -> pa.ChunkedArray:
        """Return a column."""
        from pyarrow import parquet

        with _reading(self.file):
            return parquet.ParquetFile(self.file).read(columns=[name]).column(name)


@dataclass(frozen=True)
class FrameTable:
    """A pandas DataFrame."""

    written: ClassVar[bool] = False
    frame: Any

    source: ClassVar[str] = "frame"

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return [str(name) for name in self.frame.columns]

    def read(self, name: str) -> pa.ChunkedArray:
        """Return a column."""
        import pyarrow as pa

        with _reading(f"frame: column {name!r}"):
            values = pa.Array.from_pandas(self.frame.iloc[:, self.names().index(name)])
        return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def find_file(base: Path, path: str) -> Path:
    """Return the one file that a path means.

    Raises:
        DataError: There is none, or there are several.
    """
    files = find_files(base, path)
    if len(files) > 1:
        raise DataError(f"{path} means {len(files)} files; name one")
    return files[0]


def ids_of(table: UserTable, name: str, like: npt.NDArray[np.generic]) -> npt.NDArray[Any]:
    """Return a column of user ids as those of the data are: int64, or str as object.

    Raises:
        DataError: An id is missing, or they are not of the type of ``like``; names the first row that is not.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = like.dtype == object
    column = _decoded(table.read(name))
    if table.written and not text:
        right = pc.fill_null(pc.match_substring_regex(column, r"^[+-]?[0-9]+$"), False)
    elif _is_text(column) if text else pa.types.is_integer(column.type):
        right = pc.is_valid(column)
    else:
        right = pa.repeat(False, len(column))
    row = pc.index(right, False).as_py()
    if row >= 0:
        value = column[row].as_py()
        raise DataError(
            f"{table.source}: column {name!r}, {row_number(row)} is {'empty' if value is None else repr(value)}: "
            f"user ids must be {'text' if text else 'integers'}, as those of the data are "
            f"(such as {like[:1].tolist()[0]!r})"
        )
    with _reading(f"{table.source}: column {name!r}"):
        ids: npt.NDArray[Any] = column.cast(pa.string() if text else pa.int64()).to_numpy()
    return ids


def values_of(table: UserTable, name: str, *, as_text: bool) -> npt.NDArray[Any]:
    """Return a column as float64 where all of it is numbers, else as text; what is missing or empty is NaN or None.

    Raises:
        DataError: The values are neither numbers nor text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _decoded(table.read(name))
    if not as_text and (numbers := _numbers(column, table.written)) is not None:
        return numbers
    if pa.types.is_nested(column.type):
        raise DataError(f"{table.source}: column {name!r} is {column.type}: it must hold numbers or text")
    with _reading(f"{table.source}: column {name!r}"):
        texts = column.cast(pa.string())
    empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)
    values: npt.NDArray[Any] = pc.if_else(pc.fill_null(empty, True), None, texts).to_numpy()
    return values


def _numbers(column: pa.ChunkedArray, written: bool) -> npt.NDArray[np.float64] | None:
    """Return the column as numbers, or None if not all of it is."""
    import pyarrow as pa

    kind = column.type
    if not (written or pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    try:
        numbers: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy()
    except pa.ArrowInvalid:
        return None
    return numbers


@contextmanager
def _reading(what: object) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{what}: cannot be read: {error}") from None


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa

    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(column: pa.ChunkedArray) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
