"""Top-N selection: the best n items of a block of scores, and ``TopN``, the resulting lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import (
    NO_ITEM,
    Codes,
    Flags,
    Floats,
    Ints,
    ReadOnlyArrays,
    position_in_row,
    row_entries,
)
from evalplugin.base.libraries import pa
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Candidates, Interactions, Rows

_CHUNK_CELLS = 1_000_000  # scores that a thread works on at a time
_CACHED_BYTES = 2**20  # scores that are read twice
_GROUPS_PER_PLACE = 4  # groups of items for each place in a list
_GROUP_SIZE = 64  # at most
_TEXT_BYTES = 2**31 - 1  # of an array


@dataclass(frozen=True, eq=False, repr=False)
class TopN(ReadOnlyArrays):
    """A list for each user, best first, no item twice.

    ``user`` int32 (U,) codes, ascending; ``item`` int32 (U, N) codes, ``NO_ITEM`` behind the end of a short list;
    ``score`` float64 (U, N), NaN behind the end.
    """

    user: Codes
    item: Codes
    score: Floats

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n(self) -> int:
        """The length of the lists."""
        return int(self.item.shape[1])

    def to_table(self, data: Interactions) -> pa.Table:
        """Return a table of raw ids: user, item, rank (from 1), score."""
        listed = self.item != NO_ITEM
        ranks = np.broadcast_to(np.arange(1, self.n + 1, dtype=np.int32), listed.shape)
        # The table of full lists shares the memory of the scores.
        item, rank, score = (
            values.ravel() if listed.all() else values[listed] for values in (self.item, ranks, self.score)
        )
        return pa.table(
            {
                "user": _raw_ids(data.users, np.repeat(self.user, np.count_nonzero(listed, axis=1))),
                "item": _raw_ids(data.items, item),
                "rank": pa.array(rank),
                "score": pa.array(score),
            }
        )


def _raw_ids(ids: npt.NDArray[np.generic], codes: npt.NDArray[Any]) -> pa.Array | pa.ChunkedArray:
    """Return the raw id of each code; text in pieces, as an array of Arrow holds 2 GiB at most."""
    if ids.dtype != object:
        return pa.array(ids[codes])
    known, size = pa.array(ids), max(1, _TEXT_BYTES // (4 * max(map(len, ids), default=0) + 1))
    pieces = [known.take(pa.array(codes[start : start + size])) for start in range(0, len(codes), size)]
    return pa.chunked_array(pieces, known.type)


def select_top_n(
    scores: npt.NDArray[np.floating[Any]], n: int, tie_rank: Ints | None = None
) -> tuple[Codes, Floats]:
    """Return the n best items of each row: score descending, then tie rank ascending; -inf is never listed.

    Exact for every input without NaN. The catalogue is not sorted: items above a threshold are, and items that tie
    with it are taken in order of tie rank. The catalogue is divided into groups; the threshold is the (n + 1)-th best
    of their best scores, so that at least n items reach it, and at most those of n groups exceed it.

    Args:
        scores: (B, I), float32 or float64, no NaN; it is only read.
        n: Length of the lists, at least 1.
        tie_rank: int64 (I,) the place of each item among those with equal scores; None: in order of item code.

    Returns:
        Item codes int32 (B, n), ``NO_ITEM`` behind the end of a short list, and scores float64 (B, n), NaN there.
    """
    n_rows, n_items = scores.shape
    item = np.full((n_rows, n), NO_ITEM, dtype=np.int32)
    score = np.full((n_rows, n), np.nan)
    ties = None if tie_rank is None else _Ties(tie_rank, np.argsort(tie_rank))

    def rows(start: int, stop: int) -> None:
        _select(scores[start:stop], item[start:stop], score[start:stop], ties)

    for_ranges(rows, n_rows, selection_rows(n_items))
    return item, score


def select_candidates(
    users: Codes, scores: npt.NDArray[np.floating[Any]], n: int, candidates: Candidates
) -> tuple[Codes, Floats]:
    """Return the n best candidates of each user, like ``select_top_n``.

    Args:
        users: Codes (U,).
        scores: (U, I) of all items; they are only read.
        n: Length of the lists.
        candidates: The items that may be listed, and the order of equal scores.
    """
    if candidates.excluded is not None:
        scores = scores.copy()  # the array may belong to the model
        scores[row_codes(candidates.excluded, users)] = -np.inf
    if candidates.included is None:
        return select_top_n(scores, n, candidates.tie_rank)
    row, code = row_codes(candidates.included, users)
    value = scores[row, code].astype(np.float64)
    return rank_entries(row, code, value, (len(users), n), candidates.tie_rank)


def selection_rows(n_items: int, cells: int = _CHUNK_CELLS) -> int:
    """Return the number of rows of scores that a thread works on at a time: as many as have so many cells."""
    return max(1, cells // max(1, n_items))


class _Ties(NamedTuple):
    """An order of the items with equal scores."""

    rank: Ints  # (I,) the place of each item
    code: Ints  # (I,) the item in each place


def _select(scores: npt.NDArray[np.floating[Any]], item: Codes, score: Floats, ties: _Ties | None) -> None:
    """Write the best items of some rows into ``item`` and ``score`` (B, n), which hold NO_ITEM and NaN before."""
    low = np.empty(len(scores), dtype=scores.dtype)

    def above(block: npt.NDArray[np.floating[Any]], start: int) -> Flags:
        low[start : start + len(block)] = _threshold(block, item.shape[1])
        return block > low[start : start + len(block), None]

    cell, counts = _cells(scores, above)
    row = np.repeat(np.arange(len(counts)), counts)
    code = cell - row * scores.shape[1]
    write_best(code, scores[row, code], counts, item, score, None if ties is None else ties.rank)
    short = np.flatnonzero((counts < item.shape[1]) & (low > -np.inf))
    if len(short):
        _append_ties(scores, low, item, score, short, counts, ties)


def near_top(scores: npt.NDArray[np.float32], n: int, error: Floats) -> tuple[Ints, Ints]:
    """Return all items that may be among the n best of each row, given approximate scores.

    An item is left out if its score is -inf, or below n others however wrong all scores are within the error.

    Args:
        scores: (B, I), no NaN; they are only read.
        n: Length of the lists.
        error: float64 (B,) the largest error of each row's scores.

    Returns:
        Item codes int64 (e,), row after row, and their numbers int64 (B,).
    """

    def near(block: npt.NDArray[np.floating[Any]], start: int) -> Flags:
        low = _threshold(block, n) - 2 * error[start : start + len(block)]
        rounded = np.nextafter(low.astype(np.float32), np.float32(-np.inf))
        return block >= np.maximum(rounded, np.finfo(np.float32).min)[:, None]

    cell, counts = _cells(scores, near)
    return cell - np.repeat(np.arange(len(counts)), counts) * scores.shape[1], counts


def _cells(
    scores: npt.NDArray[np.floating[Any]], choose: Callable[[npt.NDArray[np.floating[Any]], int], Flags]
) -> tuple[Ints, Ints]:
    """Return the flat positions of the scores that are chosen, a block of rows at a time, and their numbers by row."""
    n_rows, n_items = scores.shape
    step = max(1, _CACHED_BYTES // max(1, n_items * scores.itemsize))
    cells = [
        # Several times faster than nonzero in two dimensions.
        np.flatnonzero(choose(scores[start : start + step], start)) + start * n_items
        for start in range(0, n_rows, step)
    ]
    cell = np.concatenate(cells)
    return cell, np.diff(np.searchsorted(cell, np.arange(n_rows + 1) * n_items))


def write_best(
    code: npt.NDArray[np.integer],
    value: npt.NDArray[np.floating[Any]],
    counts: Ints,
    item: Codes,
    score: Floats,
    tie_rank: Ints | None,
) -> None:
    """Write the best entries of each row into ``item`` and ``score`` (B, n), which hold NO_ITEM and NaN before.

    Args:
        code, value: (e,) item and score above -inf of each entry, row after row, ascending items within a row.
        counts: (B,) number of entries of each row.
        item, score: Where the lists are written.
        tie_rank: As in ``select_top_n``.
    """
    shape = len(counts), int(counts.max(initial=0))
    filled = np.arange(shape[1]) < counts[:, None]
    codes, negated = np.full(shape, NO_ITEM, dtype=np.int32), np.full(shape, np.inf, dtype=value.dtype)
    codes[filled], negated[filled] = code, -value
    best = lowest(negated, item.shape[1], codes if tie_rank is None else tie_rank[codes])
    width = best.shape[1]
    item[:, :width] = codes.take(best)
    score[:, :width] = np.where(item[:, :width] == NO_ITEM, np.nan, -negated.take(best))


def _threshold(scores: npt.NDArray[np.floating[Any]], n: int) -> npt.NDArray[np.floating[Any]]:
    """Return a score that more than n items of each row reach, and items of at most n groups exceed, or -inf: (B,)."""
    n_rows, n_items = scores.shape
    # An odd number: scores that repeat with an even period would make few groups better than all others.
    n_groups = max(_GROUPS_PER_PLACE * n, -(-n_items // _GROUP_SIZE)) | 1
    size = n_items // n_groups
    # The best items of disjoint groups are as many items as groups.
    grouped = scores[:, : size * n_groups].reshape(n_rows, size, n_groups)
    best = grouped.max(axis=1) if size > 1 else scores.copy()
    if best.shape[1] <= n:
        return np.full(n_rows, -np.inf, dtype=scores.dtype)
    best.sort(axis=1)  # a partition takes ten times as long where most scores tie
    return best[:, -n - 1]


def lowest(values: npt.NDArray[np.floating[Any]], n: int, place: Ints | Codes) -> Ints:
    """Return the flat positions of the n lowest values of each row; equal ones by their place, inf in any order."""
    # Other sorts than the stable one are several times faster, and equal where no values tie.
    order: Ints = np.argsort(values, axis=1)[:, : n + 1]
    first = np.arange(len(values))[:, None] * values.shape[1]
    ranked = values.take(order + first)
    tied = np.flatnonzero(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] < np.inf)).any(axis=1))
    if len(tied):
        order[tied] = np.lexsort((place[tied], values[tied]))[:, : n + 1]
    best: Ints = order[:, :n] + first
    return best


def _append_ties(
    scores: npt.NDArray[np.floating[Any]],
    low: npt.NDArray[np.floating[Any]],
    item: Codes,
    score: Floats,
    rows: Ints,
    counts: Ints,
    ties: _Ties | None,
) -> None:
    """Append the first items that tie with the threshold to the lists of ``rows``, until they are full.

    Ties are sought in windows of the items in their order, as there are often far more than a list has space for.
    """
    n_items, n = scores.shape[1], item.shape[1]
    start, width, some = 0, 4 * n, rows
    while len(some):
        size = min(width, n_items - start)
        window = slice(start, start + size)
        seen = scores[some, window] if ties is None else scores[some[:, None], ties.code[window]]
        cell = np.flatnonzero(seen == low[some, None])
        row = cell // size
        column = counts[some[row]] + position_in_row(row, len(some))
        fits = column < n
        row, column = row[fits], column[fits]
        code = start + cell[fits] - row * size
        if ties is not None:
            code = ties.code[code]
        item[some[row], column] = code
        score[some[row], column] = scores[some[row], code]  # a zero of its own sign
        counts[some] += np.bincount(row, minlength=len(some))
        start, width, some = start + width, 4 * width, some[counts[some] < n]


def candidate_mask(users: Codes, candidates: Candidates, n_items: int) -> Flags:
    """Return which items are candidates of some users: bool (len(users), n_items)."""
    mask = np.full((len(users), n_items), candidates.included is None)
    if candidates.included is not None:
        mask[row_codes(candidates.included, users)] = True
    if candidates.excluded is not None:
        mask[row_codes(candidates.excluded, users)] = False
    return mask


def rank_entries(
    row: Ints,
    code: npt.NDArray[np.integer],
    value: Floats,
    shape: tuple[int, int],
    tie_rank: Ints | None = None,
) -> tuple[Codes, Floats]:
    """Return the best items of each row, like ``select_top_n``, from single entries instead of whole rows.

    Args:
        row, code, value: (e,) the row, item code and score of each entry in any order, no NaN.
        shape: Number of rows and length of the lists.
        tie_rank: As in ``select_top_n``.
    """
    n_rows, n = shape
    listed = np.flatnonzero(value > -np.inf)
    place = code[listed] if tie_rank is None else tie_rank[code[listed]]
    listed = listed[np.lexsort((place, -value[listed], row[listed]))]
    column = position_in_row(row[listed], n_rows)
    listed, column = listed[column < n], column[column < n]
    item = np.full(shape, NO_ITEM, dtype=np.int32)
    score = np.full(shape, np.nan)
    item[row[listed], column] = code[listed]
    score[row[listed], column] = value[listed]
    return item, score


def row_codes(rows: Rows, users: Codes) -> tuple[Ints, Codes]:
    """Return the index in ``users`` and the item code of all entries of the users."""
    entries, row = row_entries(rows.indptr, users)
    return row, rows.item[entries]
