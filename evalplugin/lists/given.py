"""Lists that were made elsewhere, on the codes of a bake-off's data: what fits is kept, the rest is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Flags, Floats, Ints, position_in_row
from evalplugin.base.units import count_text
from evalplugin.data import Interactions
from evalplugin.data.files import TableFiles
from evalplugin.data.tables import Table, ids_of
from evalplugin.data.vocabulary import check_kinds, encode
from evalplugin.lists.columns import ListColumns, PairColumns, refuse_rows
from evalplugin.lists.ranked_lists import RankedLists
from evalplugin.metrics.blocks import Broken, BrokenRowsError, raw_text
from evalplugin.metrics.grouped_rows import group_rows
from evalplugin.models.base import ListRequest
from evalplugin.models.selection import NO_ITEM, TopN, row_codes

__all__ = ["lists_on", "shortfalls"]

_CELLS = 2**22  # users x the length of the longest list, at a time


class _Entries(NamedTuple):
    """Listed items, in the order of lists: positions in vocabularies of raw ids."""

    user: Ints
    item: npt.NDArray[np.int32]
    score: Floats
    users: npt.NDArray[np.generic]
    items: npt.NDArray[np.generic]


def lists_on(
    request: ListRequest, source: TableFiles | Table, columns: ListColumns
) -> tuple[TopN, list[str]]:
    """Return lists of files or a table, less what is no candidate, and sentences on what they lack.

    Raises:
        DataError: They cannot be read or break a rule.
    """
    entries = _read(request.train, source, columns)
    train, users, n = request.train, request.users, request.n
    user_code, item_code = _codes(entries.users, train.users), _codes(entries.items, train.items)
    position = np.full(train.n_users, -1)
    position[users] = np.arange(len(users))
    row = np.where(user_code < 0, -1, position[user_code])[entries.user]
    code = item_code[entries.item]
    asked = row >= 0
    allowed = np.ones(len(row), dtype=np.bool_)
    if request.candidates.included is not None:
        allowed = _among(row, code, row_codes(request.candidates.included, users), train.n_items)
    if request.candidates.excluded is not None:
        allowed &= ~_among(row, code, row_codes(request.candidates.excluded, users), train.n_items)
    kept = asked & (code >= 0) & allowed
    top_n = TopN(users, *_first(row[kept], code[kept], entries.score[kept], (len(users), n)))

    def sentences() -> Iterator[str]:
        lacking = "that the data does not have, such as"
        if (unknown := user_code < 0).any():
            example = raw_text(entries.users[int(np.argmax(unknown))])
            yield f"left out: {count_text(int(unknown.sum()), 'user')} {lacking} {example}"
        if (strange := asked & (code < 0)).any():
            example = raw_text(entries.items[entries.item[int(np.argmax(strange))]])
            yield f"left out: {count_text(int(strange.sum()), 'listed item')} {lacking} {example}"
        if (removed := asked & (code >= 0) & ~allowed).any():
            kind = request.candidates.kind
            why = "that the user has already" if kind == "unseen" else f"outside of the candidates ({kind})"
            example = raw_text(entries.users[entries.user[int(np.argmax(removed))]])
            yield (
                f"left out: {count_text(int(removed.sum()), 'listed item')} {why}, "
                f"of {count_text(len(np.unique(row[removed])), 'user')}, such as {example}"
            )
        yield from shortfalls(top_n, train.users)

    return top_n, list(sentences())


def shortfalls(top_n: TopN, users: npt.NDArray[np.generic]) -> Iterator[str]:
    """Yield a sentence on users without a list and one on short lists; ``users`` are the raw ids, by code."""
    lengths, ids = (top_n.item != NO_ITEM).sum(axis=1), users[top_n.user]
    if (missing := lengths == 0).any():
        example = raw_text(ids[int(np.argmax(missing))])
        yield f"{missing.sum():,} of {len(ids):,} users without a list, such as {example}: they score 0"
    if (short := (lengths > 0) & (lengths < top_n.n)).any():
        example = raw_text(ids[int(np.argmax(short))])
        yield f"{short.sum():,} of {len(ids):,} lists with fewer than {top_n.n} items, such as that of {example}"


def _read(train: Interactions, source: TableFiles | Table, columns: ListColumns) -> _Entries:
    pairs = PairColumns.read_all(source, "lists", columns)
    check_kinds("user", lists=pairs.user, data=ids_of(train.users))
    check_kinds("item", lists=pairs.item, data=ids_of(train.items))
    users, (user,) = encode([pairs.user])
    items, (item,) = encode([pairs.item])
    starts = pairs.user.run_starts()
    rows = group_rows(starts, user[starts], len(users), {"item": item, pairs.kind: pairs.values})
    lists = RankedLists(users, rows, pairs.refuse)
    try:
        return _Entries(*_listed(lists, users, items), users, items)
    except BrokenRowsError as error:
        refuse_rows(error, source, columns)


def _listed(
    lists: RankedLists, users: npt.NDArray[np.generic], items: npt.NDArray[np.generic]
) -> tuple[Ints, npt.NDArray[np.int32], Floats]:
    """Return positions of users and items, and scores, in the order of lists."""
    parts = []
    for block in _blocks(lists.lengths):
        listed = lists.block(block)
        _refuse_twice(listed, users[block], items)
        row, position = np.nonzero(listed != NO_ITEM)
        parts.append((block[row], listed[row, position], -1.0 - position))
    code, listed, score = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return code, listed, score


def _blocks(lengths: Ints) -> Iterator[Ints]:
    """Yield ascending positions of users whose lists fit in a rectangle of ``_CELLS``, or of one user."""
    order = np.argsort(lengths, kind="stable")
    ascending = lengths[order]
    start = 0
    while start < len(order):
        cells = np.arange(1, len(order) - start + 1) * ascending[start:]
        size = max(1, int(np.searchsorted(cells, _CELLS, side="right")))
        yield np.sort(order[start : start + size])
        start += size


def _refuse_twice(
    listed: npt.NDArray[np.int32],
    users: npt.NDArray[np.generic],
    items: npt.NDArray[np.generic],
) -> None:
    by_item = np.sort(listed, axis=1)
    twice = np.argwhere((by_item[:, 1:] == by_item[:, :-1]) & (by_item[:, 1:] != NO_ITEM))
    if len(twice):
        row, column = twice[0]
        raise BrokenRowsError(Broken.repeated("lists", users[row], items[by_item[row, column]]))


def _codes(ids: npt.NDArray[np.generic], vocabulary: npt.NDArray[np.generic]) -> Ints:
    """Return the code of each of some sorted ids in a sorted vocabulary, -1 for one that is not there."""
    both, (own, known) = encode([ids_of(ids), ids_of(vocabulary)])
    code = np.full(len(both), -1)
    code[known] = np.arange(len(vocabulary))
    found: Ints = code[own]
    return found


def _first(row: Ints, code: Ints, score: Floats, shape: tuple[int, int]) -> tuple[Codes, Floats]:
    """Return the first entries of each row; the entries of a row are in their order."""
    order = np.argsort(row, kind="stable")
    column = position_in_row(row[order], shape[0])
    order, column = order[column < shape[1]], column[column < shape[1]]
    items, scores = np.full(shape, NO_ITEM, dtype=np.int32), np.full(shape, np.nan)
    items[row[order], column], scores[row[order], column] = code[order], score[order]
    return items, scores


def _among(row: Ints, code: Ints, pairs: tuple[Ints, npt.NDArray[np.integer]], n_items: int) -> Flags:
    """Return whether each pair of row and item code is among others."""
    wanted = pairs[0].astype(np.int64) * n_items + pairs[1]
    wanted = np.append(np.sort(wanted), np.iinfo(np.int64).max)
    pair = row.astype(np.int64) * n_items + code
    found: Flags = wanted[np.searchsorted(wanted, pair)] == pair
    return found & (code >= 0)
