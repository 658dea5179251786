"""Means of the k nearest neighbours of pairs, as the nearest-neighbour algorithms of scikit-surprise define them.

A pair is an x and a y: the x are the users or the items, whichever have similarities, the y the others. The neighbours
of (x, y) are the k most similar of the x that have an entry for y, x itself included; equally similar ones in the
order of the list of y; those of positive similarity count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from evalplugin.models.kernels import compiled as nb
from evalplugin.models.threads import for_ranges

_CELLS = 500_000  # similarities sorted at a time: 4 MB
_PAIRS = 1024  # at a time


class MeanOptions(NamedTuple):
    """Numbers of neighbours, and the fallback for too few of them."""

    k: int  # most neighbours of a mean
    min_k: int  # fewest neighbours of a mean, at least 1
    otherwise: float  # the value with fewer neighbours


class _Values(NamedTuple):
    """The values of x and y, by either of them; those of an x ascend by y."""

    of_x: nb.Entries
    of_y: nb.Entries
    ascending: bool  # whether those of a y ascend by x


def neighbour_means(
    similarity: nb.Matrix, xs: nb.Ints, by_y: sparse.csr_array, options: MeanOptions
) -> nb.Matrix:
    """Return the mean of the neighbours' values, weighted by similarity, of each x and every y: float64 (len(xs), n_y).

    Args:
        similarity: (n_x, n_x); NaN, an undefined one, does not count.
        xs: The x to compute.
        by_y: (n_y, n_x) the values, the entries of a row in the order of the list of y.
        options: Numbers of neighbours and fallback.
    """
    means = np.empty((len(xs), by_y.shape[0]))
    # The y with most entries have k neighbours first: a walk leaves each row where only they follow.
    by_size = np.argsort(np.diff(by_y.indptr), kind="stable")
    by_y, ascending = by_y[by_size], bool(by_y.has_sorted_indices)
    values = _Values(nb.entries_of(by_y.T.tocsr()), nb.entries_of(by_y), ascending)

    def some(start: int, stop: int) -> None:
        order = np.argsort(-similarity[xs[start:stop]], axis=1, kind="stable")
        part = np.empty((stop - start, len(by_size)))
        _walk(similarity, xs[start:stop], order, values, options, part)
        means[start:stop, by_size] = part

    for_ranges(some, len(xs), max(1, _CELLS // len(similarity)))
    return means


def pair_means(
    similarity: nb.Matrix, xs: nb.Ints, ys: nb.Ints, by_y: sparse.csr_array, options: MeanOptions
) -> nb.Floats:
    """Return the means of ``neighbour_means`` for single pairs: float64 (len(xs),)."""
    means, lists = np.empty(len(xs)), nb.entries_of(by_y)

    def some(start: int, stop: int) -> None:
        _pairs(similarity, xs[start:stop], ys[start:stop], lists, options, means[start:stop])

    for_ranges(some, len(xs), _PAIRS)
    return means


@numba.njit(nogil=True, error_model="numpy")
def _mean_from(low: Any, similarity: Any, y: Any, lists: Any, options: Any) -> Any:
    """Return the mean of a pair whose k neighbours have at least the similarity ``low``; 0 if it has fewer than k.

    All entries above ``low`` count, and of those equal to it the first. ``similarity`` is the row of the x.
    """
    indptr, x_of, value = lists
    k, min_k, otherwise = options
    room = k
    for entry in range(indptr[y], indptr[y + 1]):
        room -= similarity[x_of[entry]] > low
    number, weight, total = 0, 0.0, 0.0
    for entry in range(indptr[y], indptr[y + 1]):
        sim = similarity[x_of[entry]]
        # Branchless, as branches would be unpredictable.
        is_last = (sim == low) & (room > 0) & (low > 0.0)
        sim = sim if (sim > low) | is_last else 0.0
        number += sim > 0.0
        weight += sim
        total += sim * value[entry]
        room -= is_last
    return total / weight if number >= min_k else otherwise


@nb.compiled
def _pairs(
    similarity: nb.Matrix,
    xs: nb.Ints,
    ys: nb.Ints,
    lists: nb.Entries,
    options: MeanOptions,
    means: nb.FloatsOut,
) -> None:
    indptr, x_of, _ = lists
    k = options[0]
    for pair in range(len(xs)):
        y, similarity_of = ys[pair], similarity[xs[pair]]
        sims = similarity_of[x_of[indptr[y] : indptr[y + 1]]]
        sims = sims[sims > 0.0]
        low = nb.kth_largest(sims, k) if len(sims) > k else 0.0
        means[pair] = _mean_from(low, similarity_of, y, lists, options)


@nb.compiled
def _walk(
    similarity: nb.Matrix,
    xs: nb.Ints,
    order: nb.MatrixInts,
    values: _Values,
    options: MeanOptions,
    means: nb.MatrixOut,
) -> None:
    """Write the means of each x by one walk along its neighbours, most similar first, that adds each to its y.

    Equally similar neighbours come in the order of x. Where a y has k neighbours, the next one is as similar as the
    last, and the lists are not ``ascending``, the list of y decides: its mean is made anew.
    """
    rows, lists, ascending = values
    indptr, y_of, value = rows
    k, min_k, otherwise = options
    n_y = means.shape[1]
    weight, total, last = np.empty(n_y), np.empty(n_y), np.empty(n_y)
    number, tied = np.empty(n_y, dtype=np.int64), np.empty(n_y, dtype=np.bool_)
    for row in range(len(xs)):
        similarity_of = similarity[xs[row]]
        weight[:], total[:], last[:], number[:], tied[:] = 0.0, 0.0, np.inf, 0, False
        n_open = n_y  # all y from this one on have their neighbours
        for other in order[row]:
            sim = similarity_of[other]
            while n_open > 0 and number[n_open - 1] == k and last[n_open - 1] > sim:
                n_open -= 1
            if n_open == 0 or not sim > 0.0:
                break
            for entry in range(indptr[other], indptr[other + 1]):
                y = y_of[entry]
                if y >= n_open:
                    break
                if number[y] < k:
                    number[y] += 1
                    weight[y] += sim
                    total[y] += sim * value[entry]
                    last[y] = sim
                elif last[y] == sim:
                    tied[y] = not ascending
        for y in range(n_y):
            if tied[y]:
                means[row, y] = _mean_from(last[y], similarity_of, y, lists, options)
            else:
                means[row, y] = total[y] / weight[y] if number[y] >= min_k else otherwise
