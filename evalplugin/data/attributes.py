"""Attributes of users and items, read from a table of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Flags
from evalplugin.base.errors import DataError, KeyPath, Problem
from evalplugin.base.libraries import pa, pc
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, format_by_name
from evalplugin.data.reading import readable
from evalplugin.data.tables import Ids, Table, column_problem, is_number_type, null_texts
from evalplugin.data.vocabulary import matched

Values: TypeAlias = "npt.NDArray[Any]"
Separator = Annotated[
    str,
    Field(min_length=1, max_length=2, description="separator of the values of a CSV file, such as ; or ::"),
]


class Attributes(Mapping[str, Values]):
    """Columns of a table of users or items by name, in the order of their codes; read-only.

    A column of numbers is float64 (n,), NaN where unknown; any other is text as object, None where unknown.
    """

    def __init__(self, columns: Mapping[str, Values] | None = None) -> None:
        self._columns = {name: values.view() for name, values in (columns or {}).items()}
        for values in self._columns.values():
            values.flags.writeable = False

    def __getitem__(self, name: str) -> Values:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"Attributes({', '.join(self._columns)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Attributes, (self._columns,)  # as a pickle forgets that arrays are read-only

    def select(self, mask: Flags) -> Attributes:
        """Return the attributes of the users or items where ``mask`` (n,) is true."""
        return Attributes({name: values[mask] for name, values in self.items()})

    @property
    def digest(self) -> str:
        """A hash of names and values."""
        content = hashlib.sha256()
        for name, values in sorted(self.items()):
            content.update(f"{name!r} {values.dtype} ".encode())
            text = values.dtype == object
            content.update(repr(values.tolist()).encode() if text else np.ascontiguousarray(values).data)
        return content.hexdigest()


def as_texts(values: Values) -> Values:
    """Return an attribute as text, None where unknown: whole numbers without a fraction, such as ``7``."""
    if values.dtype == object:
        return values
    texts = [str(int(v)) if v.is_integer() else None if np.isnan(v) else repr(v) for v in values.tolist()]
    return np.array(texts, dtype=object)


def open_attributes(
    base: Path, path: str, separator: str, columns: Sequence[str] | None = None
) -> TableFiles:
    """Return the files of a table of users or items: Parquet or JSON lines by their ending, or else CSV.

    Args:
        base: Folder of a relative path.
        path: A file, or a pattern of several.
        separator: What stands between values of a CSV file.
        columns: Names of all columns of a CSV file without a header line.

    Raises:
        DataError: No file matches, or files have no columns, or different ones.
    """
    files, partitions = find_files(base, path)
    name = str(files[0]) if len(files) == 1 else path
    source = TableFiles(name, files, format_by_name(files[0], CsvFormat(separator, columns)), partitions)
    source.check_columns()
    return source


def column_problems(source: Table | TableFiles, named: Mapping[KeyPath, str]) -> list[Problem]:
    """Return a problem for each column that the table does not have exactly once; paths are the keys of ``named``."""
    problems = {path: column_problem(name, source.columns) for path, name in named.items()}
    return [Problem(path, f"{source.name}: {text}") for path, text in problems.items() if text]


class EntityTable:
    """A table of users or items whose rows are matched to the ids of the data."""

    def __init__(
        self, source: Table | TableFiles, kind: str, ids: str, columns: Sequence[str], vocabulary: Values
    ) -> None:
        """Read the table.

        Args:
            source: The table; several rows with the same id must agree.
            kind: The noun of what has an id, such as user or item.
            ids: Name of the column of ids.
            columns: Names of the other columns to read.
            vocabulary: Raw ids of the data (n,), ascending: int64, or str as object.

        Raises:
            DataError: A column or all rows are missing; an id is missing, or of another type than the data's; none is
                in the data.
        """
        if problems := column_problems(source, {(name,): name for name in dict.fromkeys((ids, *columns))}):
            raise DataError("; ".join(problem.message for problem in problems))
        id_role = "user" if kind == "user" else "item"
        roles = {id_role: ids, **{f"attribute {name}": name for name in columns if name != ids}}
        self._is_csv = isinstance(source, TableFiles) and isinstance(source.format, CsvFormat)
        if isinstance(source, TableFiles):
            if isinstance(source.format, CsvFormat):
                # The type of an attribute depends on all of its values; ids are read as those of the data.
                text = [role for role in roles if role != id_role or vocabulary.dtype == object]
                source = replace(source, format=replace(source.format, text=text))
            source = source.read(roles)
        table = source
        if not len(table):
            raise DataError(f"{table.name}: there are no rows")
        self._table, self._kind = table, kind
        self.notes = table.notes  # on its ids and the columns read so far
        found = matched(table, ids, kind, vocabulary)
        self._vocabulary = vocabulary
        self.ids: Values = found.ids.astype(vocabulary.dtype)[found.position]
        code = found.code[found.position]
        self._rows = np.flatnonzero(code >= 0)
        self._code = code[self._rows]
        self.notes += [f"{table.name}: {note}" for note in found.notes]

    def column(self, name: str, *, numbers: bool = True) -> Values:
        """Return a column in the order of the vocabulary: float64 (n,), NaN if unknown, or text, None if unknown.

        It is text unless everything in it is a number and ``numbers`` is true.

        Raises:
            DataError: Rows with the same id contradict each other, or the column holds neither numbers nor text.
        """
        values = self._values(name, numbers=numbers)[self._rows]
        is_text = values.dtype == object
        known = np.full(len(self._vocabulary), None if is_text else np.nan, dtype=values.dtype)
        known[self._code] = values
        last = known[self._code]  # the value of the last row with the same id
        same = values == last
        if not is_text:
            same |= np.isnan(values) & np.isnan(last)
        if not same.all():
            ids, row = self.ids[self._rows], int(np.argmin(same))
            entity = ids[[row]].tolist()[0]
            value, other = (_shown(array[[row]].tolist()[0]) for array in (values, last))
            raise DataError(
                f"{self._table.name}: the rows of {self._kind} {entity!r} contradict each other: {name!r} is "
                f"{value} in one, {other} in another (such {self._kind}s: {len(np.unique(ids[~same]))})"
            )
        return known

    def _values(self, name: str, *, numbers: bool) -> Values:
        """Return a column as float64 if all values are numbers, else as text; missing or empty: NaN or None."""
        with readable(f"{self._table.name}: column {name!r}"):
            column = self._table.arrow(name)
            kind = column.type
            if numbers and (self._is_csv or pa.types.is_null(kind) or is_number_type(kind)):
                with suppress(pa.ArrowInvalid):  # text
                    as_numbers: Values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
                    return as_numbers
            if pa.types.is_nested(kind):
                raise DataError(
                    f"{self._table.name}: column {name!r} is {kind}: it must hold numbers or text"
                )
            texts = column.cast(pa.string())
            rows, among_numbers = null_texts(Ids("text", texts))
            if numbers and among_numbers:
                place = self._table.row_name(int(rows[0]))
                self.notes.append(
                    f"{self._table.name}: column {name!r} is text, as {place} is {texts[int(rows[0])].as_py()!r}, and "
                    f"all others are numbers: an unknown value must be empty"
                )
            empty = pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(texts)), 0)
            values: Values = pc.if_else(pc.fill_null(empty, True), None, texts).to_numpy(zero_copy_only=False)
        return values


def _shown(value: object) -> str:
    return "empty" if value is None or value != value else repr(value)
