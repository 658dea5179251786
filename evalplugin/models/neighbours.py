"""The kernel of k-nearest-neighbour estimates; importing it costs numba's import."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

__all__ = ["RatingRows", "neighbour_means"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_CHUNK_CELLS = 2_000_000  # similarities sorted at a time: 16 MB of order


@dataclass(frozen=True, eq=False)
class RatingRows:
    """What each x has rated, or who has rated it, laid out for the kernel.

    x are the side that has similarities, y the other one. The y of a row stand in ascending order of popularity (their
    number of entries), under their rank in that order.
    """

    indptr: Ints  # (n_x + 1,)
    rank: npt.NDArray[np.int32]  # (m,)
    value: Floats  # (m,)
    capacity: Ints  # (n_y,) by rank: how many neighbours the y can have
    y_of: Ints  # (n_y,) by rank

    @classmethod
    def of(
        cls,
        x: Ints,
        y: Ints,
        value: Floats,
        shape: tuple[int, int],
        k: int,
    ) -> RatingRows:
        """Return the rows of (x, y, value) entries in any order, for at most k neighbours."""
        n_x, n_y = shape
        counts = np.bincount(y, minlength=n_y)
        y_of = np.argsort(counts, kind="stable")
        rank_of = np.empty(n_y, dtype=np.int32)
        rank_of[y_of] = np.arange(n_y, dtype=np.int32)
        rank = rank_of[y]
        order = np.argsort(x * n_y + rank)
        indptr = np.zeros(n_x + 1, dtype=np.int64)
        np.cumsum(np.bincount(x, minlength=n_x), out=indptr[1:])
        return cls(indptr, rank[order], value[order], np.minimum(counts[y_of], k), y_of)


def neighbour_means(
    similarity: Floats,
    xs: Ints,
    rows: RatingRows,
    scale: Floats | None,
    min_k: int,
    otherwise: float,
) -> Floats:
    """Return the similarity-weighted mean of the neighbours' values for each x and every y: float64 (len(xs), n_y).

    The neighbours of (x, y) are the k most similar of those that have an entry for y, x itself included, equally
    similar ones in ascending order; those of positive similarity count. Sums run in that order.

    Args:
        similarity: (n_x, n_x); undefined ones are NaN and count as none.
        xs: Which x are asked for.
        rows: The entries, and through their capacity k.
        scale: (n_x,) what each neighbour's term is divided by, or None.
        min_k: Fewest neighbours that make a mean.
        otherwise: The value where there are fewer.
    """
    means = np.empty((len(xs), len(rows.y_of)))
    divisor = np.ones(1) if scale is None else scale
    chunk = max(1, _CHUNK_CELLS // max(1, len(similarity)))
    for start in range(0, len(xs), chunk):
        some = xs[start : start + chunk]
        order = np.argsort(-similarity[some], axis=1, kind="stable")
        _walk(
            similarity,
            some,
            order,
            rows.indptr,
            rows.rank,
            rows.value,
            rows.capacity,
            rows.y_of,
            scale is not None,
            divisor,
            max(min_k, 1),
            otherwise,
            means[start : start + chunk],
        )
    return means


@numba.njit(cache=True, nogil=True)
def _walk(
    similarity: Floats,
    xs: Ints,
    order: Ints,
    indptr: Ints,
    rank: npt.NDArray[np.int32],
    value: Floats,
    capacity: Ints,
    y_of: Ints,
    scaled: bool,
    divisor: Floats,
    min_k: int,
    otherwise: float,
    means: Floats,
) -> None:
    n_y = len(capacity)
    count = np.empty(n_y, dtype=np.int64)
    weight = np.empty(n_y, dtype=np.float64)
    total = np.empty(n_y, dtype=np.float64)
    for row in range(len(xs)):
        count[:] = 0
        weight[:] = 0.0
        total[:] = 0.0
        last = n_y - 1  # every y behind it is full
        for place in range(order.shape[1]):
            other = order[row, place]
            sim = similarity[xs[row], other]
            if not sim > 0:  # from here on none is positive; NaN stands last
                break
            for entry in range(indptr[other], indptr[other + 1]):
                y = rank[entry]
                if y > last:
                    break
                if count[y] < capacity[y]:
                    count[y] += 1
                    weight[y] += sim
                    term = sim * value[entry]
                    if scaled:
                        term /= divisor[other]
                    total[y] += term
            while last >= 0 and count[last] >= capacity[last]:
                last -= 1
            if last < 0:
                break
        for y in range(n_y):
            means[row, y_of[y]] = total[y] / weight[y] if count[y] >= min_k else otherwise
