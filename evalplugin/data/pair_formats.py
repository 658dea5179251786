"""File formats of other libraries' interactions: adjacency lines, RecBole's atomic files, triples, sparse matrices."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias
from zipfile import BadZipFile, ZipFile

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import np, pa
from evalplugin.base.text import shorten
from evalplugin.base.units import size_text
from evalplugin.data.formats import CsvFormat, FileFormat, integers_or_text
from evalplugin.data.reading import open_text, path_text
from evalplugin.files.remote import File, RemoteFile

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import coo_array

PairFormat: TypeAlias = Literal["adjacency", "recbole", "triples", "npz"]
_ID_ROLES = ("user", "item")
_TRIPLE = ("user", "item", "rating", "timestamp")
# Formats of sparse matrices, with the names of their arrays of indices.
_INDICES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
# Matrices with few different values unpack to about ten times their file; what unpacks to little is always read.
_MOST_PACKED = 100
_ALWAYS_UNPACKED = 2**28  # bytes


@dataclass(frozen=True)
class Adjacency:
    """Lines of a user and the items of that user, separated by spaces; a line of a user alone has no interaction."""

    ids_are_written: ClassVar[bool] = True
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

    ids_are_written: ClassVar[bool] = True
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

    ids_are_written: ClassVar[bool] = True
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

    ids_are_written: ClassVar[bool] = False

    def names(self, file: File) -> list[str]:
        """Return the names of row, column and value."""
        return list(_TRIPLE[:3])

    def read(self, file: File, roles: Mapping[str, str]) -> pa.Table:
        """Return one row a stored value."""
        if isinstance(file, RemoteFile):
            raise DataError(f"{file}: matrices are read from this machine only; copy the file")
        with file.open("rb") as stream:
            try:
                matrix = _checked_matrix(stream)
            except (ArithmeticError, EOFError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError, ValueError,
                    BadZipFile, TokenError, zlib.error) as error:  # fmt: skip
                raise DataError(
                    f"{path_text(file)}: is not a sparse matrix as scipy.sparse.save_npz writes it: "
                    f"{shorten(str(error), 200)}"
                ) from None
        columns = [matrix.row.astype(np.int64), matrix.col.astype(np.int64), matrix.data]
        return pa.table(columns, names=self.names(file)).select(list(dict.fromkeys(roles.values())))


def _checked_matrix(file: IO[bytes]) -> coo_array:
    """Return the matrix in a file; all of it is checked before SciPy's compiled code, which trusts its arrays.

    Raises:
        Exception: The file holds no such matrix.
    """
    from scipy import sparse

    with ZipFile(file) as archive:
        unpacked, size = sum(member.file_size for member in archive.infolist()), file.seek(0, os.SEEK_END)
        if unpacked > max(_ALWAYS_UNPACKED, _MOST_PACKED * size):
            raise ValueError(f"it would unpack to {size_text(unpacked)} from {size_text(size)}")
        name = _array(archive, "format", "SU", 0).astype(str).item()
        if name not in _INDICES:
            raise ValueError(f"its format is {name!r}; allowed: {', '.join(_INDICES)}: save matrix.tocsr()")
        shape = tuple(_array(archive, "shape", "iu", 1).astype(np.int64).tolist())
        if len(shape) != 2 or min(shape) < 0:
            raise ValueError(f"its shape is {shape}, not a number of users and one of items")
        data = _array(archive, "data", "biuf", 1).astype(np.float64)
        first, second = (_array(archive, array, "iu", 1).astype(np.int64) for array in _INDICES[name])
    if name == "coo":
        return sparse.coo_array((data, (first, second)), shape=shape)  # which checks the ranges of both
    kind = sparse.csr_array if name == "csr" else sparse.csc_array
    matrix = kind((data, first, second), shape=shape)
    matrix.check_format(full_check=True)
    return matrix.tocoo()


def _array(archive: ZipFile, name: str, kinds: str, dimensions: int) -> npt.NDArray[Any]:
    """Return an array of an ``.npz`` file, whose header must agree with the size of what is stored behind it.

    Args:
        archive: The file.
        name: Of the array.
        kinds: Of its dtype, as NumPy abbreviates them.
        dimensions: The number of its dimensions.

    Raises:
        Exception: There is no such array.
    """
    header = np.lib.format
    if (file := f"{name}.npy") not in archive.namelist():
        raise ValueError(f"it has no array {name!r}")
    with archive.open(file) as stream:
        version = header.read_magic(stream)
        read = header.read_array_header_1_0 if version == (1, 0) else header.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.kind not in kinds or len(shape) != dimensions:
            raise ValueError(f"its array {name!r} holds {dtype} in the shape {shape}")
        stored = archive.getinfo(file).file_size - stream.tell()
        if math.prod(shape) * dtype.itemsize != stored:
            raise ValueError(f"its array {name!r} has the shape {shape} of {dtype}, but {stored:,} bytes")
        return np.frombuffer(stream.read(), dtype).reshape(shape)


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
