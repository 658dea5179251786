"""Rows of lists and truth on their way to Spark's buckets: packed in Python, so that Spark moves few large values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["packed_rows", "unpacked_rows"]

_ROWS = 2**20  # rows that are packed together, and so in memory at a time


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

    table = pa.Table.from_batches(batches)
    bucket = table.column("bucket").to_numpy()
    order = np.argsort(bucket, kind="stable")
    ordered = table.drop_columns("bucket").take(pa.array(order)).combine_chunks()
    bucket = bucket[order]
    starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    rows = []
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(bucket)], strict=True):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ordered.schema) as writer:
            writer.write_table(ordered.slice(start, end - start))
        rows.append(sink.getvalue().to_pybytes())
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
