"""File formats of other libraries' interactions: adjacency lines, RecBole's atomic files, triples, sparse matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, sparse
from evalplugin.base.text import shorten
from evalplugin.data.formats import CsvFormat, FileFormat, integers_or_text
from evalplugin.data.reading import open_text, path_text
from evalplugin.files.remote import File, RemoteFile

PairFormat: TypeAlias = Literal["adjacency", "recbole", "triples", "npz"]
_ID_ROLES = ("user", "item")
_TRIPLE = ("user", "item", "rating", "timestamp")


@dataclass(frozen=True)
class Adjacency:
    """Lines of a user and the items of that user, separated by spaces; a line of a user alone has no interaction."""

    text_ids: bool = False  # ids that look like integers stay text

    def names(self, file: File) -> list[str]:
        """Return the two columns."""
        return ["user", "item"]

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return one row an item."""
        users: list[bytes] = []
        counts: list[int] = []
        items: list[bytes] = []
        with open_text(file) as stream:
            lines = stream.read().splitlines()
        for number, line in enumerate(lines, start=1):
            ids = line.split()
            if len(ids) == 1 and any(mark in line for mark in b",;:|"):
                raise DataError(
                    f"{path_text(file)}: line {number} is {shorten(line.decode('utf-8', 'replace'), 60)!r}, without a "
                    f"space: a line is a user and the items of that user, separated by spaces; read tables with a "
                    f"separator as type: csv"
                )
            if ids:
                users.append(ids[0])
                counts.append(len(ids) - 1)
                items += ids[1:]
        if len(set(users)) < len(users) and [str(count).encode() for count in counts] == users:
            raise DataError(
                f"{path_text(file)}: each line begins with the number of ids behind it, and not with a user; if line 1 "
                f"is of user 0, awk '{{$1 = NR - 1; print}}' writes such a file"
            )
        columns = [
            self._ids(users).take(pa.array(np.repeat(np.arange(len(users)), counts))),
            self._ids(items),
        ]
        return pa.table(columns, names=self.names(file)).select(list(dict.fromkeys(roles.values())))

    def _ids(self, texts: Sequence[bytes]) -> pa.ChunkedArray:
        ids = pa.chunked_array([pa.array(texts, pa.binary()).cast(pa.string())])
        return ids if self.text_ids else integers_or_text(ids)


@dataclass(frozen=True)
class RecBole:
    """RecBole's atomic files: separated by tabs, with a header whose names have types, as in ``user_id:token``."""

    text_ids: bool = False

    def names(self, file: File) -> list[str]:
        """Return the names without their types."""
        typed = CsvFormat("\t").names(file)
        for name in typed:
            if name.count(":") != 1:
                has = "has no type" if ":" not in name else "is several names, which tabs must separate"
                raise DataError(
                    f"{path_text(file)}: line 1: {name!r} {has}: a header of RecBole looks like user_id:token, "
                    f"item_id:token, rating:float, separated by tabs"
                )
        return [name.partition(":")[0] for name in typed]

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns."""
        typed = {name.partition(":")[0]: name for name in CsvFormat("\t").names(file)}
        reader = CsvFormat("\t", text=_ID_ROLES if self.text_ids else ())
        table = reader.read(file, {role: typed[name] for role, name in roles.items()})
        return table.rename_columns([name.partition(":")[0] for name in table.column_names])


@dataclass(frozen=True)
class Triples:
    """User, item and, if there are more columns, rating and time, separated by tabs, without a header."""

    text_ids: bool = False

    def names(self, file: File) -> list[str]:
        """Return as many of the four names as there are columns."""
        count = len(CsvFormat("\t").names(file))
        if not 2 <= count <= len(_TRIPLE):
            raise DataError(
                f"{path_text(file)}: line 1 has {count} columns separated by tabs, but triples have 2 to 4 (user, "
                f"item, rating, time); read other tables as type: csv"
            )
        return list(_TRIPLE[:count])

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return the requested columns."""
        return CsvFormat("\t", self.names(file), text=_ID_ROLES if self.text_ids else ()).read(file, roles)


@dataclass(frozen=True)
class SparseMatrix:
    """A matrix of users by items, as ``scipy.sparse.save_npz`` writes it: rows, columns and what is stored.

    Stored values need no order; a cell that is stored twice is two rows.
    """

    def names(self, file: File) -> list[str]:
        """Return the names of row, column and value."""
        return list(_TRIPLE[:3])

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return one row a stored value."""
        if isinstance(file, RemoteFile):
            raise DataError(f"{file}: matrices are read from this machine only; copy the file")
        with file.open("rb") as stream:
            try:
                matrix: Any = sparse.load_npz(stream)
                # Rows or columns by a pointer, which compiled code would follow.
                if hasattr(matrix, "check_format"):
                    matrix.check_format(full_check=True)
                matrix = matrix.tocoo()
                values = matrix.data.astype(np.float64, casting="same_kind")
            except Exception as error:  # noqa: BLE001 - whatever SciPy, NumPy and the archive raise
                raise DataError(
                    f"{path_text(file)}: is not a sparse matrix as scipy.sparse.save_npz writes it: "
                    f"{shorten(str(error), 200)}"
                ) from None
        columns = [matrix.row.astype(np.int64), matrix.col.astype(np.int64), values]
        return pa.table(columns, names=self.names(file)).select(list(dict.fromkeys(roles.values())))


def pair_format(name: PairFormat, *, text_ids: bool = False) -> FileFormat:
    """Return the reader of a format; ``text_ids``: ids that look like integers stay text, but in matrices."""
    match name:
        case "adjacency":
            return Adjacency(text_ids)
        case "recbole":
            return RecBole(text_ids)
        case "triples":
            return Triples(text_ids)
        case "npz":
            return SparseMatrix()
