"""Estimates of the nearest-neighbour algorithms of scikit-surprise, for blocks of users and for pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evalplugin.base.arrays import Codes, Floats, Ints
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
        """Take what the algorithm has learned; it is not changed."""
        super().__init__(algorithm, ratings)
        self.user_based = bool(algorithm.sim_options["user_based"])
        self.similarity: Floats = np.ascontiguousarray(algorithm.sim, dtype=np.float64)
        self._by_x, self._by_y = ratings.sides(self.user_based)
        # For the ratings in the lists of the y, which is the order that Surprise's heap sees them in.
        self._values = self._values_of(self._by_y.other, self._by_y.own, self._by_y.rating)
        self._position = None if self._by_y.ascending else _positions(self._by_y)
        self._rows: NeighbourRows | None = None
        self._neighbours: list[SortedNeighbours] | None = None
        self._undefined = np.isnan(self.similarity.sum(axis=1))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what can be found again."""
        return {**vars(self), "_rows": None, "_neighbours": None}

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        """Return what each rating contributes as a neighbour's."""
        return rating

    @property
    def _scale(self) -> Floats | None:
        return None

    @property
    def _otherwise(self) -> float:
        """The mean where too few neighbours count: an estimate, or a deviation that is added to one."""
        # Surprise divides by zero where no neighbour counts and none has to.
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
            every = np.arange(n_items)
            if self._neighbours is None:
                self._neighbours = sort_all(self.similarity)
            rows = self._rows_of(users)
            neighbour_means(self.similarity, every, rows, self._options, estimates.T, self._neighbours)
        for_ranges(
            lambda start, stop: self._complete(estimates[start:stop], users[start:stop, None], slice(None)),
            len(users),
            64,
        )
        for row, item in self._undefined_pairs(users):
            estimates[row, item] = self._ask(users[row], item)
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
        for at in np.flatnonzero(undefined).tolist():
            estimates[at] = self._ask(users[at], items[at])
        self._refuse_division(estimates)
        return estimates

    @property
    def _options(self) -> MeanOptions:
        from evalplugin.models.kernels.arguments import MeanOptions

        return MeanOptions.of(self._scale, self.algorithm.min_k, self._otherwise)

    def _rows_of(self, ys: Ints) -> NeighbourRows:
        """Return the rows of all x, with the entries of some y."""
        from evalplugin.models.kernels.arguments import NeighbourRows

        entries, y = self._by_y.entries(ys)
        position = None if self._position is None else self._position[entries]
        shape = len(self.similarity), len(ys)
        return NeighbourRows.of(
            self._by_y.other[entries], y, self._values[entries], position, shape, self.algorithm.k
        )

    def _undefined_pairs(self, users: Ints) -> list[tuple[int, int]]:
        """Return the pairs with an undefined similarity (NaN) in their list.

        How such a one sorts depends on Surprise's heap, so that Surprise itself has to be asked.
        """
        pairs: list[tuple[int, int]] = []
        by_user = self.ratings.by_user
        if self.user_based:
            for at in np.flatnonzero(self._undefined[users]).tolist():
                hit = np.isnan(self.similarity[users[at]])[by_user.own]
                pairs += [(at, item) for item in np.unique(by_user.other[hit]).tolist()]
        elif self._undefined.any():
            entries, row = by_user.entries(users)
            for item in np.flatnonzero(self._undefined).tolist():
                hit = np.isnan(self.similarity[item])[by_user.other[entries]]
                pairs += [(at, item) for at in np.unique(row[hit]).tolist()]
        return pairs

    def _ask(self, user: int, item: int) -> float:
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
    """The mean of a user (or item) plus the weighted mean of the neighbours' deviations from theirs."""

    def _values_of(self, x: Codes, y: Codes, rating: Floats) -> Floats:
        values: Floats = rating - self.algorithm.means[x]
        return values

    @property
    def _otherwise(self) -> float:
        return 0.0

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means += self.algorithm.means[users if self.user_based else items]


class KNNWithZScoreEstimates(KNNWithMeansEstimates):
    """The same, with deviations counted in each neighbour's standard deviations."""

    @property
    def _scale(self) -> Floats:
        sigmas: Floats = self.algorithm.sigmas
        return sigmas

    def _complete(self, means: Floats, users: Ints, items: Ints | slice) -> None:
        means *= self.algorithm.sigmas[users if self.user_based else items]
        super()._complete(means, users, items)


class KNNBaselineEstimates(KNNEstimates):
    """The baseline rating plus the weighted mean of the neighbours' deviations from theirs."""

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
