"""Rows of Parquet files in any order, written to partitions by a hash of the user."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pd
from evalplugin.data.files import TableFiles
from evalplugin.data.reading import check_parquet, open_parquet, readable
from evalplugin.data.tables import Ids, Table, arrow_numbers
from evalplugin.files.remote import File, size_of
from evalplugin.lists.columns import ListColumns, PairColumns, Role, check_same_kinds
from evalplugin.models.threads import in_threads, thread_count

MOST_PARTITIONS = 2**8  # numbers of 8 bits are sorted in one pass
_BATCH = 2**20  # rows that are read, sorted by partition and written at a time
_SAMPLE = 1000  # rows that show whether ids are integers or text
_NUMBER, _TEXT = 8, 32  # bytes of a value in memory
_REQUESTS = 16  # at a time, to a store
_FACTOR = np.uint64(0x9E3779B97F4A7C15)  # 2**64 by the golden ratio: Fibonacci hashing of integers


class Size(NamedTuple):
    """The rows of files, and the memory of the columns that are read, in bytes."""

    rows: int
    bytes: int


def size_in_memory(source: TableFiles, role: Role, columns: ListColumns) -> Size:
    """Estimate the size of a table in memory, without reading its rows.

    Raises:
        DataError: A file that cannot be read, a missing column.
    """
    names = columns.to_read(role, source.name, source.columns).values()
    if not source.is_parquet:
        return Size(0, sum(2 * size_of(file) for file in source.files))

    def look(file: File) -> tuple[int, Any]:
        with readable(file):
            check_parquet(file)
            with open_parquet(file) as opened:
                return opened.metadata.num_rows, opened.schema_arrow

    with ThreadPoolExecutor(_REQUESTS) as pool:
        of_files = list(pool.map(look, source.files))
    rows, schema = sum(n for n, _ in of_files), of_files[0][1]
    numbers = [schema.names.count(n) == 1 and pa.types.is_primitive(schema.field(n).type) for n in names]
    return Size(rows, rows * sum(_NUMBER if number else _TEXT for number in numbers))


def first_rows(source: TableFiles, role: Role, columns: ListColumns) -> PairColumns:
    """Return some rows of Parquet files, which show the kinds of ids.

    Raises:
        DataError: A file that cannot be read, no rows, a missing column, a value that breaks a rule.
    """
    with closing(source.pieces(columns.to_read(role, source.name, source.columns), _SAMPLE)) as pieces:
        table = next(pieces, None)
    if table is None:
        raise DataError(f"{source.name}: there are no rows")
    return PairColumns.read(table, role, columns)


def write_partitions(
    source: TableFiles, role: Role, columns: ListColumns, first: PairColumns, folder: Path, n: int
) -> tuple[list[Path], int | None]:
    """Write the rows of Parquet files to ``n`` Arrow files, by a hash of the user.

    Returns the files, and the highest rank; None: rows have no rank.

    Args:
        source, role, columns: The files.
        first: Of ``first_rows``.
        folder: The folder to write to.
        n: Number of partitions.

    Raises:
        DataError: A value that breaks a rule; the message names file and row.
    """
    files = [folder / f"{role}-{number}.arrow" for number in range(n)]
    names, is_ranked, last_rank = columns.to_read(role, source.name, source.columns), first.kind == "rank", 0

    def sort(table: Table) -> tuple[pa.RecordBatch, list[int], int]:
        """Return rows by partition, where each partition ends, and the highest rank."""
        pairs = PairColumns.read(table, role, columns)
        check_same_kinds(**{"first rows": first, "rows behind them": pairs})
        part = _partition_of(pairs.user, n)
        ends: list[int] = np.cumsum(np.bincount(part, minlength=n)).tolist()
        rows = _arrow(pairs.rows(np.argsort(part, kind="stable")), names.values())
        return rows, ends, int(pairs.values.max()) if is_ranked else 0

    with ExitStack() as stack:
        schema = _arrow(first, names.values()).schema
        writers = [stack.enter_context(pa.ipc.new_file(str(file), schema)) for file in files]
        for rows, ends, rank in in_threads(sort, source.pieces(names, _BATCH), thread_count()):
            last_rank = max(last_rank, rank)
            for writer, start, end in zip(writers, [0, *ends], ends, strict=False):
                if start < end:
                    writer.write_batch(rows.slice(start, end - start))
    return files, last_rank if is_ranked else None


def _partition_of(user: Ids, n: int) -> npt.NDArray[np.uint8]:
    """Return each row's partition, which depends on the user alone."""
    if user.kind == "integers":
        part: npt.NDArray[np.uint64] = user.values.astype(np.int64).view(np.uint64)
        part *= _FACTOR
    else:
        texts = user.values.dictionary_encode()
        # As bytes: text that is not UTF-8 is refused where the partition is scored.
        known = texts.dictionary.cast(pa.large_binary()).to_numpy(zero_copy_only=False)
        part = pd.util.hash_array(known, categorize=False)[texts.indices.to_numpy()]
    # The upper half of 64 bits, as a fraction of 2**32, times n.
    part >>= np.uint64(32)
    part *= np.uint64(n)
    part >>= np.uint64(32)
    return part.astype(np.uint8)


def _arrow(pairs: PairColumns, names: Iterable[str]) -> pa.RecordBatch:
    """Return pairs, of whatever width in their file, with columns of the same types for all files."""
    columns = [
        arrow_numbers(ids.values.astype(np.int64, copy=False))
        if ids.kind == "integers"
        else ids.values.cast(pa.large_string())
        for ids in (pairs.user, pairs.item)
    ]
    if pairs.values is not None:
        kind = np.int64 if pairs.kind == "rank" else np.float64
        columns.append(arrow_numbers(pairs.values.astype(kind, copy=False)))
    return pa.RecordBatch.from_arrays(columns, names=list(names))
