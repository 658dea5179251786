"""Files of tables, on this machine or in a store, found by name or pattern and read as one table."""

from __future__ import annotations

import glob
import re
import stat
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evalplugin.base.errors import DataError, did_you_mean_file
from evalplugin.data.delta import LOG, delta_files
from evalplugin.data.formats import CsvFormat, FileFormat, ParquetFormat
from evalplugin.data.partitions import NO_PARTITIONS, Partitions, partitions_below
from evalplugin.data.reading import open_parquet, path_text, readable
from evalplugin.data.tables import Table, column_problem, row_number
from evalplugin.files.remote import File, RemoteFile, find_remote, is_remote_folder
from evalplugin.files.uris import is_remote, local_path

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FoundFiles", "TableFiles", "find_files"]

_PARQUET = "*.parquet"
_PIECE = 2**20  # rows
_REQUESTS = 16  # at a time, to a store

Report = Callable[[str, float | None], None]


class FoundFiles(NamedTuple):
    """Files, and the columns that their folders name."""

    files: tuple[File, ...]
    partitions: Partitions


def find_files(base: Path, path: str, inside: str | None = None) -> FoundFiles:
    """Return the sorted files of a path: a file, a pattern, or a folder if ``inside`` is a pattern for its files.

    Args:
        base: Folder of a relative path.
        path: A path, or a URI such as ``s3://bucket/folder``.
        inside: Pattern of the names of files in a folder; None: no folders.

    Raises:
        DataError: There is no such file, or its store refuses or cannot be reached.
    """
    if is_remote(path):
        log = f"{path.rstrip('/')}/{LOG}"
        if inside == _PARQUET and is_remote_folder(path) and is_remote_folder(log):
            return FoundFiles(*delta_files(path))
        return _found(find_remote(path, inside), _before_wildcards(path))
    with readable(path):
        return _find(base, str(local_path(path)), inside)


def _find(base: Path, path: str, inside: str | None) -> FoundFiles:
    try:
        full = base / Path(path).expanduser()
    except RuntimeError as error:  # an unknown user's home
        raise DataError(f"{path_text(path)}: {error}") from None
    try:
        kind = full.stat().st_mode
    except FileNotFoundError:
        return _found(_matching(base, path, full), base / Path(_before_wildcards(path)).expanduser())
    if stat.S_ISREG(kind):
        return FoundFiles((full,), NO_PARTITIONS)
    if not stat.S_ISDIR(kind):
        raise DataError(
            f"{path_text(full)}: is neither a file nor a folder (a pipe or a device cannot be read)"
        )
    if inside is None:
        raise DataError(f"{full} is a folder, not a file; name its files by a pattern such as {path}/*.csv")
    if inside == _PARQUET and (full / LOG).is_dir():
        return FoundFiles(*delta_files(full))
    files = sorted(f for f in full.rglob(inside) if f.is_file())
    if not files:
        raise DataError(f"no {inside} file in the folder {full}")
    return _found(files, full)


def _found(files: Sequence[File], folder: str | Path) -> FoundFiles:
    """Return files with the columns that the folders below one name."""
    return FoundFiles(tuple(files), partitions_below(folder, files))


def _before_wildcards(path: str) -> str:
    """Return the folder before the first wildcard of a path, or the path without one."""
    magic = re.search(r"[*?[]", path)
    return path if magic is None else path[: magic.start()].rpartition("/")[0]


def _matching(base: Path, path: str, full: Path) -> list[Path]:
    # The base is a folder, not a pattern, even if its name has wildcard characters.
    pattern = path if Path(path).is_absolute() else f"{glob.escape(str(base))}/{path}"
    files = sorted(
        f for f in map(Path, glob.glob(str(Path(pattern).expanduser()), recursive=True)) if f.is_file()
    )
    if files:
        return files
    if glob.has_magic(path):
        raise DataError(f"no file matches {path_text(full)}")
    if full.is_symlink():
        raise DataError(f"{path_text(full)}: is a link to {path_text(full.readlink())}, which does not exist")
    siblings = [p.name for p in full.parent.iterdir()] if full.parent.is_dir() else []
    near = did_you_mean_file(full.name, siblings)
    raise DataError(f"file not found: {path_text(full)}{near}")


@dataclass(frozen=True)
class TableFiles:
    """One or several files with the same columns, read as one table; all methods raise DataError for a bad file."""

    name: str  # of all files together, in messages
    files: tuple[File, ...]
    format: FileFormat
    partitions: Partitions = NO_PARTITIONS
    _known: dict[File, list[str]] = field_of(default_factory=dict, repr=False, compare=False)  # columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns in the first file, and of those that the folders name."""
        names = self._names(self.files[0])
        return [*names, *(name for name in self.partitions.types if name not in names)]

    def check_columns(self) -> None:
        """Refuse a file without a header, or with other columns than the first one."""
        first, expected = self.files[0], set(self._names(self.files[0]))
        self._look_up_names()
        for file in self.files:
            found = self._names(file)
            if odd := sorted(set(found) ^ expected):
                raise DataError(
                    f"{file}: its columns are not those of {first.name}: {', '.join(map(repr, odd))} "
                    f"{'is' if len(odd) == 1 else 'are'} in one of them only"
                )

    def read(self, roles: Mapping[str, str], report: Report = lambda text, share: None) -> Table:
        """Return the requested columns, by role; row numbers in messages are those of each file."""
        tables = []
        self._look_up_names()
        for number, file in enumerate(self.files):
            report(f"reading {file.name}", number / len(self.files))
            self._check_columns(file, roles)
            with readable(file):
                table = self.format.read(file, self._own(file, roles))
                table = self.partitions.add_to(table, file, roles.values())
                tables.append(_dates_as_times(table))
        ends = np.cumsum([len(table) for table in tables])

        def row_name(row: int) -> str:
            number = int(np.searchsorted(ends, row, side="right"))
            return self._row_name(number, row - (int(ends[number - 1]) if number else 0))

        return Table(self._joined(tables), self.name, row_name)

    def batches(self, roles: Mapping[str, str], rows: int) -> Iterator[Table]:
        """Yield the rows of Parquet files in batches, which alone are in memory."""
        import pyarrow as pa

        for number, file in enumerate(self.files):
            done = 0
            self._check_columns(file, roles)
            with readable(file), open_parquet(file) as opened:
                columns = list(dict.fromkeys(self._own(file, roles).values()))
                for batch in _batches(opened, rows, columns, by_group=isinstance(file, RemoteFile)):
                    start = done
                    done += len(batch)
                    table = pa.Table.from_batches([batch])
                    yield Table(
                        self.partitions.add_to(table, file, roles.values()),
                        self.name,
                        lambda row, number=number, start=start: self._row_name(number, start + row),  # type: ignore[misc]
                    )

    def pieces(self, roles: Mapping[str, str]) -> Iterator[Table]:
        """Yield all rows: those of Parquet files in batches, those of other files at once."""
        return self.batches(roles, _PIECE) if self.is_parquet else iter([self.read(roles)])

    def row_groups(self, number: int, groups: Sequence[int], start: int, roles: Mapping[str, str]) -> Table:
        """Return the requested columns of some row groups of a Parquet file.

        Args:
            number: Position of the file.
            groups: Numbers of the row groups, one behind the other.
            start: The first row, counted from 0 in the file.
            roles: Columns by role.
        """
        file = self.files[number]
        self._check_columns(file, roles)
        with readable(file), open_parquet(file) as opened:
            columns = list(dict.fromkeys(self._own(file, roles).values()))
            table = opened.read_row_groups(list(groups), columns=columns, use_threads=False)
            table = self.partitions.add_to(table, file, roles.values())
        return Table(table, self.name, lambda row: self._row_name(number, start + row))

    def row_group_batches(
        self, number: int, groups: Sequence[int], start: int, roles: Mapping[str, str], rows: int
    ) -> Generator[Table]:
        """Yield the rows of some row groups in batches; see ``row_groups``."""
        import pyarrow as pa

        file = self.files[number]
        self._check_columns(file, roles)
        with readable(file), open_parquet(file) as opened:
            columns = list(dict.fromkeys(self._own(file, roles).values()))
            for batch in opened.iter_batches(
                rows, row_groups=list(groups), columns=columns, use_threads=False
            ):
                table = self.partitions.add_to(pa.Table.from_batches([batch]), file, roles.values())
                yield Table(table, self.name, lambda row, start=start: self._row_name(number, start + row))  # type: ignore[misc]
                start += len(batch)

    def with_absolute_paths(self) -> TableFiles:
        """Return the same files for a process in another folder."""
        return replace(self, files=tuple(f.absolute() if isinstance(f, Path) else f for f in self.files))

    @property
    def is_parquet(self) -> bool:
        """Whether the rows can be counted and read in batches."""
        return isinstance(self.format, ParquetFormat)

    def _names(self, file: File) -> list[str]:
        if file in self._known:
            return self._known[file]
        with readable(file):
            names = self.format.names(file)
        if not names:
            raise DataError(f"{path_text(file)} is empty: it has no line with the names of its columns")
        if isinstance(file, RemoteFile):
            self._known[file] = names
        return names

    def _look_up_names(self) -> None:
        """Look up the columns of all files of a store at the same time, as each takes several requests."""
        remote = [file for file in self.files if isinstance(file, RemoteFile)]
        if len(remote) > 1:
            with ThreadPoolExecutor(_REQUESTS) as pool:
                list(pool.map(self._names, remote))

    def _own(self, file: File, roles: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that are in a file itself."""
        if not self.partitions.types:
            return dict(roles)
        names = self._names(file)
        return {role: name for role, name in roles.items() if name in names}

    def _check_columns(self, file: File, roles: Mapping[str, str]) -> None:
        names = self._names(file)
        self.partitions.check(file, names, roles.values())
        known = [*names, *(name for name in self.partitions.types if name not in names)]
        for role, name in roles.items():
            if problem := column_problem(name, known, role):
                raise DataError(f"{path_text(file)}: {problem}")

    def _row_name(self, number: int, row: int) -> str:
        return row_number(row, "" if len(self.files) == 1 else f" of {self.files[number].name}")

    def _joined(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return all tables as one; numbers of several widths become the widest."""
        import pyarrow as pa

        filled = [pair for pair in zip(tables, self.files, strict=True) if len(pair[0])]
        (first, first_file), *others = filled or [(tables[0], self.files[0])]
        for table, file in others:
            for field, expected in zip(table.schema, first.schema, strict=True):
                if _is_number(field) != _is_number(expected) and field.type != pa.null():
                    hint = "; reading ids as text makes them the same in all files (ids: text, or --ids text)"
                    raise DataError(
                        f"{file}: column {field.name!r} is {field.type}, but {expected.type} in {first_file.name}"
                        f"{hint if isinstance(self.format, CsvFormat) else ''}"
                    )
        try:
            return pa.concat_tables([first, *(table for table, _ in others)], promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"{self.name}: the files' columns are of different types: {error}") from None


def _batches(opened: Any, rows: int, columns: list[str], *, by_group: bool) -> Iterator[Any]:
    """Yield batches of a Parquet file; ``by_group``: of one row group after the other, each fetched at once."""
    for groups in [[group] for group in range(opened.num_row_groups)] if by_group else [None]:
        yield from opened.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False)


def _is_number(field: pa.Field) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(field.type) or pa.types.is_floating(field.type))


def _dates_as_times(table: pa.Table) -> pa.Table:
    """Return dates as timestamps, as the dates of another file may have a time."""
    import pyarrow as pa

    for position, field in enumerate(table.schema):
        if pa.types.is_date(field.type):
            times = table.column(position).cast(pa.timestamp("s"))
            table = table.set_column(position, field.name, times)
    return table
