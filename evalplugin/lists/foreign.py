"""Lists as other tools write them: names of columns, and readers of files that are not plain tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pc
from evalplugin.base.text import shorten
from evalplugin.data.files import TableFiles
from evalplugin.data.formats import CsvFormat, FileFormat, ParquetFormat, format_by_name
from evalplugin.data.reading import check_parquet, open_parquet, open_text, path_text, readable
from evalplugin.data.tables import Table
from evalplugin.files.remote import File
from evalplugin.lists.columns import ListColumns, Role

# By format: the columns that are not called as ours are (user, item, rank, score).
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "rectools": {"user": "user_id", "item": "item_id"},
    "lenskit": {"user": "user_id", "item": "item_id"},
    "recommenders": {"user": "userID", "item": "itemID", "score": "prediction"},
    "warprec": {"user": "user_id", "item": "item_id", "score": "rating"},
    "omnirec": {},
    "recbole": {"user": "user_id", "item": "item_id"},  # of truth and train data: RecBole writes no lists
}
_INSTEAD = {"user": "query", "score": "rank"}  # what a user may name in place of a role
_ITEMS = "items"  # LensKit's column of lists


def columns_of(columns: ListColumns, format: str, truth_format: str = "auto") -> ListColumns:
    """Return the columns, with those of the formats where none are named.

    Args:
        columns: The columns that a user names.
        format: Of the lists; one without names of its own changes nothing.
        truth_format: Of truth and train data; auto: as the lists.
    """
    given = {role for role, name in vars(columns).items() if name != getattr(ListColumns(), role)}
    names = {
        role: name for role, name in COLUMNS.get(format, {}).items() if not given & {role, _INSTEAD.get(role)}
    }
    of_truth = COLUMNS.get(truth_format, {})
    if truth_format != "auto" and (names or of_truth):
        names["truth_user"] = columns.truth_user or of_truth.get("user", columns.query or columns.user)
        names["truth_item"] = columns.truth_item or of_truth.get("item", columns.item)
    return replace(columns, **names)


def check_columns(source: TableFiles | Table, role: Role, columns: ListColumns, format: str) -> None:
    """Refuse a table without the columns of its format.

    Raises:
        DataError: A column is missing; the message has those that the format has.
    """
    if format not in COLUMNS:
        return
    names, own = source.columns, COLUMNS[format]
    try:
        columns.to_read(role, source.name, names)
    except DataError as error:
        order = [own.get("score", "rank or score")] if role == "lists" else []
        expected = ", ".join([own.get("user", "user"), own.get("item", "item"), *order])
        raise DataError(
            f"{error}; the format {format} has {expected}: name another format of the {role}, or the columns"
        ) from None


def own_reader(format: str, role: str, file: File) -> FileFormat | None:
    """Return the reader of a tool's files that are not plain tables; None for others.

    Raises:
        DataError: The file cannot be read.
    """
    if format == "omnirec" and role == "lists":
        return JsonColumns()
    if format == "lenskit" and isinstance(format_by_name(file, CsvFormat()), ParquetFormat):
        with readable(file):
            check_parquet(file)
            return NestedLists() if _fields(file) else None
    return None


@dataclass(frozen=True)
class NestedLists:
    """LensKit's native Parquet: a row for each list, whose column ``items`` holds a structure for each item."""

    def names(self, file: File) -> list[str]:
        """Return the names of the keys, such as ``user_id``, and of the items' fields."""
        return [*(name for name in ParquetFormat().names(file) if name != _ITEMS), *_fields(file)]

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return one row for each item; an empty list has none."""
        with open_parquet(file) as opened:
            table = opened.read()
        lists, of_items = table[_ITEMS].combine_chunks(), _fields(file)
        row, items = pc.list_parent_indices(lists), pc.list_flatten(lists)
        names = dict.fromkeys(roles.values())
        return pa.table({n: items.field(n) if n in of_items else table[n].take(row) for n in names})


def _fields(file: File) -> list[str]:
    """Return the fields of the structures in the column ``items``; none without such a column."""
    with open_parquet(file) as opened:
        schema = opened.schema_arrow
    kind = schema.field(_ITEMS).type if _ITEMS in schema.names else pa.null()
    is_nested = pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)
    return [field.name for field in kind.value_type] if is_nested else []


@dataclass(frozen=True)
class JsonColumns:
    """OmniRec's ``predictions.json``: an object with an array for each column."""

    def names(self, file: File) -> list[str]:
        """Return the keys."""
        return list(self._read(file).column_names)

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns."""
        return self._read(file).select(list(dict.fromkeys(roles.values())))

    def _read(self, file: File) -> pa.Table:
        try:
            with open_text(file) as stream:
                columns = json.load(stream)
            if not all(isinstance(column, list) for column in columns.values()):
                raise TypeError("a value is not an array")
            return pa.table(columns)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise DataError(
                f"{path_text(file)}: is not as OmniRec writes predictions.json, an object with an array for each "
                f"column: {shorten(str(error), 200)}"
            ) from None
