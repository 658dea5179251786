"""The datasets ``csv``, ``parquet`` and ``dataframe``: interactions from tables, with tables of items and users."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError, KeyPath, Problem
from evalplugin.components.parameters import OMITTED_IF_DEFAULT
from evalplugin.data.attributes import Attributes, Entity, attributes_from, open_attributes
from evalplugin.data.base import LoadContext, dataset
from evalplugin.data.files import FoundFiles, TableFiles, find_files
from evalplugin.data.formats import CsvFormat, FileFormat, ParquetFormat
from evalplugin.data.interactions import DuplicatePolicy, Interactions, interactions_from
from evalplugin.data.tables import Table, column_problem

__all__ = ["Csv", "DataFrame", "ItemTable", "Parquet", "UserTable"]

_LIKE_RATINGS = {"rating", "ratings", "score", "scores", "star", "stars"}
# Whole names, as with other words they mean something else: those of Amazon's and BeerAdvocate's reviews, of Last.fm's
# plays, of KuaiRec's videos and the like.
_RATINGS = re.compile(
    r"(review)?overall|weights?|counts?|(play|listen|view|click|purchase)(s|counts?)|grades?|preferences?|watchratio"
)
_TIMES = re.compile(
    r"(unix|utc|event|rat(ing|ed)|review(ed)?|click(ed)?|view(ed)?|visit|checkin|play(ed)?|listen(ed)?|watch(ed)?"
    r"|purchased?|order(ed)?|invoice|transaction|interaction|created?|creation|added|session|logged|unixreview)?"
    r"(timestamps?|times?|datetime|date|at|ts)|when|dateadded|tdat|epoch"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of snake_case and camelCase


@dataclass(frozen=True)
class _SideTable:
    """A table of users or items with an id and any attributes of each."""

    kind: ClassVar[Entity]

    path: Annotated[
        str,
        Field(min_length=1, description="the table, relative to the config, or a URI: .parquet, or else CSV"),
    ]
    columns: Annotated[
        list[str] | None,
        Field(description="names of the attributes to read; null: all columns that no other key names"),
    ] = None
    separator: Annotated[
        str, Field(min_length=1, max_length=1, description="what stands between values of a CSV file")
    ] = ","

    def check(self, base: Path) -> list[Problem]:
        """Return problems if there is no such file, or no such column in it; paths in ``base``."""
        try:
            source = self._open(base)
            names = source.columns
        except DataError as error:
            return [Problem(("path",), str(error))]
        named = self._named | {("columns", number): name for number, name in enumerate(self.columns or ())}
        problems = {path: column_problem(name, names) for path, name in named.items()}
        return [Problem(path, f"{source.name}: {text}") for path, text in problems.items() if text]

    def attributes(self, ids: npt.NDArray[np.generic], base: Path) -> Attributes:
        """Return the attributes of the users or items of the data, in the order of their codes.

        Raises:
            DataError: The file or a column is missing, an id is missing or of another type than those of the data,
                rows with the same id contradict each other, or none is of the data.
        """
        columns = self.columns
        if columns is None:
            columns = [name for name in self._open(base).columns if name not in self._named.values()]
        return self._read(ids, base, columns)

    def _read(
        self, ids: npt.NDArray[np.generic], base: Path, columns: Sequence[str], *, numbers: bool = True
    ) -> Attributes:
        id_column = self._named[self.kind,]
        roles = {"id": id_column, **{f"attribute {number}": name for number, name in enumerate(columns)}}
        source = self._open(base, text=roles)
        is_csv = not source.is_parquet
        return attributes_from(
            source.read(roles), self.kind, id_column, columns, ids, is_csv=is_csv, numbers=numbers
        )

    def _open(self, base: Path, text: Collection[str] = ()) -> TableFiles:
        return open_attributes(base, self.path, separator=self.separator, text=text)

    @property
    def _named(self) -> dict[KeyPath, str]:
        """The columns that are no attributes, by the key that names them."""
        raise NotImplementedError


@dataclass(frozen=True)
class ItemTable(_SideTable):
    """A table of items: their titles, and attributes such as categories and prices."""

    kind = "item"

    item: Annotated[str, Field(min_length=1, description="name of the column of item ids")] = "item"
    title: Annotated[
        str | None,
        Field(min_length=1, description="name of the column of titles, to be shown; null: ids are shown"),
    ] = None

    @property
    def _named(self) -> dict[KeyPath, str]:
        named = {"item": self.item, "title": self.title}
        return {(key,): name for key, name in named.items() if name is not None}

    def titles(
        self, items: npt.NDArray[np.generic], base: Path
    ) -> tuple[npt.NDArray[np.object_] | None, tuple[str, ...]]:
        """Return a title for each item of the data (n_items,), and a note if some have none: their id stands for it.

        Raises:
            DataError: As of ``attributes``.
        """
        if self.title is None:
            return None, ()
        found = self._read(items, base, [self.title], numbers=False)[self.title].tolist()
        untitled = sum(title is None for title in found)
        shown = [
            str(item) if title is None else title for title, item in zip(found, items.tolist(), strict=True)
        ]
        note = f"{untitled} items have no title in {Path(self.path).name}: their ids are shown instead"
        return np.array(shown, dtype=object), (note,) if untitled else ()


@dataclass(frozen=True)
class UserTable(_SideTable):
    """A table of users: attributes such as age and country."""

    kind = "user"

    user: Annotated[str, Field(min_length=1, description="name of the column of user ids")] = "user"

    @property
    def _named(self) -> dict[KeyPath, str]:
        return {("user",): self.user}


@dataclass(frozen=True, kw_only=True)
class _ColumnOptions:
    """The columns of interactions, and the policy for pairs that are repeated."""

    user: Annotated[str, Field(description="name of the column of user ids (integers or text)")] = "user"
    item: Annotated[str, Field(description="name of the column of item ids (integers or text)")] = "item"
    rating: Annotated[
        str | None,
        Field(
            description="name of the column of ratings or counts; null: implicit data, every rating is 1.0"
        ),
    ] = None
    timestamp: Annotated[
        str | None, Field(description="name of the column of times; null: the data has no times")
    ] = None
    duplicates: Annotated[
        DuplicatePolicy,
        Field(
            description="a user-item pair that stands twice: refuse it, take its last row, "
            "or the mean or max rating"
        ),
    ] = "error"
    items: Annotated[
        ItemTable | None,
        Field(
            description="a table of items, whose titles are shown and whose attributes models, metrics and segments "
            "may use: {path, item, title, columns}"
        ),
    ] = field(default=None, metadata=OMITTED_IF_DEFAULT)
    users: Annotated[
        UserTable | None,
        Field(
            description="a table of users, whose attributes models, metrics and segments may use: {path, user, columns}"
        ),
    ] = field(default=None, metadata=OMITTED_IF_DEFAULT)

    def _check_side_tables(self, context: LoadContext) -> Iterator[Problem]:
        for key, side in (("items", self.items), ("users", self.users)):
            for problem in () if side is None else side.check(context.base):
                yield replace(problem, path=(key, *problem.path))

    def _with_side_tables(self, data: Interactions, context: LoadContext) -> Interactions:
        """Return interactions with the titles and attributes of the tables of items and users."""
        if self.items is not None:
            titles, notes = self.items.titles(data.items, context.base)
            attributes = self.items.attributes(data.items, context.base)
            data = replace(data, titles=titles, item_attributes=attributes).noting(*notes)
        if self.users is not None:
            data = replace(data, user_attributes=self.users.attributes(data.users, context.base))
        return data

    def _read(self, table: Table, columns: Sequence[str]) -> Interactions:
        """Return the interactions, with those of ``columns`` that look like ratings or times and are not used."""
        data = interactions_from(
            table,
            user=self.user,
            item=self.item,
            rating=self.rating,
            timestamp=self.timestamp,
            duplicates=self.duplicates,
        )
        return replace(data, unused=tuple(self._unused(columns)))

    def _unused(self, columns: Sequence[str]) -> Iterator[tuple[Literal["rating", "timestamp"], str]]:
        named = {self.user, self.item, self.rating, self.timestamp}
        for name in columns:
            if name in named:
                continue
            if _is_like_times(name):  # first, as a rating_time is none of ratings
                if self.timestamp is None:
                    yield "timestamp", name
            elif self.rating is None and _is_like_ratings(name):
                yield "rating", name


def _is_like_ratings(column: str) -> bool:
    words = [word.casefold() for word in _WORD.findall(column)]
    return not _LIKE_RATINGS.isdisjoint(words) or _RATINGS.fullmatch("".join(words)) is not None


def _is_like_times(column: str) -> bool:
    # The whole name: of two words, such as release_date, the first may say that it is no time of the interaction.
    return _TIMES.fullmatch("".join(_WORD.findall(column)).casefold()) is not None


@dataclass(frozen=True)
class _PathOption:
    path: str  # in a separate base, as the fields of the last base come first


@dataclass(frozen=True)
class _FileDataset(_ColumnOptions, _PathOption):
    _inside: ClassVar[str | None] = None  # pattern of the files in a folder; None: no folders

    def check(self, context: LoadContext) -> list[Problem]:
        """Return a problem if there is no such file, or none in the folder; also of the side tables."""
        problems = []
        try:
            self._files(context)
        except DataError as error:
            problems.append(Problem(("path",), str(error)))
        return [*problems, *self._check_side_tables(context)]

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of all files, in the order of their names."""
        files, partitions = self._files(context)
        name = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
        tables = TableFiles(name, files, self._format(), partitions)
        tables.check_columns()
        roles = {"user": self.user, "item": self.item, "rating": self.rating, "timestamp": self.timestamp}
        table = tables.read({role: n for role, n in roles.items() if n is not None}, context.report)
        return self._with_side_tables(self._read(table, tables.columns), context)

    def _files(self, context: LoadContext) -> FoundFiles:
        return find_files(context.base, self.path, self._inside)

    def _format(self) -> FileFormat:
        raise NotImplementedError


@dataset("csv")
@dataclass(frozen=True)
class Csv(_FileDataset):
    """Interactions from one or several CSV files with a header line; compressed files (.gz, .bz2) too.

    Files are UTF-8, and a value may stand in double quotes. Ids are integers if reading them as integers changes
    none; a column with any other id, such as ``x7`` or ``007``, is text; ``ids: text`` makes text of all. Times
    are numbers, or dates as in ISO 8601.
    """

    path: Annotated[
        str, Field(min_length=1, description="a file, a pattern of several such as logs/*.csv, or a URI")
    ]
    separator: Annotated[str, Field(min_length=1, max_length=1, description="what stands between values")] = (
        ","
    )
    columns: Annotated[
        list[str] | None,
        Field(min_length=2, description="names of all columns, for files without a header line"),
    ] = None
    ids: Annotated[Literal["auto", "text"], Field(description="what ids are read as")] = "auto"

    def _format(self) -> CsvFormat:
        return CsvFormat(self.separator, self.columns, text=("user", "item") if self.ids == "text" else ())


@dataset("parquet")
@dataclass(frozen=True)
class Parquet(_FileDataset):
    """Interactions from one or several Parquet files, or from a folder of them (its sub-folders included).

    Folders such as day=2026-01-31 name columns. A folder that is a Delta table is read as its current version.
    """

    _inside: ClassVar[str | None] = "*.parquet"
    path: Annotated[
        str, Field(min_length=1, description="a file, a folder, a pattern such as logs/*.parquet, or a URI")
    ]

    def _format(self) -> ParquetFormat:
        return ParquetFormat()


@dataset("dataframe")
@dataclass(frozen=True, eq=False)
class DataFrame(_ColumnOptions):
    """Interactions from a pandas DataFrame: for Python only, as a config file cannot hold one.

    ``DataFrame(frame, rating="stars")``; in a config file use ``csv`` or ``parquet``.
    """

    # Not a field, as fields are options of a config file and are logged.
    frame: InitVar[Any] = None

    def __post_init__(self, frame: Any) -> None:
        if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
            given = "" if frame is None else f", not {type(frame).__name__}"
            raise ValueError(
                f"dataset type 'dataframe' is for Python only: it takes a pandas DataFrame{given}; "
                f"in a config file use csv or parquet"
            )
        object.__setattr__(self, "_table", Table(frame, "dataframe"))

    def check(self, context: LoadContext) -> list[Problem]:
        """Return problems of the side tables: the data itself needs no file."""
        return [*self._check_side_tables(context)]

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of the frame."""
        table: Table = self._table  # type: ignore[attr-defined]
        return self._with_side_tables(self._read(table, table.columns), context)
