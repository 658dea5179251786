"""The segment ``attribute``: users grouped by a column of a table of users."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError, Problem
from evalplugin.data import LoadContext, Split
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, ParquetFormat
from evalplugin.data.reading import readable
from evalplugin.data.tables import Table, column_problem
from evalplugin.segments.base import segment
from evalplugin.segments.groups import Groups, by_number, by_quantile, by_text

__all__ = ["Attribute"]


@segment("attribute")
@dataclass(frozen=True, eq=False)
class Attribute:
    """Users by an attribute, such as age or gender, from a table of users: CSV (.gz, .bz2 too) or Parquet.

    The table has a column of user ids, of the same type as those of the data, and any columns of attributes. A column
    in which everything is a number and that has more than ``max_groups`` different ones is cut into ``groups`` of
    about the same size, where users with equal numbers are never parted. Other columns make a group of each value;
    of texts those ``max_groups`` that most test users have, and the rest is one group, such as ``12 other values``.
    Test users who are not in the table, or whose value is missing or empty, are the group ``unknown``.

    A user may have several rows if they agree. From Python a DataFrame may be given as ``frame`` in place of
    ``file``.
    """

    column: Annotated[str, Field(min_length=1, description="name of the column to divide users by")]
    # Not a field, as fields are options of a config file and are logged.
    frame: InitVar[Any] = None
    file: Annotated[
        str | None,
        Field(min_length=1, description="the table of users, relative to the config; .parquet, or else CSV"),
    ] = None
    user: Annotated[str, Field(min_length=1, description="name of the column of user ids")] = "user"
    groups: Annotated[int, Field(ge=1, description="groups of a column of many numbers")] = 4
    max_groups: Annotated[int, Field(ge=1, description="values that make a group each")] = 10
    values: Annotated[
        Literal["auto", "text"],
        Field(description="auto: numbers are numbers; text: they are names, such as codes of regions"),
    ] = "auto"
    separator: Annotated[
        str, Field(min_length=1, max_length=1, description="what stands between values of a CSV file")
    ] = ","
    columns: Annotated[
        list[str] | None,
        Field(min_length=2, description="names of all columns, for a CSV file without a header line"),
    ] = None

    def __post_init__(self, frame: Any) -> None:
        if self.file is None and frame is None:
            raise ValueError("attribute needs a file: a table of users (from Python it may be a frame)")
        if self.file is not None and frame is not None:
            raise ValueError("attribute takes a file or a frame, not both")
        if frame is not None and not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
            raise ValueError(f"frame must be a pandas DataFrame, not {type(frame).__name__}")
        object.__setattr__(self, "_frame", frame)

    def check(self, context: LoadContext) -> list[Problem]:
        """Return problems if there is no such file, or no such column in it."""
        try:
            return self._column_problems(self._source(context))
        except DataError as error:
            return [Problem(("file",), str(error))]

    def measure(
        self, fold: Split, users: npt.NDArray[np.int32], context: LoadContext
    ) -> npt.NDArray[np.generic]:
        """Return each user's number, NaN if unknown, or text, None if unknown."""
        import pandas as pd

        source, vocabulary = self._source(context), fold.test.users
        if problems := self._column_problems(source):
            raise DataError("; ".join(problem.message for problem in problems))
        # A CSV file is read as text: the type of its values depends on the data's ids and on ``values``.
        is_csv = isinstance(source, TableFiles) and not source.is_parquet
        roles = {"user": self.user, "column": self.column}
        table = source.read(roles) if isinstance(source, TableFiles) else source
        if not len(table):
            raise DataError(f"{table.name}: there are no rows")
        ids = _user_ids(table, self.user, vocabulary, is_csv=is_csv)
        values = _values(table, self.column, numbers=self.values == "auto", is_csv=is_csv)
        code = pd.Index(vocabulary).get_indexer(pd.Index(ids))
        if not (code >= 0).any():
            raise DataError(
                f"{table.name}: none of its users is in the data: column {self.user!r} has ids such as "
                f"{_examples(ids)}, the data such as {_examples(vocabulary)}"
            )
        rows = np.flatnonzero(code >= 0)
        known = np.full(len(vocabulary), None if values.dtype == object else np.nan, dtype=values.dtype)
        known[code[rows]] = values[rows]
        self._refuse_contradictions(table, ids[rows], values[rows], known[code[rows]])
        return known[users]

    def divide(self, values: npt.NDArray[Any]) -> Groups:
        """Return groups by number or by text, and the group of users whose value is unknown."""
        import pandas as pd

        unknown = pd.isna(values)
        if values.dtype == object:
            found = by_text(values, self.max_groups)
        else:
            many = len(np.unique(values[~unknown])) > self.max_groups
            found = by_quantile(values, self.groups) if many else by_number(values)
        return found.adding("unknown", unknown)

    def _source(self, context: LoadContext) -> Table | TableFiles:
        if self.file is None:
            return Table(self._frame, "frame")  # type: ignore[attr-defined]
        files = find_files(context.base, self.file)
        if len(files) > 1:
            raise DataError(f"{self.file} means {len(files)} files; name one")
        parquet = files[0].suffix.lower() in (".parquet", ".pq")
        csv = CsvFormat(self.separator, self.columns, text=("user", "column"))
        source = TableFiles(str(files[0]), tuple(files), ParquetFormat() if parquet else csv)
        source.check_columns()
        return source

    def _column_problems(self, source: Table | TableFiles) -> list[Problem]:
        """Return a problem for each column that the table does not have once."""
        found = {
            "user": column_problem(self.user, source.columns),
            "column": column_problem(self.column, source.columns),
        }
        return [Problem((role,), f"{source.name}: {problem}") for role, problem in found.items() if problem]

    def _refuse_contradictions(
        self, table: Table, ids: npt.NDArray[Any], values: npt.NDArray[Any], last: npt.NDArray[Any]
    ) -> None:
        """Refuse rows (R,) whose value differs from that of their user's ``last`` row."""
        same = values == last
        if values.dtype != object:
            same |= np.isnan(values) & np.isnan(last)
        if not same.all():
            row = int(np.argmin(same))
            user, one, other = (array[[row]].tolist()[0] for array in (ids, values, last))
            raise DataError(
                f"{table.name}: the rows of user {user!r} contradict each other: {self.column!r} is {one!r} in one, "
                f"{other!r} in another (such users: {len(np.unique(ids[~same]))})"
            )


def _examples(ids: npt.NDArray[np.generic]) -> str:
    return ", ".join(map(repr, np.unique(ids[:1000])[:3].tolist()))


def _user_ids(table: Table, name: str, like: npt.NDArray[np.generic], *, is_csv: bool) -> npt.NDArray[Any]:
    """Return a column of user ids of the same type as the data's ids ``like``: int64, or str as object.

    Raises:
        DataError: An id is missing or of another type; names the first such row.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = like.dtype == object
    with readable(f"{table.name}: column {name!r}"):
        column = table.arrow(name)
        if is_csv and not text:
            column = pc.utf8_trim_whitespace(column)
            right = pc.fill_null(pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]*)$"), False)
        elif _is_text(column) if text else pa.types.is_integer(column.type):
            right = pc.is_valid(column)
        else:
            right = pa.repeat(False, len(column))
        row = pc.index(right, False).as_py()
        if row >= 0:
            rule = (
                f"user ids must be {'text' if text else 'integers'}, as those of the data are "
                f"(such as {like[:1].tolist()[0]!r})"
            )
            table.refuse(name, row, rule, missing=not column[row].is_valid)
        ids: npt.NDArray[Any] = column.cast(pa.string() if text else pa.int64()).to_numpy(
            zero_copy_only=False
        )
    return ids


def _values(table: Table, name: str, *, numbers: bool, is_csv: bool) -> npt.NDArray[Any]:
    """Return a column as float64 if all values are numbers, else as text; missing or empty ones are NaN or None.

    Raises:
        DataError: The values are neither numbers nor text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    with readable(f"{table.name}: column {name!r}"):
        column = table.arrow(name)
        kind = column.type
        if numbers and (
            is_csv or pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        ):
            try:
                as_numbers: npt.NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(
                    zero_copy_only=False
                )
                return as_numbers
            except pa.ArrowInvalid:
                pass  # text
        if pa.types.is_nested(kind):
            raise DataError(f"{table.name}: column {name!r} is {kind}: it must hold numbers or text")
        texts = column.cast(pa.string())
        empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)
        values: npt.NDArray[Any] = pc.if_else(pc.fill_null(empty, True), None, texts).to_numpy(
            zero_copy_only=False
        )
    return values


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
