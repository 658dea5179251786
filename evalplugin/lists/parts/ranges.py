"""Ranges of users: where they begin, and the rows of each of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.libraries import pa, pc
from evalplugin.data.tables import Ids
from evalplugin.lists.columns import PairColumns
from evalplugin.lists.parts.row_groups import RowGroup

_TABLE_BITS = 14  # binary digits of the length of a table from users to ranges


def bounds_of(groups: Sequence[RowGroup], n_parts: int) -> list[Any] | None:
    """Return the first user of each range but the first, ascending, so that all ranges have about as many rows.

    Rows are taken as spread evenly over the range of each row group. Text is divided only where row groups begin.
    Returns None where files do not say the range of their row groups, or have ids of two kinds.
    """
    if {type(group.low) for group in groups} not in ({int}, {str}):
        return None
    wanted = np.arange(1, n_parts) / n_parts * sum(group.rows for group in groups)
    if isinstance(groups[0].low, str):
        ordered = sorted(groups, key=lambda group: group.low)
        before = np.cumsum([0, *(group.rows for group in ordered)])
        return sorted({ordered[min(int(at), len(ordered) - 1)].low for at in np.searchsorted(before, wanted)})
    # Rows below an id, at the ids where row groups begin and end; between these they rise evenly.
    least, greatest = min(group.low for group in groups), max(group.high for group in groups)
    low = np.array([float(group.low - least) for group in groups])
    span = np.array([float(group.high - group.low + 1) for group in groups])
    high, density = low + span, np.array([group.rows for group in groups]) / span
    place, change = np.concatenate([low, high]), np.concatenate([density, -density])
    order = np.argsort(place, kind="stable")
    place, rate = place[order], np.cumsum(change[order])
    rows = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(place))])
    at = np.interp(wanted, np.maximum.accumulate(rows), place)
    # Multiples of a power of two, so that a small table tells the range of a user.
    shift = max(0, (greatest - least).bit_length() - _TABLE_BITS)
    bounds = sorted({(least + int(bound)) >> shift << shift for bound in at.tolist()})
    return [bound for bound in bounds if least < bound <= greatest]


def split(pairs: PairColumns, bounds: Sequence[int]) -> list[PairColumns]:
    """Return the rows of each range of users, who are integers, in their order."""
    users = pairs.user.values
    if bool((users[1:] >= users[:-1]).all()):
        cuts = [0, *np.searchsorted(users, np.array(bounds, dtype=np.int64)).tolist(), len(users)]
        return [pairs.rows(slice(low, high)) for low, high in itertools.pairwise(cuts)]
    part = _parts(users, np.array(bounds, dtype=np.int64))
    order = np.argsort(part, kind="stable")  # of 16-bit numbers, which takes one pass
    ends = np.cumsum(np.bincount(part, minlength=len(bounds) + 1)).tolist()
    moved = pairs.rows(order)
    return [moved.rows(slice(low, high)) for low, high in zip([0, *ends], ends, strict=False)]


def joined(pieces: Iterable[PairColumns]) -> PairColumns:
    """Return rows that belong together, in the order of the pieces."""
    first, *others = pieces
    if not others:
        return first
    filled = [piece for piece in (first, *others) if len(piece.user)] or [first]
    if len(filled) == 1:
        return filled[0]
    values = None if first.values is None else np.concatenate([piece.values for piece in filled])
    return first._replace(
        user=_concatenated([piece.user for piece in filled]),
        item=_concatenated([piece.item for piece in filled]),
        values=values,
    )


def rows_within(pairs: PairColumns, low: Any, high: Any) -> PairColumns:
    """Return the rows of users from ``low`` on and below ``high``; None: without such a limit."""
    if low is None and high is None:
        return pairs
    users = pairs.user.values
    if pairs.user.kind == "integers":
        bounds = [bound for bound in (low, high) if bound is not None]
        return split(pairs, bounds)[0 if low is None else 1]
    inside = np.ones(len(users), dtype=np.bool_)
    if low is not None:
        inside &= pc.greater_equal(users, low).to_numpy(zero_copy_only=False)
    if high is not None:
        inside &= pc.less(users, high).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(inside)
    if (
        len(rows) and rows[-1] - rows[0] == len(rows) - 1
    ):  # as where rows are in the order of users: without a copy
        return pairs.rows(slice(int(rows[0]), int(rows[-1]) + 1))
    return pairs.rows(rows)


def _concatenated(columns: Sequence[Ids]) -> Ids:
    if columns[0].kind == "integers":
        return Ids("integers", np.concatenate([ids.values for ids in columns]))

    kinds = {ids.values.type for ids in columns}
    if len(kinds) > 1 or sum(ids.values.nbytes for ids in columns) >= 2**31 - 1:
        return Ids("text", pa.concat_arrays([ids.values.cast(pa.large_string()) for ids in columns]))
    return Ids("text", pa.concat_arrays([ids.values for ids in columns]))


def _parts(
    users: npt.NDArray[np.integer[Any]], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return the range of each user, as uint8 or uint16."""
    kind: type[np.unsignedinteger[Any]] = np.uint8 if len(bounds) < 2**8 else np.uint16
    if not len(bounds):
        return np.zeros(len(users), dtype=kind)
    shift = 0
    while not (bounds >> shift & 1).any() and shift < 62:
        shift += 1
    first, last = int(bounds[0] >> shift), int(bounds[-1] >> shift)
    if last - first >= 2**_TABLE_BITS * 2:
        return np.searchsorted(bounds, users.astype(np.int64, copy=False), side="right").astype(kind)
    starts = np.arange(first - 1, last + 1)
    part_of = np.searchsorted(bounds >> shift, starts, side="right").astype(kind)
    place = users.astype(np.int64) >> shift
    place -= first - 1
    return part_of.take(place, mode="clip")
