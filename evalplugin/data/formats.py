"""File formats of tables: CSV, Parquet, and TREC's runs and qrels."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from evalplugin.base.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CsvFormat", "FileFormat", "ParquetFormat", "TrecFormat", "readable"]

_RUN = ("user", "q0", "item", "trec_rank", "score", "tag")
_QRELS = ("user", "iteration", "item", "rating")


@contextmanager
def readable(source: object) -> Iterator[None]:
    """Turn Arrow's and the system's errors into a DataError that names the file or column."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{source}: cannot be read: {error}") from None


class FileFormat(Protocol):
    """Reads one file; raises ArrowException, OSError or DataError for a file of another format."""

    def names(self, file: Path) -> list[str]:
        """Return the names of the columns."""

    def read(self, file: Path, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns, by role, such as ``{"user": "user_id"}``."""


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet."""

    def names(self, file: Path) -> list[str]:
        """Return the names in the schema."""
        from pyarrow import parquet

        return [str(name) for name in parquet.read_schema(file).names]

    def read(self, file: Path, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns."""
        from pyarrow import parquet

        return parquet.ParquetFile(file).read(columns=list(dict.fromkeys(roles.values())))


@dataclass(frozen=True)
class CsvFormat:
    """CSV in UTF-8, also compressed (.gz, .bz2); types are inferred, apart from those of ``text``."""

    separator: str = ","
    columns: Sequence[str] | None = None  # names of all columns, for files without a header line
    text: Collection[str] = ()  # roles of columns whose values are read as text

    def names(self, file: Path) -> list[str]:
        """Return the names in the header line, or those given; none for an empty file."""
        import csv

        import pyarrow as pa

        if self.columns:
            return list(self.columns)
        with TextIOWrapper(pa.input_stream(file), encoding="utf-8-sig", newline="") as lines:
            try:
                return next(csv.reader(lines, delimiter=self.separator), [])
            except (csv.Error, UnicodeDecodeError) as error:
                raise DataError(f"{file}: cannot be read: {error}") from None

    def read(self, file: Path, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns; empty values are null."""
        import pyarrow as pa
        from pyarrow import csv

        parse = csv.ParseOptions(delimiter=self.separator)
        # An empty text is a missing value; words such as NA or null are not.
        convert = csv.ConvertOptions(
            include_columns=list(dict.fromkeys(roles.values())),
            column_types={name: pa.string() for role, name in roles.items() if role in self.text},
            null_values=[""],
            strings_can_be_null=True,
        )
        try:
            return csv.read_csv(file, csv.ReadOptions(column_names=self.columns), parse, convert)
        except pa.ArrowInvalid:
            # Only a single thread knows at which row it fails.
            single = csv.ReadOptions(use_threads=False, column_names=self.columns)
            return csv.read_csv(file, single, parse, convert)


@dataclass(frozen=True)
class TrecFormat:
    """TREC's runs (``user q0 item trec_rank score tag``) and qrels (``user iteration item rating``)."""

    run: bool

    def names(self, file: Path) -> list[str]:
        """Return the names of the values of a line."""
        return list(_RUN if self.run else _QRELS)

    def read(self, file: Path, roles: Mapping[str, str]) -> pa.Table:
        """Return users and items as text, and the score or the rating."""
        import pandas as pd
        import pyarrow as pa

        names, number = self.names(file), "score" if self.run else "rating"
        try:
            frame = pd.read_csv(
                file, sep=r"\s+", header=None, dtype=str, quoting=3, keep_default_na=False, na_filter=False
            )
        except pd.errors.EmptyDataError:
            frame = pd.DataFrame(columns=names, dtype=str)
        except (pd.errors.ParserError, UnicodeDecodeError) as error:
            raise DataError(f"{file}: cannot be read as TREC's {' '.join(names)}: {error}") from None
        if frame.shape[1] != len(names):
            raise DataError(
                f"{file}: a line of a TREC {'run' if self.run else 'qrels file'} has {len(names)} values "
                f"({' '.join(names)}), but this one has {frame.shape[1]}"
            )
        frame.columns = pd.Index(names)
        values = pd.to_numeric(frame[number], errors="coerce").astype(np.float64)
        wrong = np.flatnonzero(values.isna())
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{file}: line {row + 1}: the {number} must be a number, not {frame[number].iloc[row]!r}"
            )
        ids = {name: pa.array(frame[name], pa.large_string()) for name in ("user", "item")}
        return pa.table(ids | {number: pa.array(values)})
