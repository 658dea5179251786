"""Rows of files in any order, written to partitions of users by a hash of the user."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa
from evalplugin.data.tables import Ids
from evalplugin.lists.columns import PairColumns, Role
from evalplugin.lists.parts.row_groups import RowGroup
from evalplugin.lists.parts.work import PartWork, Slice, check_later_rows

_BATCH = 2**20  # rows that are read at a time, and written as a record batch for each partition
_HASH = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class SpreadTask:
    """Rows that one call writes to one file."""

    role: Role
    groups: tuple[RowGroup, ...]  # of one file
    out: Path
    n_parts: int
    wide: bool  # whether the columns of the files differ in type, so that all become the widest


class Spread(NamedTuple):
    """The rows that one call has written to a file."""

    file: Path
    sample: PairColumns  # a few of its first rows
    part: npt.NDArray[np.uint16]  # the partition of each record batch of the file


def spread(work: PartWork, task: SpreadTask) -> Spread:
    """Read rows, check the values, and write them: a record batch for each partition of some rows.

    Raises:
        DataError: A value that breaks a rule; the message names file and row.
    """
    names, sample = work.names[task.role], None
    written: list[npt.NDArray[np.int64]] = []
    first = task.groups[0]
    numbers = [group.number for group in task.groups]
    batches = work.files[task.role].row_groups(first.file, numbers, first.start, names, _BATCH)
    writer: Any = None
    try:
        for batch in batches:
            pairs = PairColumns.read(batch, task.role, work.scoring.request.columns)
            sample = sample or pairs.sample(9)
            check_later_rows(sample, pairs)
            part = _part_of(pairs.user, task.n_parts)
            order = np.argsort(part, kind="stable")
            count = np.bincount(part, minlength=task.n_parts)
            filled, ends = np.flatnonzero(count), np.cumsum(count)
            written.append(filled)
            ordered = _arrow(pairs.rows(order), names, wide=task.wide)
            writer = writer or pa.ipc.new_file(str(task.out), ordered.schema)
            for number in filled.tolist():
                writer.write_batch(ordered.slice(int(ends[number] - count[number]), int(count[number])))
    finally:
        if writer is not None:
            writer.close()
    assert sample is not None  # row groups have rows
    return Spread(task.out, sample, np.concatenate(written).astype(np.uint16))


def slices_of(part: int, written: Sequence[Spread]) -> tuple[Slice, ...]:
    """Return the rows of a partition, in the order of the files' rows."""
    return tuple(
        Slice(rows.file, batch) for rows in written for batch in np.flatnonzero(rows.part == part).tolist()
    )


def _part_of(user: Ids, n_parts: int) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return each row's partition, which depends on the user alone."""
    kind: type[np.unsignedinteger[Any]] = np.uint8 if n_parts <= 2**8 else np.uint16
    if user.kind == "integers":
        hashed: npt.NDArray[np.uint64] = user.values.astype(np.int64).view(np.uint64)
        hashed *= _HASH
        hashed >>= np.uint64(40)
        return (hashed.astype(np.uint32) % np.uint32(n_parts)).astype(kind)

    encoded = user.values.dictionary_encode()
    texts = encoded.dictionary.cast(pa.large_binary()).to_pylist()
    part_of_text = np.array([zlib.crc32(text) % n_parts for text in texts], dtype=kind)
    codes: npt.NDArray[np.integer[Any]] = encoded.indices.to_numpy(zero_copy_only=False)
    part: npt.NDArray[np.unsignedinteger[Any]] = part_of_text[codes]
    return part


def _arrow(pairs: PairColumns, names: Mapping[str, str], *, wide: bool) -> Any:
    """Return pairs as a record batch; ``wide``: with the same types for all files, whose columns differ."""
    columns = []
    for ids in (pairs.user, pairs.item):
        if ids.kind == "integers":
            columns.append(pa.array(ids.values.astype(np.int64, copy=False) if wide else ids.values))
        else:
            columns.append(ids.values.cast(pa.large_string()) if wide else ids.values)
    if pairs.values is not None:
        kind = np.int64 if pairs.kind == "rank" else np.float64
        columns.append(pa.array(pairs.values.astype(kind, copy=False) if wide else pairs.values))
    return pa.RecordBatch.from_arrays(columns, names=list(names.values()))
