"""The datasets ``csv``, ``parquet``, ``json`` and ``dataframe``, with tables of items and users."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.errors import DataError, KeyPath, Problem
from evalplugin.base.libraries import pa
from evalplugin.data.attributes import Attributes, EntityTable, Separator, column_problems, open_attributes
from evalplugin.data.base import DatasetLoader, LoadContext, dataset
from evalplugin.data.files import FoundFiles, TableFiles, find_files
from evalplugin.data.formats import CsvFormat, FileFormat, JsonLines, ParquetFormat
from evalplugin.data.interactions import DuplicatePolicy, Interactions, interactions_from
from evalplugin.data.parts import PART, ROLES, folds_of, part_name
from evalplugin.data.tables import Table, check_roles, column_problem, is_table
from evalplugin.data.vocabulary import encode
from evalplugin.files.remote import File

FOLD = "{fold}"  # in paths
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
_USERS = re.compile(
    r"u|uid|(user|customer|client|visitor|member|reviewer|account|profile|household|session)(id|key|code|no|number)?"
)
_ITEMS = re.compile(
    r"i|iid|(parent)?asin|isbn(10|13)?|sku|stockcode"
    r"|(item|product|article|movie|film|video|book|song|track|artist|album|game|news|business|recipe|content)"
    r"(id|key|code|no|number)?"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")  # of snake_case and camelCase


def _value_role(name: str) -> Literal["rating", "timestamp"] | None:
    """Return what a column has by its name: ratings, times, or None."""
    words = [word.casefold() for word in _WORD.findall(name)]
    # The whole name, as the first word may name another time than the interaction's: release_date.
    if _TIMES.fullmatch("".join(words)):  # first, as a rating_time is not a rating
        return "timestamp"
    return "rating" if not _LIKE_RATINGS.isdisjoint(words) or _RATINGS.fullmatch("".join(words)) else None


def guessed_roles(names: Sequence[str]) -> dict[str, str]:
    """Return columns by role as their names tell: the first that fits each, a column of ids before others."""
    roles: dict[str, str] = {}
    for name in sorted(names, key=lambda name: not re.search("id$|asin|isbn", name, re.IGNORECASE)):
        plain = re.sub(r"[\W_]", "", name).casefold()
        role = "user" if _USERS.fullmatch(plain) else "item" if _ITEMS.fullmatch(plain) else _value_role(name)
        if role is not None:
            roles.setdefault(role, name)
    return {role: roles[role] for role in ("user", "item", "rating", "timestamp") if role in roles}


@dataclass(frozen=True)
class _SideTable:
    """A table of users or items with an id and any attributes of each."""

    kind: ClassVar[Literal["user", "item"]]

    path: Annotated[
        str,
        Field(
            min_length=1, description="the table, relative to the config, or a URI: .parquet, .jsonl or CSV"
        ),
    ]
    columns: Annotated[
        list[str] | None,
        Field(description="names of the attributes to read; null: all columns that no other key names"),
    ] = None
    separator: Separator = ","

    def check(self, base: Path) -> list[Problem]:
        """Return problems if the file or a column does not exist; relative paths start from ``base``."""
        try:
            source = open_attributes(base, self.path, self.separator)
        except DataError as error:
            return [Problem(("path",), str(error))]
        named: dict[KeyPath, str] = {(key,): name for key, name in self._named.items()}
        named |= {("columns", number): name for number, name in enumerate(self.columns or ())}
        return column_problems(source, named)

    def _read(self, ids: npt.NDArray[Any], base: Path) -> tuple[EntityTable, Attributes]:
        """Return the table, and its attributes in the order of the ids of the data."""
        source, named = open_attributes(base, self.path, self.separator), self._named
        columns = self._attributes(source)
        table = EntityTable(source, self.kind, named[self.kind], [*named.values(), *columns], ids)
        return table, Attributes({name: table.column(name) for name in columns})

    def attributes(self, base: Path) -> list[str]:
        """Return the names of the attributes, without reading the rows.

        Raises:
            DataError: The file does not exist or has no columns.
        """
        return self._attributes(open_attributes(base, self.path, self.separator))

    def _attributes(self, source: TableFiles) -> list[str]:
        named = self._named.values()
        return (
            [name for name in source.columns if name not in named] if self.columns is None else self.columns
        )

    @property
    def _named(self) -> dict[str, str]:
        """The columns that are no attributes, by the key that names them."""
        keys = (self.kind, "title")
        return {key: name for key in keys if (name := getattr(self, key, None)) is not None}


@dataclass(frozen=True)
class ItemTable(_SideTable):
    """A table of items: their titles, and attributes such as categories and prices."""

    kind = "item"

    item: Annotated[str, Field(min_length=1, description="name of the column of item ids")] = "item"
    title: Annotated[
        str | None,
        Field(min_length=1, description="name of the column of titles, to be shown; null: ids are shown"),
    ] = None
    catalogue: Annotated[
        bool,
        Field(
            description="whether the table is the catalogue: its items without interactions may be listed and count in "
            "metrics of coverage"
        ),
    ] = False

    def add_to(self, data: Interactions, context: LoadContext) -> Interactions:
        """Return the data with attributes and titles of its items; an id stands for a missing title, with a note."""
        if self.catalogue:
            source = open_attributes(context.base, self.path, self.separator)
            data = data.on_catalogue(EntityTable(source, "item", self.item, [self.item], data.items).ids)
        table, attributes = self._read(data.items, context.base)
        data = replace(data, item_attributes=attributes).noting(*table.notes)
        if self.title is None:
            return data
        titles, ids = table.column(self.title, numbers=False), data.items.tolist()
        shown = [str(item) if title is None else title for title, item in zip(titles, ids, strict=True)]
        data = replace(data, titles=np.array(shown, dtype=object))
        if untitled := sum(title is None for title in titles):
            name = Path(self.path).name
            return data.noting(f"{untitled} items have no title in {name}: their ids are shown instead")
        return data


@dataclass(frozen=True)
class UserTable(_SideTable):
    """A table of users: attributes such as age and country."""

    kind = "user"

    user: Annotated[str, Field(min_length=1, description="name of the column of user ids")] = "user"

    def add_to(self, data: Interactions, context: LoadContext) -> Interactions:
        """Return the data with attributes of its users; those that splits need are there as text too."""
        table, attributes = self._read(data.users, context.base)
        needed = {n: table.column(n, numbers=False) for n in context.user_columns if n in attributes}
        columns = Attributes({**data.user_columns, **needed})
        return replace(data, user_attributes=attributes, user_columns=columns).noting(*table.notes)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(DatasetLoader):
    """The columns of interactions, and the policy for pairs that are repeated."""

    user: Annotated[str, Field(description="name of the column of user ids (integers or text)")] = "user"
    item: Annotated[str, Field(description="name of the column of item ids (integers or text)")] = "item"
    rating: Annotated[
        str | None,
        Field(
            description="name of the column of ratings or counts; null: implicit data, every rating is 1.0"
        ),
    ] = None
    timestamp: Annotated[str | None, Field(description="name of the column of times")] = None
    duplicates: Annotated[
        DuplicatePolicy,
        Field(
            description="a repeated pair: refuse it, take its last row, or the mean or max rating, or keep all, as "
            "events"
        ),
    ] = "error"
    part: Annotated[
        str | None,
        Field(
            description="name of the column of the part (train, validation, test) or the fold of each row, for "
            "`split: given`"
        ),
    ] = None
    items: Annotated[
        ItemTable | None,
        Field(
            description="a table of items, with titles and attributes: {path, item, title, columns, separator}"
        ),
    ] = None
    users: Annotated[
        UserTable | None,
        Field(description="a table of users, with attributes: {path, user, columns, separator}"),
    ] = None

    def check(self, context: LoadContext) -> list[Problem]:
        """Return the problems of the tables of items and users."""
        sides = {"items": self.items, "users": self.users}
        return [
            replace(problem, path=(key, *problem.path))
            for key, side in sides.items()
            if side is not None
            for problem in side.check(context.base)
        ]

    @property
    def roles(self) -> dict[str, str]:
        """The columns of interactions by role."""
        names = ("user", "item", "rating", "timestamp", "part")
        roles = {name: getattr(self, name) for name in names}
        return {role: name for role, name in roles.items() if name is not None}

    def roles_for(self, table: str, columns: Sequence[str], context: LoadContext) -> dict[str, str]:
        """Return the columns of interactions by role, with those that splits need and the table of users lacks.

        Args:
            table: Its name.
            columns: Names of all its columns.
            context: Names the columns that splits need.

        Raises:
            DataError: Neither table has such a column, or a column has two roles.
        """
        of_users = [] if self.users is None else self.users.attributes(context.base)
        roles, needed = self.roles, [name for name in context.user_columns if name not in of_users]
        for number, name in enumerate(needed, 1):
            if problem := column_problem(name, [*columns, *of_users], "cluster"):
                raise DataError(f"{table}: {problem}")
            roles["cluster" if number == 1 else f"cluster {number}"] = name
        check_roles(table, roles)
        return roles

    def interactions(
        self, table: Table, roles: Mapping[str, str], columns: Sequence[str], context: LoadContext
    ) -> Interactions:
        """Return the interactions of a table, with the tables of items and users.

        Args:
            table: The table.
            roles: Its columns by role, as of ``roles_for``.
            columns: Names of all columns of its source.
            context: Where the other tables lie.
        """
        data = self.rows(table, roles)
        if unused := tuple(self._unused(columns)):
            data = replace(data, unused=unused)
        for side in (self.items, self.users):
            if side is not None:
                data = side.add_to(data, context)
        return data

    def rows(self, table: Table, roles: Mapping[str, str]) -> Interactions:
        """Return the rows of a table alone as interactions; ``roles``: its columns by role."""
        return interactions_from(table, roles, self.duplicates)

    def _unused(self, columns: Sequence[str]) -> Iterator[tuple[Literal["rating", "timestamp"], str]]:
        """Yield the columns that look like ratings or times, where none was named for them."""
        for name in columns:
            if name in self.roles.values():
                continue
            role = _value_role(name)
            if role is not None and getattr(self, role) is None:
                yield role, name


@dataclass(frozen=True)
class PartPaths:
    """Files of the parts of data; ``{fold}`` in a path stands for the number or the name of a fold."""

    train: Annotated[str, Field(min_length=1, description="train data")]
    test: Annotated[str, Field(min_length=1, description="the truth")]
    validation: Annotated[
        str | None, Field(min_length=1, description="the truth while parameters are tuned")
    ] = None

    def find(self, base: Path, inside: str | None) -> FoundFiles:
        """Return the files of all parts; a column ``PART`` names the part of each.

        Raises:
            DataError: No file matches, or a fold lacks a part.
        """
        files: list[File] = []
        partitions: list[Mapping[str, pa.Scalar]] = []
        for role in ROLES:
            if (path := getattr(self, role)) is None:
                continue
            try:
                found = find_files(base, path.replace(FOLD, "*"), inside)
            except DataError as error:
                raise DataError(str(error), parameter=role) from None
            for number, file in enumerate(found.files):
                if file in files:
                    raise DataError(f"{file} is the file of another part too", parameter=role)
                named = found.partitions[number] if found.partitions else {}
                files.append(file)
                partitions.append({**named, PART: pa.scalar(part_name(role, _fold_in(path, file)))})
        folds_of(list(dict.fromkeys(named[PART].as_py() for named in partitions)))
        return FoundFiles(tuple(files), tuple(partitions))


def _fold_in(path: str, file: File) -> str:
    """Return the value of ``{fold}`` in the path of a file; empty where there is none."""
    name = path.rpartition("/")[2]
    if FOLD not in name:
        if FOLD in path:
            raise DataError(f"{path}: {FOLD} must be in the name of the file, not of a folder")
        return ""
    pattern = re.escape(name).replace(re.escape(FOLD), "(.+)").replace(r"\*", ".*").replace(r"\?", ".")
    match = re.fullmatch(pattern, file.name)
    return match[1] if match else file.name


@dataclass(frozen=True)
class _PathOption:
    path: str | PartPaths  # in a separate base, as the fields of the last base come first


@dataclass(frozen=True)
class FileDataset(ColumnOptions, _PathOption):
    """Interactions from one or several files."""

    _inside: ClassVar[str | None] = None  # pattern of the files in a folder; None: no folders

    def __post_init__(self) -> None:
        if self.part is not None and isinstance(self.path, PartPaths):
            raise ValueError("part names a column of one table: it does not go with a path for each part")

    def check(self, context: LoadContext) -> list[Problem]:
        """Return the problems of the path and of the tables of items and users."""
        try:
            self._find(context)
        except DataError as error:
            key: KeyPath = ("path",) if error.parameter is None else ("path", error.parameter)
            return [Problem(key, str(error)), *super().check(context)]
        return super().check(context)

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of all files, in the order of their names."""
        files, partitions = self._find(context)
        name = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
        tables = TableFiles(name, files, self._format(), partitions)
        tables.check_columns()
        columns = [name for name in tables.columns if name != PART]
        roles = self.roles_for(name, columns, context)
        table = tables.read(roles, context.report)
        if isinstance(self.path, PartPaths) and len(table):
            filled = set(encode([table.ids(PART, "part")])[0].tolist())
            for file, named in zip(files, partitions, strict=True):
                if (part := named[PART].as_py()) not in filled:
                    raise DataError(f"{file}: has no rows, and is the {part} part of the data")
        return self.interactions(table, roles, columns, context)

    @property
    def roles(self) -> dict[str, str]:
        """The columns of interactions by role."""
        return {**super().roles, "part": PART} if isinstance(self.path, PartPaths) else super().roles

    def _find(self, context: LoadContext) -> FoundFiles:
        if isinstance(self.path, PartPaths):
            return self.path.find(context.base, self._inside)
        return find_files(context.base, self.path, self._inside)

    def _format(self) -> FileFormat:
        raise NotImplementedError


_TextFiles = Annotated[
    str | PartPaths,
    Field(
        description="a file, a pattern of several such as logs/2026-*, or a URI; or for `split: given` one for each "
        "part: {train, test, validation}"
    ),
]


@dataset("csv")
@dataclass(frozen=True)
class Csv(FileDataset):
    """Interactions from one or several CSV files with a header line; compressed files (.gz, .bz2) too.

    Files are UTF-8, and a value may stand in double quotes. Ids are integers if that changes none, else, as with
    ``x7`` or ``007``, the column is text; ``ids: text`` makes text of all. Times are numbers, or ISO 8601 dates.
    """

    path: _TextFiles
    separator: Separator = ","
    columns: Annotated[
        list[str] | None,
        Field(min_length=2, description="names of all columns, for files without a header line"),
    ] = None
    ids: Annotated[Literal["auto", "text"], Field(description="what ids are read as")] = "auto"

    def _format(self) -> CsvFormat:
        return CsvFormat(self.separator, self.columns, text=("user", "item") if self.ids == "text" else ())


@dataset("parquet")
@dataclass(frozen=True)
class Parquet(FileDataset):
    """Interactions from one or several Parquet files, or from a folder of them (its sub-folders included).

    Folders such as day=2026-01-31 name columns. A folder that is a Delta table is read as its current version.
    """

    _inside: ClassVar[str | None] = "*.parquet"
    path: Annotated[
        str | PartPaths,
        Field(
            description="a file, a folder, a pattern such as logs/*.parquet, or a URI; or for `split: given` one for "
            "each part: {train, test, validation}"
        ),
    ]

    def _format(self) -> ParquetFormat:
        return ParquetFormat()


@dataset("json")
@dataclass(frozen=True)
class Json(FileDataset):
    """Interactions from one or several files of JSON lines, an object a line; compressed files (.gz, .bz2) too.

    Columns are keys of the objects, which hold numbers or text. Times are numbers, or ISO 8601 dates.
    """

    path: _TextFiles

    def _format(self) -> JsonLines:
        return JsonLines()


@dataset("dataframe")
@dataclass(frozen=True, eq=False)
class DataFrame(ColumnOptions):
    """Interactions from a table of pandas, polars or Arrow, for Python only.

    ``DataFrame(frame, rating="stars")``.
    """

    # Not a field, as fields are options of a config file and are logged.
    frame: InitVar[Any] = None

    def __post_init__(self, frame: Any) -> None:
        if not is_table(frame):
            given = "" if frame is None else f", not {type(frame).__name__}"
            raise ValueError(
                f"dataset type 'dataframe' is for Python only: it takes a pandas DataFrame, or a table of polars, "
                f"Arrow or another library with the Arrow protocol{given}; "
                f"in a config file use csv or parquet"
            )
        object.__setattr__(self, "_table", Table(frame, "dataframe"))

    def load(self, context: LoadContext) -> Interactions:
        """Return the interactions of the frame."""
        table: Table = self._table  # type: ignore[attr-defined]
        return self.interactions(
            table, self.roles_for(table.name, table.columns, context), table.columns, context
        )
