"""Row groups of Parquet files: their ranges of ids, their size, and their rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from evalplugin.base.libraries import pa
from evalplugin.data.files import TableFiles
from evalplugin.data.reading import check_parquet, open_parquet, readable
from evalplugin.data.tables import Table
from evalplugin.files.remote import File, RemoteFile, size_of

_REQUESTS = 16  # at a time, to a store
# Bytes of a value in memory: decoded ids and numbers, and text with its offset.
_NUMBER, _TEXT = 8, 32


@dataclass(frozen=True)
class RowGroup:
    """A row group of one of several files."""

    file: int  # position of the file
    number: int  # of the row group in the file
    start: int  # its first row, counted from 0 in the file
    rows: int
    low: Any = None  # least value of the column that was asked for; None: the file does not say
    high: Any = None  # greatest one


def row_groups(source: TableFiles, column: str) -> list[RowGroup]:
    """Return the row groups of all files that have rows, with the range of a column in each.

    Raises:
        DataError: A file that is no Parquet file.
    """
    groups = []
    for position, metadata in enumerate(_each(source, lambda opened: opened.metadata)):
        paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
        at, start = paths.index(column) if paths.count(column) == 1 else None, 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            low, high = (None, None) if at is None else _range(group.column(at).statistics)
            if group.num_rows:
                groups.append(RowGroup(position, number, start, group.num_rows, low, high))
            start += group.num_rows
    return groups


def column_types(source: TableFiles, names: Iterable[str]) -> set[tuple[pa.DataType, ...]]:
    """Return the types of some columns in the files: one element where they are the same in all."""
    wanted = list(names)
    return {
        tuple(schema.field(name).type for name in wanted if schema.names.count(name) == 1)
        for schema in _each(source, lambda opened: opened.schema_arrow)
    }


def n_bytes(source: TableFiles, names: Iterable[str]) -> int:
    """Estimate the memory of some of the columns, in bytes."""
    if not source.is_parquet:
        return sum(2 * size_of(file) for file in source.files)

    read = _each(source, lambda opened: (opened.metadata.num_rows, opened.schema_arrow))
    rows = sum(int(n) for n, _ in read)
    schema = next((schema for _, schema in read if len(schema)), pa.schema([]))
    numbers = [schema.names.count(n) == 1 and pa.types.is_primitive(schema.field(n).type) for n in names]
    return rows * sum(_NUMBER if number else _TEXT for number in numbers)


def runs_of(groups: Sequence[RowGroup], most: float = math.inf) -> list[list[RowGroup]]:
    """Return consecutive row groups of a file together, up to ``most`` rows."""
    runs: list[list[RowGroup]] = []
    rows = 0
    for group in groups:
        last = runs[-1][-1] if runs else None
        follows = last is not None and (last.file, last.start + last.rows) == (group.file, group.start)
        if follows and rows + group.rows <= most:
            runs[-1].append(group)
            rows += group.rows
        else:
            runs.append([group])
            rows = group.rows
    return runs


def read_run(source: TableFiles, run: Sequence[RowGroup], roles: Mapping[str, str]) -> Table:
    """Return the columns of consecutive row groups of a file; of none, a table without rows.

    Raises:
        DataError: A file that cannot be read, or lacks a column.
    """
    file, start = (run[0].file, run[0].start) if run else (0, 0)
    return next(source.row_groups(file, [group.number for group in run], start, roles))


def _each(source: TableFiles, read: Any) -> list[Any]:
    """Return the result of ``read`` for each file; files of a store are opened several at a time."""

    def of(file: File) -> Any:
        with readable(file):
            check_parquet(file)
            with open_parquet(file) as opened:
                return read(opened)

    if not isinstance(source.files[0], RemoteFile):
        return [of(file) for file in source.files]
    with ThreadPoolExecutor(_REQUESTS) as pool:
        return list(pool.map(of, source.files))


def _range(statistics: Any) -> tuple[Any, Any]:
    if statistics is None or not statistics.has_min_max:
        return None, None
    try:
        return statistics.min, statistics.max
    except UnicodeDecodeError:  # text that is not UTF-8, which is refused where it is read
        return None, None
