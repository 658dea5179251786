"""Estimates of the nearest-neighbour algorithms of scikit-surprise, for blocks of users and for pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evalplugin.base.arrays import Codes, Floats, Ints, row_entries
from evalplugin.base.errors import ModelError
from evalplugin.models.surprise.estimates import Estimates
from evalplugin.models.surprise.ratings import RatingLists, Ratings
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.models.kernels.arguments import MeanOptions, NeighbourRows, SortedNeighbours

__all__ = ["KNNBaselineEstimates", "KNNEstimates", "KNNWithMeansEstimates", "KNNWithZScoreEstimates"]


class KNNEstimates(Estimates):
    """The similarity-weighted mean of the neighbours' ratings (KNNBasic)."""

    def __init__(self, algorithm: Any, ratings: Ratings) -> None:
        super().__init__(algorithm, ratings)
        self.user_based = bool(algorithm.sim_options["user_based"])
        self.similarity: Floats = np.ascontiguousarray(algorithm.sim, dtype=np.float64)
        self._by_x, self._by_y = ratings.sides(self.user_based)
        # For the ratings in the order of the lists of the y, as Surprise's heap receives them.
        self._values = self._values_of(self._by_y.other, self._by_y.own, self._by_y.rating)
        self._position = None if self._by_y.ascending else _positions(self._by_y)
        self._rows: NeighbourRows | None = None
        self._neighbours: list[SortedNeighbours] | None = None
        self._undefined = np.isnan(self.similarity.sum(axis=1))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be computed again."""
        return {**vars(self), "_rows": None, "_neighbours": None}

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        """Return the term of each rating in a neighbour's mean."""
        return rating

    @property
    def _scale(self) -> Floats | None:
        return None

    @property
    def _otherwise(self) -> float:
        """The mean of too few neighbours: an estimate, or a deviation that is added to one."""
        # With min_k 0 Surprise divides by zero where no neighbour counts.
        return float(self.mean) if self.algorithm.min_k > 0 else np.nan

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        """Turn neighbours' means into estimates; users and items broadcast to the shape of ``means``."""

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array."""
        from evalplugin.models.kernels.neighbours import neighbour_means
        from evalplugin.models.kernels.sorting import sort_all

        n_items = self.ratings.n_items
        estimates = np.empty((len(users), n_items))
        if self.user_based:
            if self._rows is None:
                self._rows = self._rows_of(np.arange(n_items))
            neighbour_means(self.similarity, users, self._rows, self._options, estimates)
        else:
            if self._neighbours is None:
                self._neighbours = sort_all(self.similarity)
            items, rows = np.arange(n_items), self._rows_of(users)
            neighbour_means(self.similarity, items, rows, self._options, estimates.T, self._neighbours)
        for_ranges(
            lambda start, stop: self._complete(estimates[start:stop], users[start:stop, None], slice(None)),
            len(users),
            64,
        )
        for row, item in self._undefined_pairs(users):
            estimates[row, item] = self._predict(users[row], item)
        self._refuse_division(estimates)
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair: float64 (len(users),)."""
        from evalplugin.models.kernels.pairs import pair_means

        x, y = (users, items) if self.user_based else (items, users)
        estimates, undefined = pair_means(
            self.similarity,
            np.ascontiguousarray(x, dtype=np.int64),
            np.ascontiguousarray(y, dtype=np.int64),
            self._by_y.indptr,
            self._by_y.other,
            self._values,
            self.algorithm.k,
            self._options,
        )
        self._complete(estimates, users, items)
        for pair in np.flatnonzero(undefined).tolist():
            estimates[pair] = self._predict(users[pair], items[pair])
        self._refuse_division(estimates)
        return estimates

    @property
    def _options(self) -> MeanOptions:
        from evalplugin.models.kernels.arguments import MeanOptions

        scale = np.ones(1) if self._scale is None else self._scale
        return MeanOptions(self._scale is not None, scale, max(self.algorithm.min_k, 1), self._otherwise)

    def _rows_of(self, ys: Ints) -> NeighbourRows:
        """Return the rows of all x, restricted to the entries of some y."""
        from evalplugin.models.kernels.arguments import NeighbourRows

        entries, y = row_entries(self._by_y.indptr, ys)
        position = None if self._position is None else self._position[entries]
        shape = len(self.similarity), len(ys)
        x, values = self._by_y.other[entries], self._values[entries]
        return NeighbourRows.of(x, y, values, position, shape, self.algorithm.k)

    def _undefined_pairs(self, users: Ints) -> list[tuple[int, int]]:
        """Return the pairs with an undefined similarity (NaN) in their list.

        Its rank depends on the heap of Surprise, so Surprise itself predicts these pairs.
        """
        pairs: list[tuple[int, int]] = []
        by_user = self.ratings.by_user
        if self.user_based:
            for row in np.flatnonzero(self._undefined[users]).tolist():
                hit = np.isnan(self.similarity[users[row]])[by_user.own]
                pairs += [(row, item) for item in np.unique(by_user.other[hit]).tolist()]
        elif self._undefined.any():
            entries, rows = row_entries(by_user.indptr, users)
            for item in np.flatnonzero(self._undefined).tolist():
                hit = np.isnan(self.similarity[item])[by_user.other[entries]]
                pairs += [(row, item) for row in np.unique(rows[hit]).tolist()]
        return pairs

    def _predict(self, user: int, item: int) -> float:
        trainset = self.algorithm.trainset
        raw = trainset.to_raw_uid(int(user)), trainset.to_raw_iid(int(item))
        return float(self.algorithm.predict(*raw, clip=False).est)

    def _refuse_division(self, estimates: Floats) -> None:
        if np.isnan(self._otherwise) and np.isnan(estimates).any():
            raise ModelError(
                f"{type(self.algorithm).__name__} with min_k {self.algorithm.min_k} divides by zero where no "
                f"neighbour counts; min_k must be at least 1"
            )


class KNNWithMeansEstimates(KNNEstimates):
    """The mean of a user (or item) plus the weighted mean of the neighbours' deviations from their own means."""

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        values: Floats = rating - self.algorithm.means[x]
        return values

    @property
    def _otherwise(self) -> float:
        return 0.0

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means += self.algorithm.means[users if self.user_based else items]


class KNNWithZScoreEstimates(KNNWithMeansEstimates):
    """Like KNNWithMeansEstimates, with deviations in units of each neighbour's standard deviation."""

    @property
    def _scale(self) -> Floats:
        sigmas: Floats = self.algorithm.sigmas
        return sigmas

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means *= self.algorithm.sigmas[users if self.user_based else items]
        super()._complete(means, users, items)


class KNNBaselineEstimates(KNNEstimates):
    """The baseline rating plus the weighted mean of the neighbours' deviations from their baseline ratings."""

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        values: Floats = rating - ((self.mean + self.algorithm.bx[x]) + self.algorithm.by[y])
        return values

    @property
    def _otherwise(self) -> float:
        return 0.0

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means += (self.mean + self.algorithm.bu[users]) + self.algorithm.bi[items]


def _positions(lists: RatingLists) -> Codes:
    """Return the position of each rating in its list."""
    first = np.repeat(lists.indptr[:-1], np.diff(lists.indptr))
    return (np.arange(len(lists.other)) - first).astype(np.int32)
