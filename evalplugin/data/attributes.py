"""Attributes of users and items, read from a table of them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.data.files import TableFiles, find_files
from evalplugin.data.formats import CsvFormat, ParquetFormat
from evalplugin.data.reading import readable
from evalplugin.data.tables import Table

__all__ = ["Attributes", "Entity", "attributes_from", "open_attributes"]

Entity: TypeAlias = Literal["user", "item"]
Values: TypeAlias = npt.NDArray[Any]


class Attributes(Mapping[str, Values]):
    """Columns of a table of users or items by name, in the order of their codes. All arrays are read-only.

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

    def select(self, mask: npt.NDArray[np.bool_]) -> Attributes:
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


def open_attributes(
    base: Path, path: str, *, separator: str, columns: Sequence[str] | None = None, text: Collection[str]
) -> TableFiles:
    """Return the file of a table of users or items: Parquet by its ending, or else CSV.

    Args:
        base: Folder of a relative path.
        path: One file.
        separator: What stands between values of a CSV file.
        columns: Names of all columns of a CSV file without a header line.
        text: Roles whose values are read as text from CSV, as what they are depends on all of them.

    Raises:
        DataError: There is no such file, there are several, or it has no columns.
    """
    files = find_files(base, path).files
    if len(files) > 1:
        raise DataError(f"{path} means {len(files)} files; name one")
    parquet = files[0].suffix.lower() in (".parquet", ".pq")
    csv = CsvFormat(separator, columns, text=text)
    source = TableFiles(str(files[0]), files, ParquetFormat() if parquet else csv)
    source.check_columns()
    return source


def attributes_from(
    table: Table,
    kind: Entity,
    ids: str,
    columns: Sequence[str],
    vocabulary: npt.NDArray[np.generic],
    *,
    is_csv: bool,
    numbers: bool = True,
) -> Attributes:
    """Return columns of a table in the order of a vocabulary.

    Args:
        table: Several rows with the same id must agree.
        kind: What the table is of.
        ids: Name of the column of ids.
        columns: Names of the others.
        vocabulary: Raw ids (n,), ascending: int64, or str as object.
        is_csv: Whether all values were read as text, from which their type is yet to be found.
        numbers: Whether a column in which everything is a number is numbers, not text.

    Raises:
        DataError: There are no rows; an id is missing, or of another type than the vocabulary; none is in it; rows
            with the same id contradict each other; a column holds neither numbers nor text.
    """
    import pandas as pd

    if not len(table):
        raise DataError(f"{table.name}: there are no rows")
    found = _ids(table, kind, ids, vocabulary, is_csv=is_csv)
    code = pd.Index(vocabulary).get_indexer(pd.Index(found))
    rows = np.flatnonzero(code >= 0)
    if not len(rows):
        raise DataError(
            f"{table.name}: none of its {kind}s is in the data: column {ids!r} has ids such as {_examples(found)}, "
            f"the data such as {_examples(vocabulary)}"
        )
    attributes = {}
    for name in columns:
        values = _values(table, name, numbers=numbers, is_csv=is_csv)
        known = np.full(len(vocabulary), None if values.dtype == object else np.nan, dtype=values.dtype)
        known[code[rows]] = values[rows]
        _refuse_contradictions(table, kind, name, found[rows], values[rows], known[code[rows]])
        attributes[name] = known
    return Attributes(attributes)


def _refuse_contradictions(
    table: Table, kind: Entity, name: str, ids: Values, values: Values, last: Values
) -> None:
    """Refuse rows (R,) whose value differs from that of the ``last`` row with the same id."""
    same = values == last
    if values.dtype != object:
        same |= np.isnan(values) & np.isnan(last)
    if not same.all():
        row = int(np.argmin(same))
        one_id, one, other = (array[[row]].tolist()[0] for array in (ids, values, last))
        raise DataError(
            f"{table.name}: the rows of {kind} {one_id!r} contradict each other: {name!r} is {one!r} in one, "
            f"{other!r} in another (such {kind}s: {len(np.unique(ids[~same]))})"
        )


def _examples(ids: npt.NDArray[np.generic]) -> str:
    return ", ".join(map(repr, np.unique(ids[:1000])[:3].tolist()))


def _ids(table: Table, kind: Entity, name: str, like: npt.NDArray[np.generic], *, is_csv: bool) -> Values:
    """Return a column of ids of the same type as the data's ids ``like``: int64, or str as object."""
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
                f"{kind} ids must be {'text' if text else 'integers'}, as those of the data are "
                f"(such as {like[:1].tolist()[0]!r})"
            )
            table.refuse(name, row, rule, missing=not column[row].is_valid)
        ids: Values = column.cast(pa.string() if text else pa.int64()).to_numpy(zero_copy_only=False)
    return ids


def _values(table: Table, name: str, *, numbers: bool, is_csv: bool) -> Values:
    """Return a column as float64 if all values are numbers, else as text; missing or empty ones are NaN or None."""
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
        values: Values = pc.if_else(pc.fill_null(empty, True), None, texts).to_numpy(zero_copy_only=False)
    return values


def _is_text(column: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))
