"""The scikit-surprise algorithms without factors or neighbours, under their own parameter names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.models.base import model
from evalplugin.models.streams import UserStreams
from evalplugin.models.surprise_base import (
    Codes,
    Known,
    Scores,
    SurpriseModel,
    draw_seed,
    refuse_if_too_large,
)
from evalplugin.models.surprise_options import BslOptions, Epochs, RandomState

__all__ = ["BaselineOnly", "CoClustering", "NormalPredictor", "SlopeOne"]


@model("surprise.NormalPredictor")
@dataclass
class NormalPredictor(SurpriseModel):
    """A random rating for each pair, from the normal distribution of the train ratings.

    score(u, i) = mean + deviation * z(u, i), z standard normal. Surprise draws anew at each call from NumPy's global
    generator; here z comes from a counter-based stream of the user, so a pair has one score, whenever it is asked for.
    """

    name = "NormalPredictor"
    personalised: ClassVar[bool] = False

    _streams: UserStreams | None = field(default=None, init=False, repr=False, compare=False)

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        self._streams = UserStreams.draw(rng)
        return {}

    def scores(self, users: Codes) -> Scores:
        """Return a random rating, unclipped, of every item: float64 (len(users), n_items)."""
        assert self._streams is not None
        normal = self._streams.normal(users, len(self.known.inner_item))
        return self.mean + float(self.algorithm.sigma) * normal


@model("surprise.BaselineOnly")
@dataclass
class BaselineOnly(SurpriseModel):
    """The mean rating plus a bias of the user and a bias of the item; the order of items is the same for everybody.

    score(u, i) = mean + b_u + b_i, fitted by alternating least squares or stochastic gradient descent (Koren 2010,
    "Factor in the neighbors", section 2.1). The bias of a user or an item without train data is zero.
    """

    name = "BaselineOnly"
    personalised: ClassVar[bool] = False

    bsl_options: BslOptions = field(default_factory=BslOptions)

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        return {"bsl_options": self.bsl_options.as_dict(), "verbose": False}

    def _strangers(self, users: Codes) -> Scores:
        return self._biased(users)

    def _estimates(self, inner: npt.NDArray[np.int64]) -> Scores:
        estimates: Scores = (self.mean + self.algorithm.bu[inner])[:, None] + self.algorithm.bi
        return estimates


@model("surprise.SlopeOne")
@dataclass
class SlopeOne(SurpriseModel):
    """The user's mean rating plus the mean difference between an item and each of the user's items.

    score(u, i) = mean_u + mean over j of dev(i, j), j the user's items that anybody rated together with i; dev(i, j) =
    mean of r_vi - r_vj over the users v who rated both. Lemire and Maclachlan 2005, "Slope One predictors for online
    rating-based collaborative filtering". A known defect of Surprise: ``dev`` is computed from ratings cut to whole
    numbers (3.5 counts as 3). An item's differences are the same for everybody, so opposite tastes cancel out.
    """

    name = "SlopeOne"
    personalised: ClassVar[bool] = False

    _together: Any = field(default=None, init=False, repr=False, compare=False)

    def _check(self, known: Known) -> None:
        n = len(known.item_codes)
        refuse_if_too_large(
            20 * n * n,
            f"surprise.SlopeOne on {n:,} items",
            "take a model without item differences, such as surprise.SVD, or fewer items",
        )

    def _prepare(self) -> None:
        # Entries of pairs that nobody rated together are 0/0 and never read: as zeros they can be added.
        self.algorithm.dev[self.algorithm.freq == 0] = 0
        self._together = (self.algorithm.freq > 0).astype(np.int32)

    def _estimates(self, inner: npt.NDArray[np.int64]) -> Scores:
        from scipy.sparse import csr_array

        known = self.known
        start, counts = known.indptr[inner], np.diff(known.indptr)[inner]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        item = known.item[np.arange(indptr[-1]) + np.repeat(start - indptr[:-1], counts)]
        shape = (len(inner), len(known.item_codes))
        # dev[i, j] is -dev[j, i], so its columns are read as rows. The sparse product adds in order of j, as Surprise.
        total = csr_array((np.full(len(item), -1.0), item, indptr), shape=shape) @ self.algorithm.dev
        number = csr_array((np.ones(len(item), dtype=np.int32), item, indptr), shape=shape) @ self._together
        np.divide(total, number, out=total, where=number > 0)
        total += np.array(self.algorithm.user_mean)[inner][:, None]
        estimates: Scores = total
        return estimates


@model("surprise.CoClustering")
@dataclass
class CoClustering(SurpriseModel):
    """Users and items in clusters: the mean of the pair's co-cluster, corrected for both means.

    score(u, i) = mean of co-cluster + (mean_u - mean of u's cluster) + (mean_i - mean of i's cluster); the mean of all
    ratings where user or item has no train data. George and Merugu 2005, "A scalable collaborative filtering framework
    based on co-clustering". A known defect of Surprise: cluster means come from ratings cut to whole numbers.
    """

    name = "CoClustering"

    n_cltr_u: Annotated[int, Field(ge=1, description="number of user clusters")] = 3
    n_cltr_i: Annotated[int, Field(ge=1, description="number of item clusters")] = 3
    n_epochs: Epochs = 20
    random_state: RandomState = None

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        return {
            "n_cltr_u": self.n_cltr_u,
            "n_cltr_i": self.n_cltr_i,
            "n_epochs": self.n_epochs,
            "random_state": draw_seed(self.random_state, rng),
        }

    def _estimates(self, inner: npt.NDArray[np.int64]) -> Scores:
        fitted = self.algorithm
        cluster = fitted.cltr_u[inner]
        estimates: Scores = fitted.avg_cocltr[np.ix_(cluster, fitted.cltr_i)]
        estimates += fitted.user_mean[inner][:, None]
        estimates -= fitted.avg_cltr_u[cluster][:, None]
        estimates += fitted.item_mean
        estimates -= fitted.avg_cltr_i[fitted.cltr_i]
        return estimates
