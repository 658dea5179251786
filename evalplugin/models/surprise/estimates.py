"""Estimates of fitted scikit-surprise algorithms, for blocks of users and for pairs.

All arithmetic runs in the order of Surprise, so that estimates tie exactly where those of Surprise do: they equal
``algorithm.predict(user, item, clip=False).est`` to the bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from evalplugin.base.arrays import Floats, Ints, row_entries
from evalplugin.models.dot_products import dot_products
from evalplugin.models.surprise.ratings import Ratings
from evalplugin.models.threads import for_ranges

__all__ = [
    "BaselineEstimates",
    "CoClusteringEstimates",
    "Estimates",
    "FactorEstimates",
    "SVDppEstimates",
    "SlopeOneEstimates",
]


class Estimates(ABC):
    """Estimates of one fitted algorithm for users and items with train data, under its inner ids."""

    def __init__(self, algorithm: Any, ratings: Ratings) -> None:
        """Read the learned state of the algorithm, which is not modified."""
        self.algorithm = algorithm
        self.ratings = ratings

    @property
    def mean(self) -> Any:
        """Mean of all ratings."""
        return self.algorithm.trainset.global_mean

    @abstractmethod
    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array."""

    @abstractmethod
    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair: float64 (len(users),)."""


class BaselineEstimates(Estimates):
    """Mean + user bias + item bias."""

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array."""
        estimates: Floats = (self.mean + self.algorithm.bu[users])[:, None] + self.algorithm.bi
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair: float64 (len(users),)."""
        estimates: Floats = (self.mean + self.algorithm.bu[users]) + self.algorithm.bi[items]
        return estimates


class FactorEstimates(Estimates):
    """The dot product of two factor vectors, added to mean + user bias + item bias if the algorithm is biased."""

    def __init__(self, algorithm: Any, ratings: Ratings) -> None:
        super().__init__(algorithm, ratings)
        self.biased = bool(getattr(algorithm, "biased", True))
        self.user_factors = self._user_factors()

    def _user_factors(self) -> Floats:
        factors: Floats = self.algorithm.pu
        return factors

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array."""
        fitted = self.algorithm
        estimates = dot_products(self.user_factors[users], fitted.qi)

        def rows(start: int, stop: int) -> None:
            # The sum is the same in either order of its two terms.
            estimates[start:stop] += (self.mean + fitted.bu[users[start:stop]])[:, None] + fitted.bi

        if self.biased:
            for_ranges(rows, len(users), 64)
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair: float64 (len(users),)."""
        fitted = self.algorithm
        estimates = np.empty(len(users))

        def rows(start: int, stop: int) -> None:
            user, item = users[start:stop], items[start:stop]
            products = np.vecdot(self.user_factors[user], fitted.qi[item])
            if self.biased:
                products = ((self.mean + fitted.bu[user]) + fitted.bi[item]) + products
            estimates[start:stop] = products

        for_ranges(rows, len(users), 8192)
        return estimates


class SVDppEstimates(FactorEstimates):
    """Like FactorEstimates, with the scaled sum of the rated items' implicit factors added to the user's vector."""

    def _user_factors(self) -> Floats:
        from scipy.sparse import csr_array

        rated = self.ratings.by_user
        shape = (self.ratings.n_users, self.ratings.n_items)
        matrix = csr_array((np.ones(len(rated.other)), rated.other, rated.indptr), shape=shape)
        # The sparse product adds one row at a time in the order of the list, as Surprise does.
        implicit = (matrix @ self.algorithm.yj) / np.sqrt(np.diff(rated.indptr))[:, None]
        factors: Floats = self.algorithm.pu + implicit
        return factors


class SlopeOneEstimates(Estimates):
    """The user's mean rating plus the mean difference between an item and each of the user's items."""

    def __init__(self, algorithm: Any, ratings: Ratings) -> None:
        super().__init__(algorithm, ratings)
        self.user_mean = np.array(algorithm.user_mean, dtype=np.float64)

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array."""
        from evalplugin.models.kernels.differences import mean_differences

        rated = self.ratings.by_user
        return mean_differences(
            users, rated.indptr, rated.other, self.user_mean, self.algorithm.dev, self.algorithm.freq
        )

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair: float64 (len(users),)."""
        estimates = np.empty(len(users))
        for start in range(0, len(users), 8192):
            some = slice(start, start + 8192)
            estimates[some] = self._some_pairs(users[some], items[some])
        return estimates

    def _some_pairs(self, users: Ints, items: Ints) -> Floats:
        rated = self.ratings.by_user
        entries, row = row_entries(rated.indptr, users)
        other, item = rated.other[entries], items[row]
        counted = self.algorithm.freq[item, other] > 0
        # bincount adds in the order of its input, which is that of the list.
        total = np.bincount(row[counted], self.algorithm.dev[item, other][counted], len(users))
        number = np.bincount(row[counted], minlength=len(users))
        estimates: Floats = self.user_mean[users] + np.divide(total, number, out=total, where=number > 0)
        return estimates


class CoClusteringEstimates(Estimates):
    """The mean of the pair's co-cluster, corrected for both means."""

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item: float64 (len(users), n_items), a new array."""
        fitted = self.algorithm
        cluster = fitted.cltr_u[users]
        estimates: Floats = fitted.avg_cocltr[np.ix_(cluster, fitted.cltr_i)]
        estimates += fitted.user_mean[users][:, None]
        estimates -= fitted.avg_cltr_u[cluster][:, None]
        estimates += fitted.item_mean
        estimates -= fitted.avg_cltr_i[fitted.cltr_i]
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair: float64 (len(users),)."""
        fitted = self.algorithm
        of_user, of_item = fitted.cltr_u[users], fitted.cltr_i[items]
        estimates: Floats = fitted.avg_cocltr[of_user, of_item] + fitted.user_mean[users]
        estimates = estimates - fitted.avg_cltr_u[of_user] + fitted.item_mean[items]
        estimates -= fitted.avg_cltr_i[of_item]
        return estimates
