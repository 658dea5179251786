"""Overlap of models' lists: how much of the same two models list, whatever their means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from evalplugin.base.arrays import NO_ITEM, Codes, Floats, Ints
from evalplugin.base.libraries import pa, pd
from evalplugin.base.remembering import remembered
from evalplugin.comparison.comparison import Comparison
from evalplugin.data.tables import Ids
from evalplugin.data.vocabulary import encode
from evalplugin.report.competition import facts_of

PERSISTENCE = 0.9  # p of rbo
_MOST_LISTS = 20_000  # of a model: more change the third digit at most
_MOST_PLACES = 2**24  # of all lists
_AT_ONCE = 2**19  # places that are compared together


@dataclass(frozen=True)
class Overlap:
    """How much of the same two models list, on average over users or queries (and folds).

    ``rbo`` (rank-biased overlap; Webber, Moffat and Zobel, A similarity measure for indefinite rankings, TOIS 2010) is
    the share of items in common at each depth up to k, averaged with weights p^(depth - 1) that add up to 1: the finite
    form, as in LensKit, since nothing after the list is shown to anybody. ``jaccard`` is the share of the items of
    both that both list. Both are 1 for equal lists and 0 for lists without a common item.
    """

    model: str
    against: str
    k: int  # places of a list that were compared
    lists: int  # with an item of either model
    rbo: float
    jaccard: float
    drawn_from: int | None = None  # the lists of all users, where only some were compared


@remembered
def overlaps(comparison: Comparison) -> tuple[Overlap, ...]:
    """Return the overlap of every two models up to the cutoff of the primary metric, best models first.

    Empty without two models whose lists are at hand: those of logged runs are read for the page and for
    ``Comparisons.overlap`` alone.
    """
    contest = comparison.contest
    k = contest.spec(contest.primary).k
    lists = {row.model: facts_of(contest, row.model).lists for row in comparison.scored}
    return tuple(overlaps_of({model: first(k) for model, first in lists.items() if first is not None}, k))


def overlaps_of(lists: Mapping[str, pa.Table], k: int | None) -> Iterator[Overlap]:
    """Yield the overlap of every two models, in their order.

    Args:
        lists: By model; columns user, item, rank (and fold), the ids of all models of the same kind.
        k: Places of each list to compare; None: all.
    """
    if len(lists) < 2:
        return
    places, n_lists = _places(list(lists.values()), k)
    drawn_from = n_lists if n_lists > len(places[0]) else None
    for (a, b), of_pair in zip(combinations(lists, 2), _pairs(places), strict=True):
        yield Overlap(a, b, places[0].shape[1], *of_pair, drawn_from)


def _pairs(places: Sequence[Codes]) -> Iterator[tuple[int, float, float]]:
    """Yield the number of lists, and the means of rbo and Jaccard over them, of every two models."""
    n_lists, k = places[0].shape
    tails, size = _tails(k), max(1, _AT_ONCE // (k * len(places)))
    sums = np.zeros((len(places), len(places), 3))
    for start in range(0, n_lists, size):
        block = [items[start : start + size] for items in places]
        slots, n_slots = _slots(block)
        lengths = _lengths(np.stack(block))
        for a in range(len(places) - 1):
            ranks = _ranks(slots[a], n_slots, k)
            rbo, jaccard = _values(ranks, slots[a + 1 :], lengths[a], lengths[a + 1 :], tails)
            defined = np.count_nonzero(~np.isnan(rbo), axis=1)
            sums[a, a + 1 :] += np.stack(
                [defined, np.nansum(rbo, axis=1), np.nansum(jaccard, axis=1)], axis=1
            )
    for a, b in combinations(range(len(places)), 2):
        count, rbo, jaccard = sums[a, b].tolist()
        yield int(count), rbo / count if count else np.nan, jaccard / count if count else np.nan


def _values(ranks: Codes, slots: Ints, long_a: Ints, long_b: Ints, tails: Floats) -> tuple[Floats, Floats]:
    """Return rbo and Jaccard of a model's lists with those of others (M, L).

    Args:
        ranks: Of the model's items, by slot.
        slots: Of the others' items (M, L, k).
        long_a, long_b: Lengths of the model's lists (L,) and of the others' (M, L).
        tails: See ``_tails``.
    """
    k = slots.shape[-1]
    other = ranks[slots].ravel()
    common = np.flatnonzero(other < k)
    row, depth = np.divmod(common, k)
    deepest = np.maximum(long_a, long_b)
    # A common item counts from the depth on at which both lists have it.
    weights = tails[deepest.ravel()[row], np.maximum(other[common], depth)]
    rbo = np.bincount(row, weights, deepest.size).reshape(deepest.shape)
    shared = np.bincount(row, minlength=deepest.size).reshape(deepest.shape)
    with np.errstate(invalid="ignore"):
        jaccard = shared / (long_a + long_b - shared)
    return np.where(deepest > 0, rbo, np.nan), jaccard


def _ranks(slots: Ints, n_slots: int, k: int) -> Codes:
    """Return the place, from 0, that a model's lists give each slot; ``k`` for others."""
    ranks = np.full(n_slots, k, dtype=np.int32)
    ranks[slots] = np.arange(k, dtype=np.int32)
    ranks[0] = k
    return ranks


def _tails(k: int) -> Floats:
    """Return the part of rbo that a common item adds: float64 (k + 1, k + 1), by depth of the lists and first depth."""
    weights = PERSISTENCE ** np.arange(k)
    tails = np.zeros((k + 1, k + 1))
    for depth in range(1, k + 1):
        of_depth = weights[:depth] / np.arange(1, depth + 1)
        tails[depth, :depth] = np.cumsum(of_depth[::-1])[::-1] / weights[:depth].sum()
    return tails


def _slots(block: Sequence[Codes]) -> tuple[Ints, int]:
    """Return a number for each list and item of some models (M, L, k), 0 where there is no item; and how many."""
    items = np.stack(block).astype(np.int64)
    width = int(items.max(initial=NO_ITEM)) + 1
    keys = np.where(items < 0, NO_ITEM, items + width * np.arange(items.shape[1])[None, :, None])
    slots, distinct = pd.factorize(np.append(NO_ITEM, keys))
    return slots[1:].reshape(keys.shape), len(distinct)


def _lengths(items: Codes) -> Ints:
    return np.asarray(np.count_nonzero(items >= 0, axis=-1), dtype=np.int64)


def _places(tables: Sequence[pa.Table], k: int | None) -> tuple[list[Codes], int]:
    """Return each model's items by list and rank, and how many lists there are; L of them, of very many only some.

    int32 (L, k), -1 where there is no item.
    """
    _, users = encode([_ids(table["user"]) for table in tables])
    rows = [
        user
        if "fold" not in table.column_names
        else user.astype(np.int64) * 2**16 + np.asarray(table["fold"])
        for user, table in zip(users, tables, strict=True)
    ]
    ranks = [np.asarray(table["rank"]) for table in tables]
    k = k or max(int(rank.max(initial=1)) for rank in ranks)
    # A list's rows follow each other.
    known = np.unique(np.concatenate([row[np.append(True, row[1:] != row[:-1])[: len(row)]] for row in rows]))
    n_lists = len(known)
    most = min(_MOST_LISTS, max(1, _MOST_PLACES // (k * len(tables))))
    if n_lists > most:
        known = known[np.linspace(0, n_lists - 1, most).astype(np.int64)]
    tops = [np.flatnonzero(rank <= k) for rank in ranks]
    chosen = [top[np.isin(row[top], known)] for top, row in zip(tops, rows, strict=True)]
    _, items = encode(
        [_ids(table["item"].take(pa.array(some))) for table, some in zip(tables, chosen, strict=True)]
    )
    places = []
    for row, rank, some, item in zip(rows, ranks, chosen, items, strict=True):
        of_model = np.full((len(known), k), NO_ITEM, dtype=np.int32)
        of_model[np.searchsorted(known, row[some]), rank[some] - 1] = item
        places.append(of_model)
    return places, n_lists


def _ids(column: pa.ChunkedArray) -> Ids:
    if pa.types.is_integer(column.type):
        return Ids("integers", column.to_numpy())
    return Ids("text", column.cast(pa.large_string()).combine_chunks())
