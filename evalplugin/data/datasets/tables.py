"""The datasets ``csv``, ``parquet`` and ``dataframe``: interactions from people's own tables."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from evalplugin.base.errors import DataError, Problem
from evalplugin.data.base import LoadContext, dataset
from evalplugin.data.files import Columns, check_files, find_files, read_files, unused_rating
from evalplugin.data.interactions import DuplicatePolicy, Interactions

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["Csv", "DataFrame", "Parquet", "header"]

UserColumn = Annotated[str, Field(description="name of the column of user ids (integers or text)")]
ItemColumn = Annotated[str, Field(description="name of the column of item ids (integers or text)")]
RatingColumn = Annotated[
    str | None,
    Field(description="name of the column of ratings or counts; null: implicit data, every rating is 1.0"),
]
TimestampColumn = Annotated[
    str | None, Field(description="name of the column of times; null: the data has no times")
]
Duplicates = Annotated[
    DuplicatePolicy,
    Field(
        description="a user-item pair that stands twice: refuse it, take its last row, or the mean or max rating"
    ),
]


def _columns(options: Csv | Parquet) -> Columns:
    return Columns(options.user, options.item, options.rating, options.timestamp, options.duplicates)


@dataset("csv")
@dataclass(frozen=True)
class Csv:
    """Interactions from one or several CSV files with a header line; compressed files (.gz, .bz2) too.

    Files are UTF-8, and a value may stand in double quotes. Ids that are all whole numbers are integers, any
    others are text; ``ids: text`` keeps all as they are written (leading zeros!). Times are numbers, or
    dates as in ISO 8601.
    """

    path: Annotated[
        str, Field(min_length=1, description="a file, or a pattern of several such as logs/*.csv")
    ]
    user: UserColumn = "user"
    item: ItemColumn = "item"
    rating: RatingColumn = None
    timestamp: TimestampColumn = None
    duplicates: Duplicates = "error"
    separator: Annotated[str, Field(min_length=1, max_length=1, description="what stands between values")] = (
        ","
    )
    columns: Annotated[
        list[str] | None,
        Field(min_length=2, description="names of all columns, for files without a header line"),
    ] = None
    ids: Annotated[Literal["auto", "text"], Field(description="what ids are read as")] = "auto"

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such file."""
        return check_files(context.base, self.path)

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of all files, in the order of their names."""
        from pyarrow import csv

        parse = csv.ParseOptions(delimiter=self.separator)
        names = {"column_names": self.columns} if self.columns else {}

        def columns_of(file: Path) -> list[str]:
            return self.columns or header(file, self.separator)

        def read(file: Path, wanted: list[str]) -> pa.Table:
            import pyarrow as pa

            # Types are guessed from a file's first block, where all ratings may happen to be whole numbers.
            types = {self.rating: pa.float64()} if self.rating else {}
            if self.ids == "text":
                types |= {self.user: pa.string(), self.item: pa.string()}
            # An empty text is a missing value; words such as NA or null are not.
            convert = csv.ConvertOptions(
                include_columns=wanted, column_types=types, null_values=[""], strings_can_be_null=True
            )
            try:
                return csv.read_csv(file, csv.ReadOptions(**names), parse, convert)
            except pa.ArrowInvalid:
                # Only a single thread knows at which row it fails.
                return csv.read_csv(file, csv.ReadOptions(use_threads=False, **names), parse, convert)

        files = find_files(context.base, self.path)
        return read_files(files, _columns(self), columns_of=columns_of, read=read, report=context.report)


def header(file: Path, separator: str) -> list[str]:
    """Return the values of a CSV file's first line."""
    import csv

    import pyarrow as pa

    with TextIOWrapper(pa.input_stream(file), encoding="utf-8-sig", newline="") as text:
        try:
            return next(csv.reader(text, delimiter=separator), [])
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{file}: cannot be read: {error}") from None


@dataset("parquet")
@dataclass(frozen=True)
class Parquet:
    """Interactions from one or several Parquet files, or from a folder of them (its sub-folders included)."""

    path: Annotated[
        str, Field(min_length=1, description="a file, a folder, or a pattern such as logs/*.parquet")
    ]
    user: UserColumn = "user"
    item: ItemColumn = "item"
    rating: RatingColumn = None
    timestamp: TimestampColumn = None
    duplicates: Duplicates = "error"

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such file, or none in the folder."""
        return check_files(context.base, self.path, inside="*.parquet")

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of all files, in the order of their names."""
        from pyarrow import parquet

        def columns_of(file: Path) -> list[str]:
            return list(parquet.read_schema(file).names)

        def read(file: Path, wanted: list[str]) -> pa.Table:
            return parquet.ParquetFile(file).read(columns=wanted)

        files = find_files(context.base, self.path, inside="*.parquet")
        return read_files(files, _columns(self), columns_of=columns_of, read=read, report=context.report)


@dataset("dataframe")
@dataclass(frozen=True, eq=False)
class DataFrame:
    """Interactions from a pandas DataFrame: for Python only, as a config file cannot hold one.

    ``DataFrame(frame, rating="stars")``; in a config file use ``csv`` or ``parquet``.
    """

    # No field: what a config file could hold, and what is logged, are the fields alone.
    frame: InitVar[Any] = None
    user: UserColumn = "user"
    item: ItemColumn = "item"
    rating: RatingColumn = None
    timestamp: TimestampColumn = None
    duplicates: Duplicates = "error"

    def __post_init__(self, frame: Any) -> None:
        if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
            given = "" if frame is None else f", not {type(frame).__name__}"
            raise ValueError(
                f"dataset type 'dataframe' is for Python only: it takes a pandas DataFrame{given}; "
                f"in a config file use csv or parquet"
            )
        object.__setattr__(self, "_frame", frame)

    def check(self, context: LoadContext) -> list[Problem]:
        """Return nothing: nothing can be missing."""
        return []

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of the frame."""
        frame: pd.DataFrame = self._frame  # type: ignore[attr-defined]
        data = Interactions.from_frame(
            frame,
            user=self.user,
            item=self.item,
            rating=self.rating,
            timestamp=self.timestamp,
            duplicates=self.duplicates,
            source="dataframe",
        )
        return data.noting(*unused_rating(self.rating, [str(c) for c in frame.columns]))
