"""Files of tables, on this machine or in a store, found by name or pattern and read as one table."""

from __future__ import annotations

import glob
import re
import stat
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

import numpy as np

from evalplugin.base.errors import DataError, did_you_mean_file, how_to_install
from evalplugin.base.libraries import pa
from evalplugin.base.text import shorten
from evalplugin.data.formats import CsvFormat, FileFormat, ParquetFormat, is_id
from evalplugin.data.parts import PART
from evalplugin.data.reading import open_parquet, path_text, readable
from evalplugin.data.tables import Table, columns_problem, is_number_type, row_number
from evalplugin.files.remote import File, RemoteFile, find_remote, is_remote_folder
from evalplugin.files.stores import delta_options
from evalplugin.files.uris import is_remote, local_path

_PARQUET = "*.parquet"
_DELTA_LOG = "_delta_log"  # a folder
_COPY = ", or write a copy of it as plain Parquet"
_PIECE = 2**20  # rows
_REQUESTS = 16  # at a time, to a store
_NULL = "__HIVE_DEFAULT_PARTITION__"  # the name of a folder whose rows have no value

Report = Callable[[str, float | None], None]


class FoundFiles(NamedTuple):
    """Files, and for each its values of the columns that folders name; ``partitions`` is empty without such columns."""

    files: tuple[File, ...]
    partitions: tuple[Mapping[str, pa.Scalar], ...] = ()


def find_files(base: Path, path: str, inside: str | None = None) -> FoundFiles:
    """Return the sorted files of a path: a file, a pattern, or a folder if ``inside`` is a pattern for its files.

    A relative path starts from ``base``; a URI such as ``s3://bucket/folder`` is a path too.

    Raises:
        DataError: No file matches, or the store refuses or cannot be reached.
    """
    if is_remote(path):
        log = f"{path.rstrip('/')}/{_DELTA_LOG}"
        if inside == _PARQUET and is_remote_folder(path) and is_remote_folder(log):
            return _delta_files(path)
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
        return FoundFiles((full,))
    if not stat.S_ISDIR(kind):
        raise DataError(
            f"{path_text(full)}: is neither a file nor a folder (a pipe or a device cannot be read)"
        )
    if inside is None:
        raise DataError(f"{full} is a folder, not a file; name its files by a pattern such as {path}/*.csv")
    if inside == _PARQUET and (full / _DELTA_LOG).is_dir():
        return _delta_files(full)
    files = sorted(f for f in full.rglob(inside) if f.is_file())
    if not files:
        raise DataError(f"no {inside} file in the folder {full}")
    return _found(files, full)


def _found(files: Sequence[File], folder: str | Path) -> FoundFiles:
    """Return files with the columns that the folders below one name, such as ``day=2026-01-31`` (Hive's partitions).

    Values are 32-bit integers if all of a column are, or else text, as Arrow infers.
    """
    texts = [_folder_values(file, folder) for file in files]
    partitions: list[dict[str, pa.Scalar]] = [{} for _ in files]
    for name in dict.fromkeys(name for values in texts for name in values):
        numbers = [number for number, values in enumerate(texts) if name in values]
        column = pa.array([texts[number][name] for number in numbers], pa.string())
        with suppress(pa.ArrowInvalid):
            column = column.cast(pa.int32())
        for number, value in zip(numbers, column, strict=True):
            partitions[number][name] = value
    return FoundFiles(tuple(files), tuple(partitions) if any(partitions) else ())


def _folder_values(file: File, folder: str | Path) -> dict[str, str | None]:
    """Return the values of the columns that the folders between ``folder`` and a file name; None: null."""
    below = (
        file.uri[len(str(folder)) :] if isinstance(file, RemoteFile) else file.relative_to(folder).as_posix()
    )
    pairs = [part.partition("=") for part in below.split("/")[:-1]]
    named = {unquote(name): unquote(value) for name, equals, value in pairs if name and equals}
    return {name: None if value == _NULL else value for name, value in named.items()}


def _before_wildcards(path: str) -> str:
    """Return the folder before the first wildcard of a path, or the path without one."""
    magic = re.search(r"[*?[]", path)
    return path if magic is None else path[: magic.start()].rpartition("/")[0]


def _matching(base: Path, path: str, full: Path) -> list[Path]:
    names = glob.glob(str(Path(path).expanduser()), root_dir=base, recursive=True)
    if files := sorted(file for name in names if (file := base / name).is_file()):
        return files
    if glob.has_magic(path):
        raise DataError(f"no file matches {path_text(full)}")
    if full.is_symlink():
        raise DataError(f"{path_text(full)}: is a link to {path_text(full.readlink())}, which does not exist")
    siblings = [p.name for p in full.parent.iterdir()] if full.parent.is_dir() else []
    near = did_you_mean_file(full.name, siblings)
    raise DataError(f"file not found: {path_text(full)}{near}")


def _delta_files(folder: str | Path) -> FoundFiles:
    """Return the files of a Delta table's current version, sorted, with the partition columns that its log keeps."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise DataError(
            f"{folder}: is a Delta table, and the package deltalake is not installed: "
            f"{how_to_install('deltalake', 'delta')}"
        ) from None
    try:
        options = delta_options(str(folder)) if is_remote(folder) else None
        table = DeltaTable(str(folder), storage_options=options)
        _refuse_delta_features(folder, table)
        return _current_files(folder, table)
    except (DeltaError, OSError, ValueError) as error:
        text = " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())
        raise DataError(f"{folder}: cannot be read as a Delta table: {shorten(text, 300)}") from None


def _current_files(folder: str | Path, table: Any) -> FoundFiles:
    schema = pa.schema(table.schema())
    types = {name: schema.field(name).type for name in table.metadata().partition_columns}
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if not actions:
        raise DataError(f"{folder}: the current version {table.version()} of the Delta table has no rows")
    values: dict[File, dict[str, pa.Scalar]] = {}
    for action in actions:
        # Paths of the log are encoded as URLs; the names of files are what that stands for.
        path = unquote(action["path"])
        file: File = Path(folder) / path
        if is_remote(folder):
            uri = path if is_remote(path) else f"{str(folder).rstrip('/')}/{path}"
            file = RemoteFile(uri, action["size_bytes"], 10**6 * action["modification_time"])
        values[file] = {name: pa.scalar(action[f"partition.{name}"], kind) for name, kind in types.items()}
    files = tuple(sorted(values, key=str))
    return FoundFiles(files, tuple(values[file] for file in files) if types else ())


def _refuse_delta_features(folder: str | Path, table: Any) -> None:
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        raise DataError(
            f"{folder}: the Delta table has column mapping ({mapping}), which cannot be read{_COPY}"
        )
    features = table.protocol().reader_features or []
    if "deletionVectors" in features and any(batch.num_rows for batch in table.deletion_vectors()):
        raise DataError(
            f"{folder}: the Delta table has deletion vectors, which cannot be applied: run REORG TABLE ... APPLY "
            f"(PURGE) on it{_COPY}"
        )


@dataclass(frozen=True)
class TableFiles:
    """One or several files with the same columns, read as one table; all methods raise DataError for a bad file."""

    name: str  # of all files together, in messages
    files: tuple[File, ...]
    format: FileFormat
    partitions: tuple[Mapping[str, pa.Scalar], ...] = ()  # see ``FoundFiles``
    _known: dict[File, list[str]] = field_of(default_factory=dict, repr=False, compare=False)  # columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns in the first file, and of those that the folders name."""
        return self._with_folders(self._names(self.files[0]))

    def check_columns(self) -> None:
        """Refuse a file without a header, or with other columns than the first one."""
        first, expected = self.files[0], set(self._names(self.files[0]))
        self._look_up_names()
        for file in self.files:
            if odd := sorted(set(self._names(file)) ^ expected):
                raise DataError(
                    f"{file}: its columns are not those of {first.name}: {', '.join(map(repr, odd))} "
                    f"{'is' if len(odd) == 1 else 'are'} in one of them only"
                )

    def read(self, roles: Mapping[str, str], report: Report = lambda text, share: None) -> Table:
        """Return the requested columns by role; messages count the rows of each file."""
        tables = []
        self._look_up_names()
        for number, file in enumerate(self.files):
            report(f"reading {file.name}", number / len(self.files))
            own = self._own(number, roles)
            with readable(file):
                table = self._with_partition(number, self.format.read(file, own), roles)
                tables.append(_dates_as_times(table))
        ends = np.cumsum([len(table) for table in tables])

        def row_name(row: int) -> str:
            number = int(np.searchsorted(ends, row, side="right"))
            return self._row_name(number, -int(ends[number - 1]) if number else 0, row)

        return Table(self._joined(tables, roles), self.name, row_name)

    def pieces(self, roles: Mapping[str, str], rows: int = _PIECE) -> Generator[Table]:
        """Yield all rows: of Parquet files in batches, each row group read at once from a store; of others at once."""
        if not self.is_parquet:
            yield self.read(roles)
            return
        for number, file in enumerate(self.files):
            own, start = self._own(number, roles), 0
            options = {"columns": list(dict.fromkeys(own.values())), "use_threads": False}
            with readable(file), open_parquet(file) as opened:
                for group in range(opened.num_row_groups):
                    for batch in opened.iter_batches(rows, row_groups=[group], **options):
                        table = self._with_partition(number, pa.Table.from_batches([batch]), roles)
                        yield Table(table, self.name, partial(self._row_name, number, start))
                        start += len(table)

    def with_absolute_paths(self) -> TableFiles:
        """Return the same files for a process in another folder."""
        return replace(self, files=tuple(f.absolute() if isinstance(f, Path) else f for f in self.files))

    @property
    def is_parquet(self) -> bool:
        """Whether the rows can be counted and read in batches."""
        return isinstance(self.format, ParquetFormat)

    def _names(self, file: File) -> list[str]:
        if file not in self._known:
            with readable(file):
                names = self.format.names(file)
            if not names:
                raise DataError(f"{path_text(file)} is empty: it has no line with the names of its columns")
            is_csv, first = isinstance(self.format, CsvFormat), names[0]
            if is_csv and (first.startswith("sep=") or (first.startswith("#") and len(names) == 1)):
                raise DataError(
                    f"{path_text(file)}: line 1 is {shorten(first, 60)!r}, and not the names of the columns: delete "
                    f"the lines above these (as by tail -n +2), and name the separator if it is not a comma"
                )
            marks = ("::", ";", "\t", "|", ",") if len(names) == 1 else ()
            if is_csv and (mark := next((mark for mark in marks if mark in first), None)):
                raise DataError(
                    f"{path_text(file)}: its header is one column, {shorten(first, 60)!r}: is {mark!r} the separator?"
                )
            self._known[file] = names
        return self._known[file]

    def _look_up_names(self) -> None:
        """Look up the columns of all files of a store at the same time, as each takes several requests."""
        remote = [file for file in self.files if isinstance(file, RemoteFile)]
        if len(remote) > 1:
            with ThreadPoolExecutor(_REQUESTS) as pool:
                list(pool.map(self._names, remote))

    @cached_property
    def _folder_columns(self) -> list[str]:
        return list(dict.fromkeys(name for values in self.partitions for name in values))

    def _with_folders(self, names: Sequence[str]) -> list[str]:
        return [*names, *(name for name in self._folder_columns if name not in names)]

    def _partition(self, number: int) -> Mapping[str, pa.Scalar]:
        return self.partitions[number] if self.partitions else {}

    def _own(self, number: int, roles: Mapping[str, str]) -> dict[str, str]:
        """Return the columns that are in a file itself, after a check that the file and its folders have each once."""
        file, values = self.files[number], self._partition(number)
        names = self._names(file)
        for name in roles.values():
            if name in names and name in values:
                raise DataError(
                    f"{path_text(file)}: column {name!r} is in the file, and its folder {name}={values[name]} is "
                    f"such a column too: rename one"
                )
            if name in self._folder_columns and name not in names and name not in values:
                raise DataError(
                    f"{path_text(file)}: no column {name!r}, and no folder {name}=... as of other files: all need it"
                )
        shown = [column for column in self._with_folders(names) if column != PART]
        named = {role: name for role, name in roles.items() if name != PART}
        if problem := columns_problem(named, shown):
            raise DataError(f"{path_text(file)}: {problem}")
        return {role: name for role, name in roles.items() if name in names}

    def _with_partition(self, number: int, table: pa.Table, roles: Mapping[str, str]) -> pa.Table:
        """Return the rows of a file with the requested columns that its folders name."""
        for name, value in self._partition(number).items():
            if name in roles.values():
                table = table.append_column(name, pa.repeat(value, len(table)))
        return table

    def _row_name(self, number: int, start: int, row: int) -> str:
        return row_number(start + row, "" if len(self.files) == 1 else f" of {self.files[number].name}")

    def _joined(self, tables: Sequence[pa.Table], roles: Mapping[str, str]) -> pa.Table:
        """Return all tables as one; numbers of several widths become the widest.

        Other columns than ids become text where files differ in their kind, so that the first odd value is refused.
        """
        filled = [pair for pair in zip(tables, self.files, strict=True) if len(pair[0])]
        filled = filled or [(tables[0], self.files[0])]
        try:
            for role, name in roles.items():
                types = [table.schema.field(name).type for table, _ in filled]
                if len({_kind(kind) for kind in types if kind != pa.null()}) > 1:
                    if is_id(role):
                        self._refuse_kinds(name, role, filled)
                    filled = [(_as_text(table, name), file) for table, file in filled]
            return pa.concat_tables([table for table, _ in filled], promote_options="permissive")
        except pa.ArrowException as error:
            raise DataError(f"{self.name}: the files' columns are of different types: {error}") from None

    def _refuse_kinds(self, name: str, role: str, tables: Sequence[tuple[pa.Table, File]]) -> NoReturn:
        """Refuse ids that are numbers in one file and text in another."""
        for table, file in tables:
            Table(table, path_text(file)).ids(name, role)  # which refuses a text such as NULL
        (expected, first), *others = [(table.schema.field(name).type, file) for table, file in tables]
        kind, file = next(pair for pair in others if _kind(pair[0]) != _kind(expected))
        raise DataError(
            f"{file}: column {name!r} is {kind}, but {expected} in {first.name}: all files need the same kind of ids; "
            f"reading ids as text makes them the same in all files of text (ids: text, or --ids text)"
        )


def _kind(kind: pa.DataType) -> str:
    return "numbers" if is_number_type(kind) else "times" if pa.types.is_temporal(kind) else "text"


def _as_text(table: pa.Table, name: str) -> pa.Table:
    text = table.column(name).cast(pa.string())
    return table.set_column(table.column_names.index(name), name, text)


def _dates_as_times(table: pa.Table) -> pa.Table:
    """Return dates as timestamps, as the dates of another file may have a time."""
    for position, field in enumerate(table.schema):
        if pa.types.is_date(field.type):
            times = table.column(position).cast(pa.timestamp("s"))
            table = table.set_column(position, field.name, times)
    return table
