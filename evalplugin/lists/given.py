"""Lists that were made elsewhere, on the codes of a bake-off's data: other entries are left out and counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import NO_ITEM, Codes, Flags, Floats, Ints, position_in_row
from evalplugin.base.errors import DataError
from evalplugin.base.units import count_text, plural
from evalplugin.data.decisions import ALL_ITEMS, DECISION
from evalplugin.data.files import TableFiles
from evalplugin.data.queries import Unit
from evalplugin.data.tables import Table, ids_of
from evalplugin.data.vocabulary import check_kinds, codes_of, unicode_notes
from evalplugin.lists.columns import ListColumns, ListInput, PairColumns
from evalplugin.lists.folds import rows_of_fold
from evalplugin.lists.scoring import top_n_on
from evalplugin.metrics.blocks import raw_text
from evalplugin.models.base import ListRequest
from evalplugin.models.selection import TopN, row_codes


def lists_on(
    request: ListRequest, source: TableFiles | Table | PairColumns, columns: ListColumns
) -> tuple[TopN, list[str]]:
    """Return lists of files or a table without items that are no candidates, and sentences on what was left out.

    Where they have a column ``fold``, its numbers are from 1. Those of decisions keep their scores, NaN where they have
    ranks, and are refused where something had to be left out: what is behind would be shown in its place.

    Raises:
        DataError: They cannot be read or break a rule.
    """
    train, users, n = request.train, request.users, request.n
    is_of_log = request.unit == DECISION
    if isinstance(source, PairColumns):
        pairs = source
    else:
        pairs = PairColumns.read_all(rows_of_fold(source, columns, request.fold + 1), "lists", columns)
    check_kinds("user", lists=pairs.user, data=ids_of(train.users))
    check_kinds("item", lists=pairs.item, data=ids_of(train.items))
    listed, on, _ = top_n_on(ListInput(pairs, pairs.no_rows(), None))
    list_users, list_items = on.users, on.items
    place, column = np.nonzero(listed.item != NO_ITEM)
    list_user, item = listed.user[place], listed.item[place, column]
    score: Floats = -1.0 - column.astype(np.float64)
    if is_of_log:
        score = listed.score[place, column] if pairs.kind == "score" else np.full(len(item), np.nan)
    user_code, item_code = codes_of(list_users, train.users), codes_of(list_items, train.items)
    position = np.full(train.n_users, -1)
    position[users] = np.arange(len(users))
    row = np.where(user_code < 0, -1, position[user_code])[list_user]
    code = item_code[item]
    asked = row >= 0
    allowed = np.ones(len(row), dtype=np.bool_)
    # Of a log without a pool, items are offered that it shows; that others were listed is what nobody knows of.
    if request.candidates.included is not None and not (is_of_log and request.candidates.kind == "offered"):
        allowed = _among(row, code, row_codes(request.candidates.included, users), train.n_items)
    if request.candidates.excluded is not None:
        allowed &= ~_among(row, code, row_codes(request.candidates.excluded, users), train.n_items)
    kept = asked & (code >= 0) & allowed
    if is_of_log and len(lacking := np.flatnonzero(asked & ~kept)):
        first = lacking[np.argmin(code[lacking])]
        where, remedy = "pool", "give the pool that lists were made of"
        if code[first] < 0:
            where, remedy = "data", ALL_ITEMS
        raise DataError(
            f"{pairs.name}: {count_text(len(lacking), 'listed item')} not in the {where}, such as "
            f"{raw_text(list_items[item[first]])} of decision {raw_text(list_users[list_user[first]])}: {remedy}"
        )
    top_n = TopN(users, *_first(row[kept], code[kept], score[kept], (len(users), n)))

    def sentences() -> Iterator[str]:
        lacking = "that the data does not have, such as"
        if (unknown := user_code < 0).any():
            example = raw_text(list_users[int(np.argmax(unknown))])
            yield f"left out: {count_text(int(unknown.sum()), request.unit)} {lacking} {example}"
        if (strange := asked & (code < 0)).any():
            example = raw_text(list_items[item[int(np.argmax(strange))]])
            yield f"left out: {count_text(int(strange.sum()), 'listed item')} {lacking} {example}"
        if (removed := asked & (code >= 0) & ~allowed).any():
            kind = request.candidates.kind
            why = "that the user has already" if kind == "unseen" else f"outside of the candidates ({kind})"
            example = raw_text(list_users[list_user[int(np.argmax(removed))]])
            yield (
                f"left out: {count_text(int(removed.sum()), 'listed item')} {why}, "
                f"of {count_text(len(np.unique(row[removed])), request.unit)}, such as {example}"
            )
        yield from shortfalls(top_n, train.users, request.unit)
        yield from pairs.notes
        yield from unicode_notes("user", pairs.user, ids_of(train.users))
        yield from unicode_notes("item", pairs.item, ids_of(train.items))

    return top_n, list(sentences())


def shortfalls(top_n: TopN, users: npt.NDArray[np.generic], unit: Unit) -> Iterator[str]:
    """Yield a sentence on users without a list and one on short lists; ``users`` are the raw ids, by code."""
    lengths, ids = (top_n.item != NO_ITEM).sum(axis=1), users[top_n.user]
    if (missing := lengths == 0).any():
        example = raw_text(ids[int(np.argmax(missing))])
        yield f"{missing.sum():,} of {len(ids):,} {plural(unit)} without a list, such as {example}: they score 0"
    if (short := (lengths > 0) & (lengths < top_n.n)).any():
        example = raw_text(ids[int(np.argmax(short))])
        yield f"{short.sum():,} of {len(ids):,} lists with fewer than {top_n.n} items, such as that of {example}"


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
    return cast(Flags, (wanted[np.searchsorted(wanted, pair)] == pair) & (code >= 0))
