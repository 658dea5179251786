"""The segment ``attribute``: users grouped by a column of a table of users."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes
from evalplugin.base.errors import DataError, Problem
from evalplugin.base.libraries import pd
from evalplugin.data import Interactions, LoadContext, Split
from evalplugin.data.attributes import EntityTable, Separator, as_texts, column_problems, open_attributes
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table, column_problem, is_table
from evalplugin.segments.base import Segmenter, segment
from evalplugin.segments.groups import Groups, by_number, by_quantile, by_text


@segment("attribute")
@dataclass(frozen=True, eq=False)
class Attribute(Segmenter):
    """Users by an attribute, such as age or gender, from a table of users: CSV (.gz, .bz2 too) or Parquet.

    Without a ``file`` it is the table that the dataset names under ``users``. A column of more than ``max_groups``
    different numbers is cut into ``groups`` of about the same size, without parting equal numbers. Other columns make
    a group of each value; of texts the ``max_groups`` most frequent, and one of the rest, such as ``12 other
    values``. Test users without a value are the group ``unknown``.

    A user may have several rows if they agree. From Python a ``frame`` may stand in place of ``file``.
    """

    column: Annotated[str, Field(min_length=1, description="name of the column to divide users by")]
    # Not a field, as fields are options of a config file and are logged.
    frame: InitVar[Any] = None
    file: Annotated[
        str | None,
        Field(
            min_length=1, description="the table of users, relative to the config; .parquet, .jsonl or CSV"
        ),
    ] = None
    user: Annotated[str, Field(min_length=1, description="name of the column of user ids")] = "user"
    groups: Annotated[int, Field(ge=1, description="groups of a column of many numbers")] = 4
    max_groups: Annotated[int, Field(ge=1, description="values that make a group each")] = 10
    values: Annotated[
        Literal["auto", "text"],
        Field(description="auto: numbers are numbers; text: they are names, such as codes of regions"),
    ] = "auto"
    separator: Separator = ","
    columns: Annotated[
        list[str] | None,
        Field(min_length=2, description="names of all columns, for a CSV file without a header line"),
    ] = None
    _frame: Any = field(default=None, init=False, repr=False)

    def __post_init__(self, frame: Any) -> None:
        if self.file is not None and frame is not None:
            raise ValueError("attribute takes a file or a frame, not both")
        if frame is not None and not is_table(frame):
            raise ValueError(
                f"frame must be a pandas DataFrame, or a table of polars or Arrow, not {type(frame).__name__}"
            )
        object.__setattr__(self, "_frame", frame)

    def check(self, context: LoadContext) -> list[Problem]:
        """Return problems if the file or a column does not exist; columns of a dataset are not known yet."""
        if self.file is None and self._frame is None:
            return []
        try:
            return column_problems(self._source(context), {("user",): self.user, ("column",): self.column})
        except DataError as error:
            return [Problem(("file",), str(error))]

    def measure(self, fold: Split, users: Codes, context: LoadContext) -> npt.NDArray[np.generic]:
        """Return each user's number, NaN if unknown, or text, None if unknown."""
        if self.file is None and self._frame is None:
            return self._of_dataset(fold.test)[users]
        table = EntityTable(self._source(context), "user", self.user, [self.column], fold.test.users)
        return table.column(self.column, numbers=self.values == "auto")[users]

    def _of_dataset(self, data: Interactions) -> npt.NDArray[np.generic]:
        names = list(data.user_attributes)
        if not names:
            raise DataError(
                f"needs a file, or a table of users of the dataset (users: {{path: ...}}) with a column {self.column!r}"
            )
        if problem := column_problem(self.column, names):
            raise DataError(f"the table of users of the dataset: {problem}")
        values = data.user_attributes[self.column]
        return values if self.values == "auto" else as_texts(values)

    def divide(self, values: npt.NDArray[Any]) -> Groups:
        """Return groups by number or by text, and the group of users whose value is unknown."""
        unknown = pd.isna(values)
        if values.dtype == object:
            groups = by_text(values, self.max_groups)
        else:
            many = len(np.unique(values[~unknown])) > self.max_groups
            groups = by_quantile(values, self.groups) if many else by_number(values)
        return groups.adding("unknown", unknown)

    def _source(self, context: LoadContext) -> Table | TableFiles:
        if self.file is None:
            return Table(self._frame, "frame")
        return open_attributes(context.base, self.file, self.separator, self.columns)
