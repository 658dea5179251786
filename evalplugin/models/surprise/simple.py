"""The scikit-surprise algorithms without factors or neighbours, under their own parameter names and defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.models.base import model
from evalplugin.models.randomness import RandomState, UserStreams
from evalplugin.models.surprise.base import BslOptions, ColdStartFromBiases, Epochs, SurpriseModel
from evalplugin.models.surprise.trainset import matrix_of_lists
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Interactions

_COLUMNS = 128  # items at a time


@model("surprise.NormalPredictor")
@dataclass
class NormalPredictor(SurpriseModel):
    """A random rating for each pair, from the normal distribution of the train ratings.

    score(u, i) = mean + deviation * z(u, i), z standard normal. Unlike in Surprise, z comes from a stream of the
    user, so the score of a pair is the same in each call.
    """

    name = "NormalPredictor"
    personalised: ClassVar[bool] = False
    cold_users: ClassVar[str] = "random ratings, as all users get"

    @property
    def stochastic(self) -> bool:
        """Whether another stream of random numbers may change the lists."""
        return True

    def _arguments(self, rng: np.random.Generator) -> dict[str, Any]:
        self._streams = UserStreams.draw(rng)
        return {}

    def scores(self, users: Codes) -> Floats:
        """Return a random rating, unclipped, of every item: float64 (len(users), n_items)."""
        normal = self._streams.normal(users, len(self.known.item))
        return self.mean + float(self.algorithm.sigma) * normal

    def predict(self, users: Codes, items: Codes) -> Floats:
        """Return the random rating of each pair, clipped to the rating scale: float64 (len(users),)."""
        distinct, row = np.unique(users, return_inverse=True)
        return self.scores(distinct)[row, items].clip(*self._rating_scale)


@model("surprise.BaselineOnly")
@dataclass
class BaselineOnly(ColdStartFromBiases):
    """The mean rating plus a bias of the user and a bias of the item; the order of items is the same for all users.

    score(u, i) = mean + b_u + b_i, fitted by alternating least squares or stochastic gradient descent (Koren 2010,
    "Factor in the neighbors", section 2.1). The bias of a user or an item without train data is zero.
    """

    name = "BaselineOnly"
    personalised: ClassVar[bool] = False

    bsl_options: BslOptions = field(default_factory=BslOptions)

    def _estimates(self, users: Ints, items: Ints) -> Floats:
        return self._baseline(users, items)


@model("surprise.SlopeOne")
@dataclass
class SlopeOne(SurpriseModel):
    """The user's mean rating plus the mean difference between an item and each of the user's items.

    score(u, i) = mean_u + mean over j of dev(i, j), j the user's items that any user rated together with i; dev(i, j)
    = mean of r_vi - r_vj over the users v who rated both. Lemire and Maclachlan, SDM 2005. A defect of Surprise:
    ``dev`` comes from ratings cut to whole numbers.
    """

    name = "SlopeOne"
    personalised: ClassVar[bool] = False

    def _learned_bytes(self, n_users: int, n_items: int, train: Interactions) -> int:
        return 16 * n_items**2

    def _too_large(self, n_users: int, n_items: int) -> tuple[str, str]:
        return (
            f"surprise.SlopeOne on {n_items:,} items",
            "take a model without item differences, such as surprise.SVD, or fewer items",
        )

    def adopt(self, algorithm: Any) -> None:
        """Take the learned state of a fitted algorithm."""
        super().adopt(algorithm)
        self._user_mean = np.array(algorithm.user_mean, dtype=np.float64)
        trainset = algorithm.trainset
        self._rated = matrix_of_lists(trainset.ur, (trainset.n_users, trainset.n_items))
        self._rated.data[:] = 1.0

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item; see ``SurpriseModel``."""
        rated, means = self._rated[users], self._user_mean[users, None]
        estimates = np.empty(rated.shape)

        def columns(start: int, stop: int) -> None:
            together = self.algorithm.freq[:, start:stop] > 0
            # dev[i, j] is -dev[j, i], so that the rows of the user's items are added.
            total = rated @ np.where(together, -self.algorithm.dev[:, start:stop], 0.0)
            number = rated @ together.astype(np.float64)
            estimates[:, start:stop] = means + total / np.maximum(number, 1)

        for_ranges(columns, rated.shape[1], _COLUMNS)
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair."""
        distinct, row = np.unique(users, return_inverse=True)
        return self.block(distinct)[row, items]


@model("surprise.CoClustering")
@dataclass
class CoClustering(SurpriseModel):
    """Users and items in clusters: the mean of the pair's co-cluster, corrected for both means.

    score(u, i) = mean of co-cluster + (mean_u - mean of u's cluster) + (mean_i - mean of i's cluster); the mean of
    all ratings where user or item has no train data. George and Merugu, ICDM 2005. A defect of Surprise: cluster
    means come from ratings cut to whole numbers.
    """

    name = "CoClustering"

    n_cltr_u: Annotated[int, Field(ge=1, description="number of user clusters")] = 3
    n_cltr_i: Annotated[int, Field(ge=1, description="number of item clusters")] = 3
    n_epochs: Epochs = 20
    random_state: RandomState = None

    def _estimates(self, users: Ints, items: Ints) -> Floats:
        fitted = self.algorithm
        of_user, of_item = fitted.cltr_u[users], fitted.cltr_i[items]
        estimates: Floats = fitted.avg_cocltr[of_user, of_item]
        estimates += fitted.user_mean[users]
        estimates -= fitted.avg_cltr_u[of_user]
        estimates += fitted.item_mean[items]
        estimates -= fitted.avg_cltr_i[of_item]
        return estimates
