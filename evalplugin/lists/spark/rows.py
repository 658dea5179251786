"""Rows between Spark and its Python workers as bytes of Arrow, so that Spark moves few large values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["packed_rows", "rows_in", "table_bytes", "unpacked_rows"]

_ROWS = 2**20  # rows that are packed together, and so in memory at a time


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of tables whose bytes are the only column."""
    import pyarrow as pa

    for batch in batches:
        for value in batch.column(0):
            yield from pa.ipc.open_stream(value.as_buffer())


def packed_rows(batches: Iterable[pa.RecordBatch], *, large: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of each bucket as bytes: columns ``bucket`` and ``rows``; the former is the last of the input.

    Moving and sorting rows one by one is most of what Spark would do otherwise.
    """
    held: list[pa.RecordBatch] = []
    n = 0
    for batch in batches:
        held.append(batch)
        n += batch.num_rows
        if n >= _ROWS:
            yield _packed(held, large=large)
            held, n = [], 0
    if n:
        yield _packed(held, large=large)


def _packed(batches: list[pa.RecordBatch], *, large: bool) -> pa.RecordBatch:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).combine_chunks()  # taking rows of many chunks is slow
    bucket = table.column("bucket").to_numpy()
    if bucket.max() < 2**15:
        bucket = bucket.astype(np.int16)  # which NumPy sorts by radix
    order = np.argsort(bucket, kind="stable")
    ordered = table.drop_columns("bucket").take(pa.array(order))
    bucket = bucket[order]
    starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    rows = [
        table_bytes(ordered.slice(start, end - start))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(bucket)], strict=True)
    ]
    kind = pa.large_binary() if large else pa.binary()
    return pa.record_batch(
        [pa.array(bucket[starts].astype(np.int32)), pa.array(rows, type=kind)], names=["bucket", "rows"]
    )


def unpacked_rows(packed: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """Return the rows of one bucket; a bucket without rows has the columns of ``schema``."""
    import pyarrow as pa

    if not len(packed):
        return schema.empty_table()
    parts = [pa.ipc.open_stream(value.as_buffer()).read_all() for value in packed]
    return pa.concat_tables(parts).rename_columns(schema.names)
