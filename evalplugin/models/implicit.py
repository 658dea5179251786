"""Models of the library implicit: factorisations and item neighbours for counts and other implicit feedback."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.costs import check_memory
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import sparse
from evalplugin.models.base import model, own_parameters
from evalplugin.models.factors import FactorModel, MatrixModel, MatrixValues, matrix_of, rows_of
from evalplugin.models.neighbours import ProductModel
from evalplugin.models.randomness import RandomState, draw_seed
from evalplugin.models.threads import one_blas_thread, thread_count

if TYPE_CHECKING:
    from evalplugin.data import Interactions

Factors = Annotated[int, Field(ge=1, description="length of the factor vectors")]
Iterations = Annotated[int, Field(ge=1, description="passes over the data")]
Rate = Annotated[float, Field(gt=0, description="learning rate")]
Regularization = Annotated[float, Field(ge=0, description="L2 regularisation of the factors")]
Neighbours = Annotated[int, Field(ge=1, description="most neighbours of each item, itself included")]


class _Implicit(MatrixModel):
    """A model of implicit, with the names of its parameters there."""

    module: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ("implicit",)

    def prepare(self) -> None:
        """Import implicit."""
        import_module(self.module)

    def _fitted(self, train: Interactions, **arguments: Any) -> Any:
        """Return the model of implicit, fitted with its parameters and these arguments."""
        arguments = own_parameters(self) | arguments
        arguments.pop("values", None)

        # implicit asks for the older type, for arrays that it may write to, and for one BLAS thread beside its own.
        matrix = sparse.csr_matrix(matrix_of(train, self.values, np.float32), copy=True)
        with one_blas_thread(), warnings.catch_warnings():
            # Of matrices that its neighbour models make themselves.
            warnings.filterwarnings("ignore", "Method expects CSR input")
            fitted = getattr(import_module(self.module), type(self).__name__)(**arguments)
            fitted.fit(matrix, show_progress=False)
        return fitted


@dataclass
class _Factorisation(FactorModel, _Implicit):
    """A factorisation of implicit, whose lists are made from its factors."""

    factors: Factors
    parallel: ClassVar[bool] = False  # whether the result is the same on several threads
    copies: ClassVar[int] = 2  # of the factors, while they are fitted

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of the matrix and the factors with their copies, as measured."""
        factors = self.copies * (self.factors + 2) * (train.n_users + train.n_items)
        return 36 * len(train) + 4 * factors

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Learn the factors.

        Raises:
            ModelError: They need more memory than the machine has.
        """
        check_memory(
            self.fit_bytes(train),
            f"implicit.{type(self).__name__} with {self.factors:,} factors",
            "take fewer factors",
        )
        seed = draw_seed(self.random_state, rng)
        threads = thread_count() if self.parallel else 1
        fitted = self._fitted(train, use_gpu=False, num_threads=threads, random_state=seed)
        self.user_factors, self.item_factors = fitted.user_factors, fitted.item_factors
        self._model = fitted


@model("implicit.AlternatingLeastSquares")
@dataclass
class AlternatingLeastSquares(_Factorisation):
    """Weighted matrix factorisation of implicit feedback, fitted by alternating least squares (WMF, iALS).

    score(u, i) = x_u . y_i, with factors that minimise the squared error of a preference (1 for an interaction, else
    0), weighted by alpha times the entry of the matrix (else 1). Zero for items without train data. Hu et al. 2008;
    Takács et al. 2011.
    """

    module = "implicit.als"
    parallel = True

    factors: Factors = 100
    regularization: Regularization = 0.01
    alpha: Annotated[float, Field(gt=0, description="weight of the entries")] = 1.0
    use_cg: Annotated[bool, Field(description="conjugate gradients instead of Cholesky's decomposition")] = (
        True
    )
    iterations: Iterations = 15
    random_state: RandomState = None
    values: MatrixValues = "rating"

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the scores of users with the factors that implicit solves for by a history (``recalculate_user``)."""
        rows = sparse.csr_matrix(rows_of(history, users, self.values, np.float32))
        with one_blas_thread():
            factors = self._model.recalculate_user(users, rows)
        return self.scores_of(factors)


@model("implicit.BayesianPersonalizedRanking")
@dataclass
class BayesianPersonalizedRanking(_Factorisation):
    """Matrix factorisation that ranks a user's items above others, fitted by stochastic gradient descent (BPR).

    score(u, i) = x_u . y_i + b_i. Zero for items without train data. Rendle et al. 2009. Ratings do not matter. It is
    fitted on one thread, as results depend on the timing of several.
    """

    module = "implicit.bpr"
    values: MatrixValues = field(default="binary", init=False, repr=False)

    factors: Factors = 100
    learning_rate: Rate = 0.01
    regularization: Regularization = 0.01
    iterations: Iterations = 100
    verify_negative_samples: Annotated[
        bool, Field(description="whether items of the user are not drawn as negative ones")
    ] = True
    random_state: RandomState = None


@model("implicit.LogisticMatrixFactorization")
@dataclass
class LogisticMatrixFactorization(_Factorisation):
    """Matrix factorisation of the probability that a user chooses an item (logistic MF).

    score(u, i) = x_u . y_i + b_u + b_i. Johnson 2014. It is fitted on one thread.
    """

    module = "implicit.lmf"
    copies = 4  # gradients too

    factors: Factors = 30
    learning_rate: Rate = 1.0
    regularization: Regularization = 0.6
    iterations: Iterations = 30
    neg_prop: Annotated[
        int, Field(ge=1, description="negative items drawn for a user, as a multiple of the user's own")
    ] = 30
    random_state: RandomState = None
    values: MatrixValues = "rating"


@dataclass
class _Neighbours(ProductModel, _Implicit):
    """Item neighbours of implicit: the user's items times the similarities of items."""

    module = "implicit.nearest_neighbours"

    K: Neighbours = 20

    def __post_init__(self) -> None:
        self.k = self.K

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Compute the similarities of items.

        Raises:
            ModelError: Ratings below zero make no similarities.
        """
        similarity = sparse.csr_array(self._fitted(train, num_threads=thread_count()).similarity)
        if not np.isfinite(similarity.data).all():
            raise ModelError(
                f"implicit.{type(self).__name__} computes similarities that are not finite; the lowest rating is "
                f"{train.rating_scale[0]:g}: take ratings above zero, or set values to 'binary'"
            )
        self._keep(matrix_of(train, self.values), similarity)


@model("implicit.CosineRecommender")
@dataclass
class CosineRecommender(_Neighbours):
    """The items most similar to the user's items by the cosine of their columns.

    score(u, i) = sum over the user's items j of x(u, j) * similarity(j, i), of each j the ``K`` most similar items.
    Zero for items without train data.
    """

    values: MatrixValues = "rating"


@model("implicit.TFIDFRecommender")
@dataclass
class TFIDFRecommender(_Neighbours):
    """The items most similar to the user's items by the cosine of their columns, in which rare users weigh more.

    score(u, i) as of implicit.CosineRecommender, with the square roots of entries times log(n_items / (1 + items of
    the user)).
    """

    values: MatrixValues = "rating"


@model("implicit.BM25Recommender")
@dataclass
class BM25Recommender(_Neighbours):
    """The items most similar to the user's items by BM25, which dampens counts and long columns.

    score(u, i) as of implicit.CosineRecommender, similarities being dot products of columns with weights by BM25
    (Robertson and Zaragoza 2009).
    """

    K1: Annotated[float, Field(gt=0, description="how late a larger count stops to matter")] = 1.2
    B: Annotated[float, Field(ge=0, le=1, description="how much long columns are dampened")] = 0.75
    values: MatrixValues = "rating"
