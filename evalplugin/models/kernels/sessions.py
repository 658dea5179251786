"""Rules between the items of sessions, and the neighbours of sessions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from evalplugin.models.kernels import compiled as nb
from evalplugin.models.kernels.products import with_small_indices
from evalplugin.models.threads import for_ranges

_ITEMS = 64  # items at a time
_QUERIES = 64  # queries at a time


class Sequences(NamedTuple):
    """The items of sessions, in order."""

    indptr: nb.Ints  # (n_sessions + 1,)
    item: nb.Codes  # (m,)


class _Events(NamedTuple):
    """The items of sessions, in order, and where each item occurs."""

    indptr: nb.Ints  # (n_sessions + 1,)
    item: nb.Codes  # (m,)
    session: nb.Ints  # (m,)
    occurs: nb.Ints  # (n_items + 1,)
    place: nb.Ints  # (m,) the events of each item


class _Rows(NamedTuple):
    """The entries of the rows of a matrix, to be written: ``counts`` of each from ``start`` on."""

    start: nb.Ints  # (n + 1,)
    counts: nb.IntsOut  # (n,)
    column: nb.CodesOut  # (start[-1],) each
    value: nb.FloatsOut

    @classmethod
    def of(cls, most: nb.Ints) -> _Rows:
        """Return room for so many entries of each row."""
        start = np.zeros(len(most) + 1, dtype=np.int64)
        np.cumsum(most, out=start[1:])
        column, value = np.empty(start[-1], dtype=np.int32), np.empty(start[-1])
        return cls(start, np.zeros(len(most), dtype=np.int64), column, value)

    def matrix(self, n_columns: int) -> sparse.csr_array:
        """Return the matrix of the entries that were written."""
        start, counts, column, value = self
        kept = np.arange(len(column)) - np.repeat(start[:-1], np.diff(start)) < np.repeat(
            counts, np.diff(start)
        )
        indptr = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=indptr[1:])
        matrix = sparse.csr_array((value[kept], column[kept], indptr), shape=(len(counts), n_columns))
        return with_small_indices(matrix)


def rules(
    sessions: Sequences, n_items: int, k: int | None, weights: nb.Floats | None = None
) -> sparse.csr_array:
    """Return the k rules of the largest weights of each item, all if k is None; of equal ones the first items.

    The rule from item a to item b weighs the sum over all pairs of an event of a and an event of b in one session.

    Args:
        sessions: The sessions, in the order in which their weights are added up.
        n_items: Size of the catalogue.
        k: Most rules of an item.
        weights: (steps,) what a pair weighs whose second event is the 1st, 2nd ... after the first; others weigh 0.
            None: each pair weighs 1, in whichever order.

    Returns:
        float64 (n_items, n_items), columns ascending within a row.
    """
    indptr, item = sessions
    lengths = np.diff(indptr)
    length = np.repeat(lengths, lengths)
    if weights is None:
        n_others = length - 1
    else:
        behind = np.repeat(indptr[1:], lengths) - np.arange(len(item)) - 1
        n_others = np.minimum(behind, len(weights))
    most = np.bincount(item, n_others, n_items).astype(np.int64)
    np.minimum(most, n_items if k is None else min(k, n_items), out=most)
    rows = _Rows.of(most)
    session = np.repeat(np.arange(len(lengths)), lengths)
    place = np.argsort(item, kind="stable")
    occurs = np.zeros(n_items + 1, dtype=np.int64)
    np.cumsum(np.bincount(item, minlength=n_items), out=occurs[1:])
    events = _Events(indptr, item, session, occurs, place)
    both = weights is None
    weights = np.empty(0) if weights is None else weights

    def some(first: int, stop: int) -> None:
        _rules(first, stop, events, weights, both, rows)

    for_ranges(some, n_items, _ITEMS)
    return rows.matrix(n_items)


class Queries(NamedTuple):
    """The distinct items of each query, in the order of their last events."""

    indptr: nb.Ints  # (n_queries + 1,)
    item: nb.Codes  # (e,)
    weight: nb.Floats  # (e,) of the item in the similarity; 0: the item counts for the sample alone
    decay: nb.Floats  # (e,) factor of a neighbour in which this is the last of the query's items
    size: nb.Floats  # (n_queries,) of the vector of weights, which the similarity is divided by
    own: nb.Ints  # (n_queries,) the query's own session, which is no neighbour; -1: none


class Past(NamedTuple):
    """Past sessions, in the order in which they are preferred."""

    indptr: nb.Ints  # (n_items + 1,)
    session: nb.Codes  # (m,) the sessions of each item, ascending
    length: nb.Floats  # (n_sessions,) number of distinct items


class _Similarity(NamedTuple):
    """How sessions are compared with a query."""

    kind: int  # position in SIMILARITIES
    sample: int  # most sessions


SIMILARITIES = ("dot", "cosine", "jaccard")


def nearest_sessions(
    queries: Queries, past: Past, k: int, sample_size: int | None, similarity: str
) -> sparse.csr_array:
    """Return the k sessions most similar to each query, of equally similar ones the first: (n_queries, n_sessions).

    Entries are similarity times decay. Only sessions of positive similarity are neighbours.

    Args:
        queries: The queries.
        past: The sessions.
        k: Most neighbours of a query.
        sample_size: Most sessions that are compared with a query: the first that share an item; None: all of them.
        similarity: One of SIMILARITIES.
    """
    n_queries, n_sessions = len(queries.size), len(past.length)
    sample = n_sessions if sample_size is None else min(sample_size, n_sessions)
    query = np.repeat(np.arange(n_queries), np.diff(queries.indptr))
    n_sharing = np.bincount(query, np.diff(past.indptr)[queries.item], n_queries).astype(np.int64)
    rows = _Rows.of(np.minimum(n_sharing, min(k, sample)))
    options = _Similarity(SIMILARITIES.index(similarity), sample)

    def some(first: int, stop: int) -> None:
        _nearest(first, stop, queries, past, options, rows)

    for_ranges(some, n_queries, _QUERIES)
    return rows.matrix(n_sessions)


@numba.njit(nogil=True, error_model="numpy")
def _cut(values: Any, most: Any) -> Any:
    """Return the lowest of the ``most`` largest values, and how many of the values equal to it are among them."""
    if len(values) <= most:
        return -np.inf, len(values)
    low = nb.kth_largest(values.copy(), most)
    return low, most - (values > low).sum()


@nb.compiled
def _rules(
    first: int,
    stop: int,
    events: _Events,
    weights: nb.Floats,
    both: bool,
    rows: _Rows,
) -> None:
    indptr, item, session, occurs, place = events
    start, counts, column, value = rows
    n_items = len(counts)
    sums = np.zeros(n_items)
    last = np.full(n_items, -1, dtype=np.int32)  # the last item that has met an item
    met = np.empty(n_items, dtype=np.int32)
    for a in range(first, stop):
        n_met = 0
        for occurrence in range(occurs[a], occurs[a + 1]):
            p = place[occurrence]
            begin, end = indptr[session[p]], indptr[session[p] + 1]
            if not both:
                begin, end = p + 1, min(end, p + 1 + len(weights))
            for q in range(begin, end):
                if q == p:
                    continue
                b = item[q]
                if last[b] != a:
                    last[b] = a
                    sums[b] = 0.0
                    met[n_met] = b
                    n_met += 1
                sums[b] += 1.0 if both else weights[q - p - 1]
        found = np.sort(met[:n_met])
        low, n_tied = _cut(sums[found], start[a + 1] - start[a])
        size = start[a]
        for b in found:
            if sums[b] < low or (sums[b] == low and n_tied == 0):
                continue
            n_tied -= sums[b] == low
            column[size] = b
            value[size] = sums[b]
            size += 1
        counts[a] = size - start[a]


# A heap of the lists of sessions, one for each item of a query, the one with the first next session on top. A key is
# that session's number times the number of lists, plus the list's own: sessions come in order, and the items of one
# session in the order of the query.


@numba.njit(nogil=True, error_model="numpy")
def _sift(heap: Any, size: Any, key: Any) -> None:
    """Put a key in the place of the top one."""
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key


@nb.compiled
def _nearest(
    first: int,
    stop: int,
    queries: Queries,
    past: Past,
    options: _Similarity,
    rows: _Rows,
) -> None:
    kind, sample = options
    start, counts, column, value = rows
    q_indptr, q_item, q_weight, q_decay, q_size, q_own = queries
    indptr, session, length = past
    n_lists = 1
    for query in range(first, stop):
        n_lists = max(n_lists, q_indptr[query + 1] - q_indptr[query])
    heap, at = np.empty(n_lists, dtype=np.int64), np.empty(n_lists, dtype=np.int64)
    room = 1
    for query in range(first, stop):
        n_sharing = 0
        for entry in range(q_indptr[query], q_indptr[query + 1]):
            n_sharing += indptr[q_item[entry] + 1] - indptr[q_item[entry]]
        room = max(room, min(n_sharing, sample))
    found, near, factor = np.empty(room, dtype=np.int32), np.empty(room), np.empty(room)
    for query in range(first, stop):
        begin = q_indptr[query]
        n_lists, size, n_sampled, n_found = q_indptr[query + 1] - begin, 0, 0, 0
        for entry in range(n_lists):
            a = q_item[begin + entry]
            at[entry] = indptr[a]
            if indptr[a] == indptr[a + 1]:
                continue
            key = session[indptr[a]] * n_lists + entry
            place = size
            size += 1
            while place > 0 and heap[(place - 1) // 2] > key:
                heap[place] = heap[(place - 1) // 2]
                place = (place - 1) // 2
            heap[place] = key
        while size > 0 and n_sampled < sample:
            s = heap[0] // n_lists
            total, decay = 0.0, 0.0
            while size > 0 and heap[0] // n_lists == s:
                entry = heap[0] - s * n_lists
                total += q_weight[begin + entry]
                decay = q_decay[begin + entry]
                at[entry] += 1
                if at[entry] < indptr[q_item[begin + entry] + 1]:
                    _sift(heap, size, session[at[entry]] * n_lists + entry)
                else:
                    size -= 1
                    _sift(heap, size, heap[size])
            if s == q_own[query]:
                continue
            n_sampled += 1
            if kind == 0:
                similarity = total / q_size[query]
            elif kind == 1:
                similarity = np.sqrt(total * total / length[s]) / q_size[query] if total > 0.0 else 0.0
            else:
                similarity = total / (q_size[query] + length[s] - total)
            if similarity > 0.0:
                found[n_found] = s
                near[n_found] = similarity
                factor[n_found] = decay
                n_found += 1
        low, n_tied = _cut(near[:n_found], start[query + 1] - start[query])
        position = start[query]
        for place in range(n_found):
            if near[place] < low or (near[place] == low and n_tied == 0):
                continue
            n_tied -= near[place] == low
            column[position] = found[place]
            value[position] = near[place] * factor[place]
            position += 1
        counts[query] = position - start[query]
