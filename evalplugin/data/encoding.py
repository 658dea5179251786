"""Columns of interactions: read from a table, encoded, duplicate pairs merged."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.errors import DataError
from evalplugin.data.tables import Table, check_roles
from evalplugin.data.vocabulary import encode

__all__ = ["DuplicatePolicy", "EncodedColumns", "encode_interactions"]

DuplicatePolicy = Literal["error", "last", "mean", "max"]
_POLICIES: tuple[DuplicatePolicy, ...] = ("error", "last", "mean", "max")
_MOST_CODES = 2**31 - 1  # codes are int32, and -1 means "no item"


class EncodedColumns(NamedTuple):
    """The arrays of ``Interactions``, and notes on decisions taken while reading."""

    user: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]
    rating: npt.NDArray[np.float32]
    timestamp: npt.NDArray[np.int64] | None
    users: npt.NDArray[np.generic]
    items: npt.NDArray[np.generic]
    notes: tuple[str, ...]


def encode_interactions(
    table: Table,
    *,
    user: str,
    item: str,
    rating: str | None,
    timestamp: str | None,
    duplicates: DuplicatePolicy,
) -> EncodedColumns:
    """Return the rows of a table as columns of interactions; see ``Interactions.from_frame``."""
    if duplicates not in _POLICIES:
        raise DataError(f"{table.name}: duplicates must be one of {', '.join(_POLICIES)}, not {duplicates!r}")
    if not len(table):
        raise DataError(f"{table.name}: there are no rows")
    roles = {"user": user, "item": item, "rating": rating, "timestamp": timestamp}
    check_roles(table.name, {role: name for role, name in roles.items() if name is not None})
    users, (user_code,) = encode([table.ids(user, "user")])
    items, (item_code,) = encode([table.ids(item, "item")])
    for role, ids in (("user", users), ("item", items)):
        if len(ids) > _MOST_CODES:
            raise DataError(f"{table.name}: {len(ids)} different {role}s are more than {_MOST_CODES}")
    ratings = np.ones(len(table)) if rating is None else table.ratings(rating)
    seconds, rounded = (None, 0) if timestamp is None else table.seconds(timestamp)
    note = f"rounded {rounded} timestamps down to whole seconds (column {timestamp!r})"
    columns = EncodedColumns(
        user=user_code.astype(np.int32, copy=False),
        item=item_code.astype(np.int32, copy=False),
        rating=ratings.astype(np.float32),
        timestamp=seconds,
        users=users,
        items=items,
        notes=(note,) if rounded else (),
    )
    return _without_duplicates(columns, duplicates, table)


def _without_duplicates(columns: EncodedColumns, policy: DuplicatePolicy, table: Table) -> EncodedColumns:
    pair = columns.user.astype(np.int64) * len(columns.items) + columns.item
    ordered = np.sort(pair)
    if not (ordered[1:] == ordered[:-1]).any():
        return columns
    # The cheap check found duplicates; from here on the order of the rows matters too.
    order = np.argsort(pair, kind="stable")
    ordered = pair[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    last = order[np.r_[starts[1:], len(order)] - 1]
    surplus = len(order) - len(starts)
    if policy == "error":
        repeated = np.flatnonzero(ordered[1:] == ordered[:-1])
        second = repeated[np.argmin(order[repeated + 1])]
        before, after = int(order[second]), int(order[second + 1])
        user, item = columns.users[columns.user[[after]]], columns.items[columns.item[[after]]]
        raise DataError(
            f"{table.name}: user {user.tolist()[0]!r} meets item {item.tolist()[0]!r} more than once: "
            f"{table.row_name(before)} and {table.row_name(after)} "
            f"({surplus} surplus rows in all); set duplicates to last, mean or max to merge such rows"
        )
    rating = columns.rating.copy()
    if policy == "max":
        rating[last] = np.maximum.reduceat(columns.rating[order], starts)
    elif policy == "mean":
        sums = np.add.reduceat(columns.rating[order].astype(np.float64), starts)
        rating[last] = sums / np.diff(np.r_[starts, len(order)])
    last.sort()
    return columns._replace(
        user=columns.user[last],
        item=columns.item[last],
        rating=rating[last],
        timestamp=None if columns.timestamp is None else columns.timestamp[last],
        notes=(*columns.notes, f"merged {surplus} duplicate user-item pairs (policy {policy})"),
    )
