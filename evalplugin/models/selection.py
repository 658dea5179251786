"""Top-N selection: the best n items of a block of scores, and ``TopN``, the resulting lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from evalplugin.base.arrays import Codes, Flags, Floats, Ints, ReadOnlyArrays, position_in_row, row_entries
from evalplugin.base.libraries import np, npt, pa
from evalplugin.data import Candidates, Interactions, Rows
from evalplugin.models.threads import for_ranges

NO_ITEM = -1
_CHUNK_CELLS = 1_000_000  # scores that a thread works on at a time
_STRIDE = 16  # one item in 16 is sampled to estimate the n-th best score
_LARGE = 4  # a catalogue is large if its sample is so many times the sample's share of the best items


@dataclass(frozen=True, eq=False)
class TopN(ReadOnlyArrays):
    """A list for each user: best first, score descending, equal scores by the rule of ties, no item twice.

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
        """The length of the lists; a list may end earlier."""
        return int(self.item.shape[1])

    def to_table(self, data: Interactions) -> pa.Table:
        """Return the lists as a table of raw ids: user, item, rank (from 1), score; one row a listed item."""
        listed = self.item != NO_ITEM
        row, position = np.nonzero(listed)
        return pa.table(
            {
                "user": pa.array(data.users[self.user[row]]),
                "item": pa.array(data.items[self.item[listed]]),
                "rank": pa.array((position + 1).astype(np.int32)),
                "score": pa.array(self.score[listed]),
            }
        )


def select_top_n(
    scores: npt.NDArray[np.floating[Any]], n: int, tie_rank: Ints | None = None
) -> tuple[Codes, Floats]:
    """Return the n best items of each row: score descending, then tie rank ascending; -inf is never listed.

    Exact for every input without NaN. The catalogue is not sorted: items above a threshold are, and items that tie
    with it are taken in order of tie rank. In a large catalogue a sample gives a threshold that somewhat more than n
    items reach; in a small one, and for a row where the sample misled, it is the best score that the list has no
    space for.

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


def selection_rows(n_items: int) -> int:
    """Return the number of rows of scores that a thread selects from at a time: as many as fit in its cache."""
    return max(1, _CHUNK_CELLS // max(1, n_items))


class _Ties(NamedTuple):
    """An order of the items with equal scores."""

    rank: Ints  # (I,) the place of each item
    code: Ints  # (I,) the item in each place


def _select(scores: npt.NDArray[np.floating[Any]], item: Codes, score: Floats, ties: _Ties | None) -> None:
    """Write the best items of some rows into ``item`` and ``score`` (B, n), which hold NO_ITEM and NaN before."""
    n_items, n = scores.shape[1], item.shape[1]
    # The number of sampled items among the n best has a mean of n / _STRIDE; a margin of three standard deviations.
    share = n / _STRIDE
    rank = int(share + 3 * share**0.5) + 4
    if n_items <= _LARGE * rank * _STRIDE:
        _select_above(scores, _nth_best(scores.copy(), n + 1), item, score, ties)
        return
    low = _nth_best(scores[:, _sampled_items(n_items)], rank)
    # Sorting far more items than needed would be slow for all rows.
    failed = _select_above(scores, low, item, score, ties, most=4 * rank * _STRIDE)
    if len(failed):
        some = scores[failed]
        again = np.full((len(failed), n), NO_ITEM, dtype=np.int32), np.full((len(failed), n), np.nan)
        _select_above(some, _nth_best(some.copy(), n + 1), *again, ties)
        item[failed], score[failed] = again


@lru_cache(maxsize=4)
def _sampled_items(n_items: int) -> Ints:
    """Return one item at random of every ``_STRIDE``: a fixed one would mislead where scores repeat with its period."""
    first = np.arange(0, n_items - _STRIDE + 1, _STRIDE)
    return first + np.random.default_rng(0).integers(0, _STRIDE, len(first))


def _nth_best(scores: npt.NDArray[np.floating[Any]], n: int) -> npt.NDArray[np.floating[Any]]:
    """Return the n-th highest score of each row, -inf if there are fewer; the scores are sorted in place."""
    n_rows, n_items = scores.shape
    if n > n_items:
        return np.full(n_rows, -np.inf, dtype=scores.dtype)
    scores.sort(axis=1)  # a partition takes ten times as long where most scores tie
    return scores[:, n_items - n]


def _select_above(
    scores: npt.NDArray[np.floating[Any]],
    low: npt.NDArray[np.floating[Any]],
    item: Codes,
    score: Floats,
    ties: _Ties | None,
    most: int | None = None,
) -> Ints:
    """Write the best items that reach the thresholds ``low`` (B,); return the rows whose threshold does not fit.

    Those are rows with more than ``most`` items above the threshold, and rows where fewer than n reach it, unless these
    are all that can be listed.
    """
    n_rows, n_items = scores.shape
    n = item.shape[1]
    cell = np.flatnonzero(scores > low[:, None])  # several times faster than nonzero in two dimensions
    row = cell // n_items
    counts = np.bincount(row, minlength=n_rows)
    failed = np.zeros(n_rows, dtype=np.bool_)
    if most is not None and counts.max(initial=0) > most:
        failed = counts > most
        cell, row = cell[~failed[row]], row[~failed[row]]
        counts[failed] = 0
    code = cell - row * n_items
    value = scores[row, code]
    column = position_in_row(row, n_rows)
    shape = n_rows, int(counts.max(initial=0))
    codes, values = np.zeros(shape, dtype=np.int32), np.full(shape, -np.inf, dtype=scores.dtype)
    codes[row, column], values[row, column] = code, value
    order = _descending(values, n, None if ties is None else (codes, ties.rank))
    width = order.shape[1]
    listed = np.arange(width) < counts[:, None]
    item[:, :width] = np.where(listed, np.take_along_axis(codes, order, axis=1), NO_ITEM)
    score[:, :width] = np.where(listed, np.take_along_axis(values, order, axis=1), np.nan)
    short = np.flatnonzero((counts < n) & (low > -np.inf) & ~failed)
    failed[short[_append_ties(scores, low, item, score, short, counts, ties)]] = True
    return np.flatnonzero(failed)


def _descending(values: npt.NDArray[np.floating[Any]], n: int, ties: tuple[Codes, Ints] | None) -> Ints:
    """Return the positions of the n highest values of each row; -inf in any order.

    ``ties``: the item code of each value, and the rank of each item among equal values; None: they stay in order.
    """
    # Other sorts than the stable one are several times faster, and equal where no values tie.
    order = np.argsort(-values, axis=1)[:, : n + 1]
    ranked = np.take_along_axis(values, order, axis=1)
    tied = np.flatnonzero(((ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] > -np.inf)).any(axis=1))
    if len(tied) and ties is not None:
        codes, rank = ties
        order[tied] = np.lexsort((rank[codes[tied]], -values[tied]))[:, : n + 1]
    elif len(tied):
        order[tied] = np.argsort(-values[tied], axis=1, kind="stable")[:, : n + 1]
    return order[:, :n]


def _append_ties(
    scores: npt.NDArray[np.floating[Any]],
    low: npt.NDArray[np.floating[Any]],
    item: Codes,
    score: Floats,
    rows: Ints,
    counts: Ints,
    ties: _Ties | None,
) -> Flags:
    """Append the first items that tie with the threshold to the lists of ``rows``; return whether a list lacks items.

    Ties are sought in windows of the items in their order, as there are often far more than a list has space for.
    """
    n_items, n = scores.shape[1], item.shape[1]
    lacking = np.ones(len(rows), dtype=np.bool_)
    start, width = 0, 4 * n
    while start < n_items and lacking.any():
        sought = np.flatnonzero(lacking)
        some = rows[sought]
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
        lacking[sought] = counts[some] < n
        start, width = start + width, 4 * width
    return lacking


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
