"""Raw ids and groups of users from the tables of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.segments import Segmentation

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ids_of", "segments_of"]


def ids_of(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    """Return raw ids: integers, or text as objects."""
    import pyarrow.types as types

    return column.to_numpy() if types.is_integer(column.type) else np.array(column.to_pylist(), dtype=object)


def segments_of(table: pa.Table) -> tuple[Segmentation, ...]:
    """Return the segmentations that a table has: a column ``user``, and one of labels each."""
    described = json.loads(table.schema.metadata[b"evalplugin"])["segments"]
    users = ids_of(table.column("user"))
    return tuple(_segmentation(name, labels, users, table.column(name)) for name, labels in described.items())


def _segmentation(
    name: str, labels: Sequence[str], users: npt.NDArray[np.generic], column: pa.ChunkedArray
) -> Segmentation:
    import pyarrow as pa
    import pyarrow.compute as pc

    index = pc.index_in(column, value_set=pa.array(labels, pa.string()))
    group = pc.fill_null(index, -1).to_numpy().astype(np.int32)
    order = np.argsort(users, kind="stable")
    return Segmentation(name, tuple(labels), users[order], group[order])
