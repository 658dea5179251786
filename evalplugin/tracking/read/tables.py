"""Files of a run, read: raw ids, groups of units.

A file that is damaged, such as a truncated one, raises the error of the library that reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa, pc, pq
from evalplugin.base.text import json_of
from evalplugin.segments import HistoryLengths, Segmentation, clustering

_SEGMENTS = b"evalplugin"  # key of the metadata that describes the columns of labels


class Groups(NamedTuple):
    """The groups of the units of a run."""

    segments: tuple[Segmentation, ...] = ()
    histories: HistoryLengths | None = None  # None: not known, as for lists from elsewhere
    clusters: Segmentation | None = None  # None: the units are independent


def raw_ids(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return raw ids: integers, or text as objects."""
    return (
        column.to_numpy() if pa.types.is_integer(column.type) else np.array(column.to_pylist(), dtype=object)
    )


def groups_of(file: Path) -> Groups:
    """Return the groups in a table of segments: a column ``user``, and those that its metadata describes."""
    table = pq.read_table(file)
    users = raw_ids(table.column("user"))
    described = json_of(table.schema.metadata[_SEGMENTS])
    segments = []
    for name, labels in described["segments"].items():
        index = pc.index_in(table.column(name), value_set=pa.array(labels, pa.string()))
        group = pc.fill_null(index, -1).to_numpy().astype(np.int32)
        segments.append(Segmentation(name, tuple(labels), users, group, name in described["from_truth"]))
    histories = clusters = None
    if (history := described.get("history")) is not None:
        histories = HistoryLengths(users, table.column(history).to_numpy())
    if (column := described.get("clusters")) is not None:
        clusters = clustering(column["name"], raw_ids(table.column(column["column"])), users)
    return Groups(tuple(segments), histories, clusters)
