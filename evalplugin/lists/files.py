"""Files of lists, truth and train data: CSV, Parquet (a file, a folder, a pattern), TREC runs and qrels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from evalplugin.base.errors import DataError, did_you_mean
from evalplugin.data.files import find_files
from evalplugin.lists.columns import Source

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "FileSource", "Format"]

Format: TypeAlias = Literal["auto", "csv", "parquet", "trec"]
FORMATS: tuple[str, ...] = get_args(Format)
_CSV_ENDINGS = (".csv", ".csv.gz", ".csv.bz2", ".tsv", ".tsv.gz")
_RUN = ("user", "q0", "item", "trec_rank", "score", "tag")
_QRELS = ("user", "iteration", "item", "rating")
# Bytes that a value takes in memory: ids and numbers as they are decoded, text with its offset.
_NUMBER, _TEXT = 8, 32


@dataclass(frozen=True)
class FileSource:
    """One or several files with the same columns."""

    path: str  # as it was given
    role: str  # lists, truth or train
    files: tuple[Path, ...]
    format: Format
    text_ids: bool = False  # CSV: ids that look like integers stay text

    @classmethod
    def find(
        cls, path: str | Path, role: str, *, format: Format = "auto", text_ids: bool = False
    ) -> FileSource:
        """Return the files that a path means, and their format.

        Raises:
            DataError: There is no such file, or its format is not known.
        """
        if format not in FORMATS:
            near = did_you_mean(format, FORMATS)
            raise DataError(f"the format must be one of {', '.join(FORMATS)}, not {format!r}{near}")
        text = str(path)
        full = Path(text).expanduser()
        found = find_files(
            Path(), text, "*.parquet" if full.is_dir() and format in ("auto", "parquet") else None
        )
        if format == "auto":
            name = found[0].name.casefold()
            if name.endswith(".parquet"):
                format = "parquet"
            elif name.endswith(_CSV_ENDINGS):
                format = "csv"
            else:
                raise DataError(
                    f"{found[0]}: the format is not known by the name: name the file .csv, .tsv or .parquet, "
                    f"or say which it is: {', '.join(FORMATS[1:])}"
                )
        return cls(text, role, tuple(found), format, text_ids)

    @property
    def names(self) -> list[str]:
        """The names of the columns, as the first file has them."""
        if self.format == "trec":
            return list(_RUN if self.role == "lists" else _QRELS)
        if self.format == "parquet":
            return [str(name) for name in self._schema(self.files[0]).names]
        from evalplugin.data.datasets.tables import header

        return header(self.files[0], _separator(self.files[0]))

    def n_rows(self) -> int | None:
        """Return the number of rows, None where it is not known without reading them."""
        if self.format != "parquet":
            return None
        from pyarrow import parquet

        with _readable(self.files[0]):
            return sum(int(parquet.read_metadata(file).num_rows) for file in self.files)

    def n_bytes(self, names: Sequence[str]) -> int:
        """Return about how much memory some of the columns take."""
        rows = self.n_rows()
        if rows is None:
            return sum(2 * file.stat().st_size for file in self.files)
        import pyarrow as pa

        schema = self._schema(self.files[0])
        numbers = [n for n in names if n in schema.names and pa.types.is_primitive(schema.field(n).type)]
        return rows * (_NUMBER * len(numbers) + _TEXT * (len(names) - len(numbers)))

    def read(self, names: Sequence[str]) -> Source:
        """Return some of the columns as one table, whose rows know where they stand.

        Raises:
            DataError: A file cannot be read, or is unlike the first one.
        """
        import pyarrow as pa

        tables = []
        for file in self.files:
            with _readable(file):
                tables.append(self._read(file, names))
        try:
            filled = [table for table in tables if len(table)] or tables[:1]
            whole = pa.concat_tables(filled, promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"{self.path}: the files' columns are of different types: {error}") from None
        return Source(whole, self.path, self.placing([len(table) for table in tables]))

    def placing(self, lengths: Sequence[int]) -> Callable[[int], str]:
        """Return what says in which file and row a row of all files stands."""
        ends = np.cumsum(lengths)

        def place(row: int) -> str:
            number = int(np.searchsorted(ends, row, side="right"))
            before = int(ends[number - 1]) if number else 0
            of = "" if len(self.files) == 1 else f" of {self.files[number].name}"
            return f"row {row - before + 1}{of} (counted from 1)"

        return place

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Source]:
        """Yield the rows of Parquet files, that many at a time, without ever holding more."""
        import pyarrow as pa
        from pyarrow import parquet

        for file in self.files:
            done = 0
            with _readable(file), parquet.ParquetFile(file) as opened:
                self._check_columns(file, names, opened.schema_arrow.names)
                for batch in opened.iter_batches(batch_size=rows, columns=list(names), use_threads=False):
                    start, of = done, "" if len(self.files) == 1 else f" of {file.name}"
                    done += len(batch)
                    yield Source(
                        pa.Table.from_batches([batch]),
                        self.path,
                        lambda row, start=start, of=of: f"row {start + row + 1}{of} (counted from 1)",  # type: ignore[misc]
                    )

    def _read(self, file: Path, names: Sequence[str]) -> pa.Table:
        if self.format == "trec":
            return _read_trec(file, self.role)
        if self.format == "parquet":
            from pyarrow import parquet

            self._check_columns(file, names, self._schema(file).names)
            return parquet.ParquetFile(file).read(columns=list(names))
        import pyarrow as pa
        from pyarrow import csv

        from evalplugin.data.datasets.tables import header

        separator = _separator(file)
        self._check_columns(file, names, header(file, separator))
        types = {name: pa.string() for name in names[:2]} if self.text_ids else {}
        # An empty text is a missing value; words such as NA or null are not.
        convert = csv.ConvertOptions(
            include_columns=list(names), column_types=types, null_values=[""], strings_can_be_null=True
        )
        return csv.read_csv(
            file, parse_options=csv.ParseOptions(delimiter=separator), convert_options=convert
        )

    def _check_columns(self, file: Path, names: Sequence[str], found: Sequence[str]) -> None:
        for name in names:
            if name not in found:
                hint = did_you_mean(name, list(found), noun="columns")
                raise DataError(f"{file}: no column {name!r}{hint}")

    def _schema(self, file: Path) -> Any:
        from pyarrow import parquet

        with _readable(file):
            return parquet.read_schema(file)


class _readable:  # noqa: N801 - reads as a word: with _readable(file)
    """Turns what Arrow says of a file that it cannot read into an error that names the file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        import pyarrow as pa

        if isinstance(error, (pa.ArrowException, OSError)):
            raise DataError(f"{self.file}: cannot be read: {error}") from None


def _separator(file: Path) -> str:
    return "\t" if ".tsv" in file.name.casefold() else ","


def _read_trec(file: Path, role: str) -> pa.Table:
    """Return the columns of a TREC run (lists) or of qrels; all ids are text."""
    import pandas as pd
    import pyarrow as pa

    names = _RUN if role == "lists" else _QRELS
    number = "score" if role == "lists" else "rating"
    try:
        frame = pd.read_csv(
            file, sep=r"\s+", header=None, dtype=str, quoting=3, keep_default_na=False, na_filter=False
        )
    except pd.errors.EmptyDataError:
        return pa.table({n: pa.array([], pa.string()) for n in ("user", "item", number)})
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise DataError(f"{file}: cannot be read as TREC's {' '.join(names)}: {error}") from None
    if frame.shape[1] != len(names):
        raise DataError(
            f"{file}: a line of a TREC {'run' if role == 'lists' else 'qrels file'} has {len(names)} values "
            f"({' '.join(names)}), but this one has {frame.shape[1]}"
        )
    frame.columns = pd.Index(names)
    values = pd.to_numeric(frame[number], errors="coerce")
    wrong = np.flatnonzero(values.isna())
    if len(wrong):
        row = int(wrong[0])
        raise DataError(
            f"{file}: line {row + 1}: the {number} must be a number, not {frame[number].iloc[row]!r}"
        )
    return pa.table(
        {
            "user": pa.array(frame["user"], pa.large_string()),
            "item": pa.array(frame["item"], pa.large_string()),
            number: pa.array(values.astype(np.float64)),
        }
    )
