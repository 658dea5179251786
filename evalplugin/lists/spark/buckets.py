"""Work of Spark's Python workers: rows are packed as bytes of Arrow, and buckets of users scored."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from evalplugin.base.libraries import pa
from evalplugin.data.tables import Table
from evalplugin.lists.columns import ListInput, PairColumns
from evalplugin.lists.partition import Refused, call_alone
from evalplugin.lists.scoring import Scoring
from evalplugin.metrics.blocks import raw_text
from evalplugin.metrics.states import ScorerState

_ROWS = 2**20  # rows that are packed together, and so in memory at a time


@dataclass(frozen=True, eq=False)
class BucketScoring:
    """The scoring of a bucket: a callable from the packed rows of its lists and of its truth to one row."""

    scoring: Scoring
    schemas: tuple[pa.Schema, pa.Schema]  # of the rows of lists and truth
    text: bool  # whether users are text
    large: bool  # whether Spark has text and bytes with offsets of 64 bits

    def __call__(self, lists: pa.Table, truth: pa.Table) -> pa.Table:
        """Return the outcome, which is the state or an error, and the values of all users, as bytes."""
        tables = [
            _unpacked_rows(table.column("rows"), schema)
            for table, schema in zip((lists, truth), self.schemas, strict=True)
        ]
        scored = call_alone(self._scored, *tables)
        outcome, users = (scored, None) if isinstance(scored, Refused) else scored
        kind = pa.large_binary() if self.large else pa.binary()
        columns = [pa.array([value], type=kind) for value in (_outcome_bytes(outcome), users)]
        return pa.table(columns, names=["outcome", "users"])

    def _scored(self, lists: pa.Table, truth: pa.Table) -> tuple[ScorerState, bytes]:
        """Return the state without the values of users, and these as the rows of ``per_user``."""
        names = self.scoring.request.columns
        inputs = ListInput.of(
            PairColumns.read(UnorderedTable(lists, "lists"), "lists", names),
            PairColumns.read(UnorderedTable(truth, "truth"), "truth", names),
        )
        state = self.scoring.state(inputs.lists, inputs.truth)
        users, values = state.values[0]
        text = pa.large_string() if self.large else pa.string()
        columns = [pa.array(users, type=text if self.text else pa.int64()), *map(pa.array, values)]
        table = pa.table(columns, names=["user", *(f"m{i}" for i in range(len(values)))])
        return state.without_values(), _table_bytes(table)


class UnorderedTable(Table):
    """Rows in no order, user and item first: messages name one by these, and do not count others that are like it."""

    def __init__(self, table: pa.Table, name: str) -> None:
        super().__init__(table, name, self._row_name)
        self._ids = table.column(0), table.column(1)

    def refuse(self, name: str, row: int, rule: str, *, count: int = 1, missing: bool = False) -> NoReturn:
        """Raise the error for the value at a row."""
        super().refuse(name, row, rule, missing=missing)

    def _row_name(self, row: int) -> str:
        user, item = (column[row].as_py() for column in self._ids)
        known = {"user": user, "item": item}
        named = " and ".join(f"{role} {raw_text(raw)}" for role, raw in known.items() if raw is not None)
        if user is None or item is None:
            return f"a row of {named}" if named else "a row"
        return f"the row of {named}"


def _outcome_bytes(outcome: ScorerState | Refused) -> bytes:
    return zlib.compress(pickle.dumps(outcome), 1)


def merged_state(outcomes: Iterable[bytes]) -> ScorerState | Refused:
    """Return the state of all users, or one of the errors."""
    unpacked = [pickle.loads(zlib.decompress(outcome)) for outcome in outcomes]
    error = next((outcome for outcome in unpacked if isinstance(outcome, Refused)), None)
    return error or ScorerState.merge(unpacked)


def merged_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one row with the merged outcome of all rows; nothing without any."""
    kind, outcomes = None, []
    for batch in batches:
        kind = batch.schema.field(0).type
        outcomes += batch.column(0).to_pylist()
    if kind is not None and outcomes:
        yield pa.record_batch(
            [pa.array([_outcome_bytes(merged_state(outcomes))], type=kind)], names=["outcome"]
        )


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def rows_in(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of tables whose bytes are the only column."""
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
    table = pa.Table.from_batches(batches).combine_chunks()  # taking rows of many chunks is slow
    bucket = table.column("bucket").to_numpy()
    if bucket.max() < 2**15:
        bucket = bucket.astype(np.int16)  # which NumPy sorts by radix
    order = np.argsort(bucket, kind="stable")
    ordered = table.drop_columns("bucket").take(pa.array(order))
    bucket = bucket[order]
    starts = np.flatnonzero(np.append(True, bucket[1:] != bucket[:-1]))
    rows = [
        _table_bytes(ordered.slice(start, end - start))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(bucket)], strict=True)
    ]
    kind = pa.large_binary() if large else pa.binary()
    return pa.record_batch(
        [pa.array(bucket[starts].astype(np.int32)), pa.array(rows, type=kind)], names=["bucket", "rows"]
    )


def _unpacked_rows(packed: pa.ChunkedArray, schema: pa.Schema) -> pa.Table:
    """Return the rows of one bucket; a bucket without rows has the columns of ``schema``."""
    if not len(packed):
        return schema.empty_table()
    parts = [pa.ipc.open_stream(value.as_buffer()).read_all() for value in packed]
    return pa.concat_tables(parts).rename_columns(schema.names)
