"""The segment ``attribute``: users by what a table of your own says of them."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError, Problem, did_you_mean
from evalplugin.data import LoadContext, Split
from evalplugin.segments.base import segment
from evalplugin.segments.groups import Groups, by_number, by_quantile, by_text
from evalplugin.segments.tables import (
    CsvTable,
    FrameTable,
    ParquetTable,
    UserTable,
    find_file,
    ids_of,
    values_of,
)

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

    A user may stand in several rows if they agree. From Python a DataFrame may be given as ``frame`` in place of
    ``file``.
    """

    column: Annotated[str, Field(min_length=1, description="name of the column to divide users by")]
    # No field: what a config file could hold, and what is logged, are the fields alone.
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
            return self._lacking(self._table(context))
        except DataError as error:
            return [Problem(("file",), str(error))]

    def measure(
        self, fold: Split, users: npt.NDArray[np.int32], context: LoadContext
    ) -> npt.NDArray[np.generic]:
        """Return each user's number, NaN where it is unknown, or text, None where it is unknown."""
        import pandas as pd

        table, vocabulary = self._table(context), fold.test.users
        if problems := self._lacking(table):
            raise DataError("; ".join(problem.message for problem in problems))
        ids = ids_of(table, self.user, like=vocabulary)
        if not len(ids):
            raise DataError(f"{table.source}: there are no rows")
        values = values_of(table, self.column, as_text=self.values == "text")
        code = pd.Index(vocabulary).get_indexer(pd.Index(ids))
        if not (code >= 0).any():
            raise DataError(
                f"{table.source}: none of its users is in the data: column {self.user!r} has ids such as "
                f"{_examples(ids)}, the data such as {_examples(vocabulary)}"
            )
        rows = np.flatnonzero(code >= 0)
        known = np.full(len(vocabulary), None if values.dtype == object else np.nan, dtype=values.dtype)
        known[code[rows]] = values[rows]
        self._refuse_contradictions(table, ids[rows], values[rows], known[code[rows]])
        return known[users]

    def divide(self, values: npt.NDArray[Any]) -> Groups:
        """Return groups by number or by text, and those who are unknown."""
        import pandas as pd

        unknown = pd.isna(values)
        if values.dtype == object:
            found = by_text(values, self.max_groups)
        else:
            many = len(np.unique(values[~unknown])) > self.max_groups
            found = by_quantile(values, self.groups) if many else by_number(values)
        return found.adding("unknown", unknown)

    def _table(self, context: LoadContext) -> UserTable:
        if self.file is None:
            return FrameTable(self._frame)  # type: ignore[attr-defined]
        file = find_file(context.base, self.file)
        if file.suffix.lower() in (".parquet", ".pq"):
            return ParquetTable(file)
        return CsvTable(file, self.separator, self.columns)

    def _lacking(self, table: UserTable) -> list[Problem]:
        """Return a problem for each column that the table does not have once."""
        names = table.names()
        problems = []
        for role, name in (("user", self.user), ("column", self.column)):
            if names.count(name) > 1:
                problems.append(
                    Problem((role,), f"{table.source}: {names.count(name)} columns are called {name!r}")
                )
            elif name not in names:
                hint = did_you_mean(name, names, noun="columns")
                problems.append(Problem((role,), f"{table.source}: no column {name!r}{hint}"))
        return problems

    def _refuse_contradictions(
        self, table: UserTable, ids: npt.NDArray[Any], values: npt.NDArray[Any], last: npt.NDArray[Any]
    ) -> None:
        """Refuse rows (R,) whose value is not that of their user's ``last`` row."""
        same = values == last
        if values.dtype != object:
            same |= np.isnan(values) & np.isnan(last)
        if not same.all():
            row = int(np.argmin(same))
            user, one, other = (array[[row]].tolist()[0] for array in (ids, values, last))
            raise DataError(
                f"{table.source}: the rows of user {user!r} contradict each other: {self.column!r} is {one!r} in one, "
                f"{other!r} in another (such users: {len(np.unique(ids[~same]))})"
            )


def _examples(ids: npt.NDArray[np.generic]) -> str:
    return ", ".join(map(repr, np.unique(ids[:1000])[:3].tolist()))
