"""Top-N selection: the best n items of a block of scores, and ``TopN``, the resulting lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    import pyarrow as pa

    from evalplugin.data import Interactions

__all__ = ["NO_ITEM", "TopN", "rank_entries", "select_top_n", "selection_rows"]

NO_ITEM = -1
_CHUNK_CELLS = 1_000_000  # scores that a thread works on at a time
_STRIDE = 16  # every 16th item is sampled to estimate the n-th best score


@dataclass(frozen=True, eq=False)
class TopN:
    """A list for each user: best first, score descending, equal scores in catalogue order, no item twice.

    ``user`` int32 (U,) codes, ascending; ``item`` int32 (U, N) codes, ``NO_ITEM`` behind the end of a short list;
    ``score`` float64 (U, N), NaN behind the end.
    """

    user: Codes
    item: Codes
    score: Floats

    def __post_init__(self) -> None:
        for name in ("user", "item", "score"):
            array = getattr(self, name).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.user)

    @property
    def n(self) -> int:
        """The length of the lists; a list may end earlier."""
        return int(self.item.shape[1])

    def to_table(self, data: Interactions) -> pa.Table:
        """Return the lists as a table of raw ids: user, item, rank (from 1), score; one row a listed item."""
        import pyarrow as pa

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


def select_top_n(scores: npt.NDArray[np.floating[Any]], n: int) -> tuple[Codes, Floats]:
    """Return the n best items of each row: score descending, then item code ascending; -inf is never listed.

    Exact for every input without NaN. The catalogue is not sorted: a sample of it gives a threshold that somewhat
    more than n items reach, and only those are sorted. A row where fewer reach it is partitioned as a whole.

    Args:
        scores: (B, I), float32 or float64, no NaN; it is only read.
        n: Length of the lists, at least 1.

    Returns:
        Item codes int32 (B, n), ``NO_ITEM`` behind the end of a short list, and scores float64 (B, n), NaN there.
    """
    n_rows, n_items = scores.shape
    item = np.full((n_rows, n), NO_ITEM, dtype=np.int32)
    score = np.full((n_rows, n), np.nan)

    def rows(start: int, stop: int) -> None:
        _select(scores[start:stop], item[start:stop], score[start:stop])

    for_ranges(rows, n_rows, selection_rows(n_items))
    return item, score


def selection_rows(n_items: int) -> int:
    """Return the number of rows of scores that a thread selects from at a time: as many as fit in its cache."""
    return max(1, _CHUNK_CELLS // max(1, n_items))


def _select(scores: npt.NDArray[np.floating[Any]], item: Codes, score: Floats) -> None:
    """Write the best items of some rows into ``item`` and ``score`` (B, n), which hold NO_ITEM and NaN before."""
    n_rows, n_items = scores.shape
    n = item.shape[1]
    lowest = np.finfo(scores.dtype).min
    # The mean of a negative hypergeometric is about _STRIDE * rank; three standard deviations are added as a margin.
    share = n / _STRIDE
    rank = int(share + 3 * share**0.5) + 4
    if 2 * rank * _STRIDE > n_items:
        best = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        _fill(item, score, slice(None), best, np.take_along_axis(scores, best, axis=1))
        return
    sample = scores[:, ::_STRIDE].copy()
    sample.partition(sample.shape[1] - rank, axis=1)
    low = np.maximum(sample[:, -rank], lowest)  # so that -inf never reaches it
    cell = np.flatnonzero(scores >= low[:, None])  # several times faster than nonzero in two dimensions
    row = cell // n_items
    code = cell - row * n_items
    value = scores[row, code]
    # Of the items that tie with the threshold, only as many as the list has space for, in order of code.
    above = value > low[row]
    room = n - np.bincount(row[above], minlength=n_rows)
    tied = np.flatnonzero(~above)
    tied = tied[_position(row[tied], n_rows) < room[row[tied]]]
    chosen = above
    chosen[tied] = True
    row, code, value = row[chosen], code[chosen], value[chosen]
    counts = np.bincount(row, minlength=n_rows)
    # A row with too few has its n-th best score below the threshold, unless it has no others at all.
    redo = (counts < n) & (low > lowest)
    redo |= counts > 4 * rank * _STRIDE  # the sample was unlucky: sorting so many would be slow for all rows
    if redo.any():
        done = ~redo[row]
        row, code, value = row[done], code[done], value[done]
        counts[redo] = 0
    width = int(counts.max(initial=0))
    if width:
        column = _position(row, n_rows)
        padded = np.full((n_rows, width), np.inf, dtype=scores.dtype)
        padded[row, column] = -value
        codes = np.zeros((n_rows, width), dtype=np.int32)
        codes[row, column] = code
        order = np.argsort(padded, axis=1, kind="stable")[:, :n]
        best, best_value = (np.take_along_axis(array, order, axis=1) for array in (codes, padded))
        _fill(item, score, slice(None), best, -best_value)
    for r in np.flatnonzero(redo):
        best = _best_of_row(scores[r], n)
        _fill(item, score, slice(r, r + 1), best[None], scores[r, best][None])


def rank_entries(
    row: Ints, code: npt.NDArray[np.integer], value: Floats, shape: tuple[int, int]
) -> tuple[Codes, Floats]:
    """Return the best items of each row, like ``select_top_n``, from single entries instead of whole rows.

    Args:
        row, code, value: (e,) the row, item code and score of each entry in any order, no NaN.
        shape: Number of rows and length of the lists.
    """
    n_rows, n = shape
    listed = np.flatnonzero(value > -np.inf)
    listed = listed[np.lexsort((code[listed], -value[listed], row[listed]))]
    column = _position(row[listed], n_rows)
    listed, column = listed[column < n], column[column < n]
    item = np.full(shape, NO_ITEM, dtype=np.int32)
    score = np.full(shape, np.nan)
    item[row[listed], column] = code[listed]
    score[row[listed], column] = value[listed]
    return item, score


def _best_of_row(scores: npt.NDArray[np.floating[Any]], n: int) -> Ints:
    low = np.partition(scores, len(scores) - n)[len(scores) - n]
    above = np.flatnonzero(scores > low)
    tied = np.flatnonzero(scores == low)[: n - len(above)]
    best = np.sort(np.concatenate([above, tied]))
    return best[np.argsort(-scores[best], kind="stable")]


def _position(row: Ints, n_rows: int) -> Ints:
    """Return the position of each entry among those of its row; rows are ascending."""
    counts = np.bincount(row, minlength=n_rows)
    return np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)


def _fill(
    item: Codes,
    score: Floats,
    rows: slice,
    best: npt.NDArray[np.integer[Any]],
    value: npt.NDArray[np.floating[Any]],
) -> None:
    listed = value > -np.inf
    width = best.shape[1]
    item[rows, :width] = np.where(listed, best, NO_ITEM)
    score[rows, :width] = np.where(listed, value, np.nan)
