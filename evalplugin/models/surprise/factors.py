"""The matrix factorisations of scikit-surprise, under their own parameter names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats, Ints
from evalplugin.models.base import Product, model
from evalplugin.models.factors import dot_products
from evalplugin.models.randomness import RandomState
from evalplugin.models.surprise.base import ColdStartFromBiases, Epochs, SurpriseModel
from evalplugin.models.surprise.trainset import matrix_of_lists

if TYPE_CHECKING:
    from evalplugin.data import Interactions

Factors = Annotated[int, Field(ge=1, description="length of the factor vectors")]
Rate = Annotated[float, Field(ge=0)]
OwnRate = Annotated[
    float | None, Field(ge=0, description="for this kind of parameter alone; null: the one for all")
]
InitMean = Annotated[float, Field(description="mean of the factors at the start")]
InitDeviation = Annotated[float, Field(ge=0, description="standard deviation of the factors at the start")]
RateOfAll = Annotated[Rate, Field(description="learning rate of all parameters")]
RegularisationOfAll = Annotated[Rate, Field(description="regularisation of all parameters")]


class _Factors(ColdStartFromBiases):
    """A model whose estimate is, in this order, mean + user bias + item bias + dot product of two factor vectors.

    Without biases it is the dot product alone.
    """

    matrices: ClassVar[int] = 1  # factor matrices of users, and of items, that a fit holds in memory
    n_factors: int
    biased = True

    @property
    def cold_users(self) -> str:  # type: ignore[override]
        """The answer to users without train data."""
        return ColdStartFromBiases.cold_users if self.biased else SurpriseModel.cold_users

    def _learned_bytes(self, n_users: int, n_items: int, train: Interactions) -> int:
        return 8 * self.n_factors * self.matrices * (n_users + n_items)

    def _too_large(self, n_users: int, n_items: int) -> tuple[str, str]:
        return (
            f"surprise.{self.name} with {self.n_factors} factors of {n_users:,} users and {n_items:,} items",
            "lower n_factors, or take a sample of the data",
        )

    def _cold(self, users: Codes, items: Codes | Ints) -> Floats | float:
        return super()._cold(users, items) if self.biased else self.mean

    def adopt(self, algorithm: Any) -> None:
        """Take the learned state of a fitted algorithm."""
        super().adopt(algorithm)
        self.biased = bool(getattr(algorithm, "biased", True))
        self._user_factors: Floats = algorithm.pu

    def product(self) -> Product:
        """Return the factors, with the mean and the biases as two more; the mean for an item without train data."""
        known, n = self.known, self.n_factors
        right = np.zeros((len(known.item), n + 2))
        right[known.item_codes, :n] = self.algorithm.qi
        if self.biased:
            right[:, n] = self.mean
            right[known.item_codes, n] += self.algorithm.bi
            right[:, n + 1] = 1.0
        else:
            right[known.item < 0, n] = self.mean

        def left(users: Codes) -> Floats:
            inner = known.user[users]
            rows, learned = np.zeros((len(users), n + 2)), inner >= 0
            rows[learned, :n], rows[learned, n] = self._user_factors[inner[learned]], 1.0
            if self.biased:
                rows[:, n] = 1.0
                rows[learned, n + 1] = self.algorithm.bu[inner[learned]]
            return rows

        return Product(left, right, self.scores_of_pairs)

    def block(self, users: Ints) -> Floats:
        """Return the unclipped estimates of every item; see ``SurpriseModel``."""
        estimates = dot_products(self._user_factors[users], self.algorithm.qi)
        if self.biased:
            estimates += self._baseline(users[:, None], slice(None))
        return estimates

    def pairs(self, users: Ints, items: Ints) -> Floats:
        """Return the unclipped estimate of each pair."""
        estimates: Floats = np.vecdot(self._user_factors[users], self.algorithm.qi[items])
        return estimates + self._baseline(users, items) if self.biased else estimates


@model("surprise.SVD")
@dataclass
class SVD(_Factors):
    """Matrix factorisation with biases, fitted by stochastic gradient descent (Funk 2006).

    score(u, i) = mean + b_u + b_i + q_i . p_u; without ``biased`` only q_i . p_u (probabilistic matrix factorisation,
    Salakhutdinov and Mnih 2008), and the mean where user or item has no train data. Koren et al. 2009.
    """

    name = "SVD"

    n_factors: Factors = 100
    n_epochs: Epochs = 20
    biased: Annotated[bool, Field(description="whether there are biases")] = True
    init_mean: InitMean = 0
    init_std_dev: InitDeviation = 0.1
    lr_all: RateOfAll = 0.005
    reg_all: RegularisationOfAll = 0.02
    lr_bu: OwnRate = None
    lr_bi: OwnRate = None
    lr_pu: OwnRate = None
    lr_qi: OwnRate = None
    reg_bu: OwnRate = None
    reg_bi: OwnRate = None
    reg_pu: OwnRate = None
    reg_qi: OwnRate = None
    random_state: RandomState = None


@model("surprise.SVDpp")
@dataclass
class SVDpp(_Factors):
    """SVD++: matrix factorisation that also learns from which items a user rated, whatever the rating.

    score(u, i) = mean + b_u + b_i + q_i . (p_u + sum of y_j over the user's items j / sqrt(number of them)). Koren,
    KDD 2008, section 4. The fit takes time quadratic in a user's number of ratings.
    """

    name = "SVDpp"
    matrices = 2

    n_factors: Factors = 20
    n_epochs: Epochs = 20
    init_mean: InitMean = 0
    init_std_dev: InitDeviation = 0.1
    lr_all: RateOfAll = 0.007
    reg_all: RegularisationOfAll = 0.02
    lr_bu: OwnRate = None
    lr_bi: OwnRate = None
    lr_pu: OwnRate = None
    lr_qi: OwnRate = None
    lr_yj: OwnRate = None
    reg_bu: OwnRate = None
    reg_bi: OwnRate = None
    reg_pu: OwnRate = None
    reg_qi: OwnRate = None
    reg_yj: OwnRate = None
    random_state: RandomState = None
    cache_ratings: Annotated[
        bool, Field(description="cache the ratings in arrays: a faster fit in more memory")
    ] = False

    def adopt(self, algorithm: Any) -> None:
        """Take the learned state of a fitted algorithm; the factors of a user include those of the user's items."""
        super().adopt(algorithm)
        trainset = algorithm.trainset
        rated = matrix_of_lists(trainset.ur, (trainset.n_users, trainset.n_items))
        rated.data[:] = 1.0
        self._user_factors = algorithm.pu + (rated @ algorithm.yj) / np.sqrt(np.diff(rated.indptr))[:, None]


@model("surprise.NMF")
@dataclass
class NMF(_Factors):
    """Non-negative matrix factorisation, fitted by stochastic gradient descent whose steps leave the factors positive.

    score(u, i) = q_i . p_u, with ``biased`` mean + b_u + b_i + q_i . p_u. Without biases the score is the mean where
    user or item has no train data. Luo et al. 2014.
    """

    name = "NMF"
    matrices = 3

    n_factors: Factors = 15
    n_epochs: Epochs = 50
    biased: Annotated[bool, Field(description="whether there are biases")] = False
    reg_pu: Annotated[Rate, Field(description="regularisation of the user factors")] = 0.06
    reg_qi: Annotated[Rate, Field(description="regularisation of the item factors")] = 0.06
    reg_bu: Annotated[Rate, Field(description="regularisation of the user biases")] = 0.02
    reg_bi: Annotated[Rate, Field(description="regularisation of the item biases")] = 0.02
    lr_bu: Annotated[Rate, Field(description="learning rate of the user biases")] = 0.005
    lr_bi: Annotated[Rate, Field(description="learning rate of the item biases")] = 0.005
    init_low: Annotated[float, Field(ge=0, description="lowest factor at the start")] = 0
    init_high: Annotated[float, Field(ge=0, description="highest factor at the start")] = 1
    random_state: RandomState = None

    def __post_init__(self) -> None:
        if self.init_low > self.init_high:
            raise ValueError(f"init_low ({self.init_low}) must not be above init_high ({self.init_high})")
