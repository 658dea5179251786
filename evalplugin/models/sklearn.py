"""Models on scikit-learn: factorisations of the interaction matrix, and nearest neighbours of items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import NO_ITEM, Codes, Floats
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import sparse
from evalplugin.models.base import model, own_parameters
from evalplugin.models.factors import (
    FactorModel,
    MatrixModel,
    MatrixValues,
    matrix_of,
    rows_of,
)
from evalplugin.models.randomness import RandomState, draw_seed
from evalplugin.models.selection import select_top_n, selection_rows
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Interactions

Components = Annotated[int, Field(ge=1, description="number of latent factors")]


@dataclass
class _Factorisation(FactorModel, MatrixModel):
    """A factorisation of the matrix of interactions."""

    n_components: Components = 50

    def prepare(self) -> None:
        """Import scikit-learn."""
        import sklearn.decomposition  # noqa: F401

    def _estimator(self, name: str, rng: np.random.Generator, **further: Any) -> Any:
        """Return the estimator of scikit-learn with the model's parameters and further ones."""
        from sklearn import decomposition

        parameters = own_parameters(self) | further
        del parameters["values"]
        parameters["random_state"] = draw_seed(parameters["random_state"], rng)
        return getattr(decomposition, name)(**parameters)

    def _check_size(self, train: Interactions) -> None:
        n_users, n_items = np.count_nonzero(train.rows.counts), np.count_nonzero(train.item_counts)
        if self.n_components > min(n_users, n_items):
            raise ModelError(
                f"sklearn.{type(self).__name__}: n_components must be at most {min(n_users, n_items)} for {n_users:,} "
                f"users and {n_items:,} items with train data, not {self.n_components}"
            )


@model("sklearn.TruncatedSVD")
@dataclass
class TruncatedSVD(_Factorisation):
    """The truncated singular value decomposition of the interaction matrix (PureSVD).

    score(u, i) = x_u . V V_i: the row of the user in the matrix, projected on the first ``n_components`` right
    singular vectors. Zero for items without train data. Cremonesi et al., RecSys 2010. Parameters are those of
    sklearn.decomposition.TruncatedSVD (its own n_components is 2, n_iter 5), with the solver 'randomized', in
    float32.
    """

    n_iter: Annotated[int, Field(ge=1, description="power iterations")] = 20
    n_oversamples: Annotated[int, Field(ge=1, description="extra random vectors")] = 10
    random_state: RandomState = None
    values: MatrixValues = "rating"

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Decompose the matrix of users and items with train data.

        Raises:
            ModelError: There are too few of them for ``n_components``.
        """
        self._check_size(train)
        estimator = self._estimator("TruncatedSVD", rng, algorithm="randomized")
        matrix = matrix_of(train, self.values, np.float32)
        estimator.fit(_present(matrix, train))
        self.item_factors = np.zeros((train.n_items, self.n_components), np.float32)
        self.item_factors[train.item_counts > 0] = estimator.components_.T
        self.user_factors = matrix @ self.item_factors

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the scores of users with these rows in the matrix, projected on the same vectors."""
        return self.scores_of(rows_of(history, users, self.values, np.float32) @ self.item_factors)


@model("sklearn.NMF")
@dataclass
class NMF(_Factorisation):
    """Non-negative factorisation of the interaction matrix, which fits missing interactions as zeros.

    score(u, i) = W_u . H_i with X = W H, least squares with the penalties of sklearn.decomposition.NMF, whose
    parameters these are (its own n_components is 'auto'). Zero for items without train data. Lee and Seung 1999;
    Cichocki and Phan 2009. Ratings must not be negative.
    """

    init: Annotated[
        Literal["random", "nndsvd", "nndsvda", "nndsvdar"] | None,
        Field(description="the start; null: nndsvda if n_components allow it, or else random"),
    ] = None
    solver: Annotated[
        Literal["cd", "mu"], Field(description="coordinate descent, or multiplicative update")
    ] = "cd"
    tol: Annotated[float, Field(ge=0, description="tolerance at which iterations stop")] = 1e-4
    max_iter: Annotated[int, Field(ge=1, description="most iterations")] = 200
    random_state: RandomState = None
    alpha_W: Annotated[  # noqa: N815 - scikit-learn's own name
        float, Field(ge=0, description="regularisation of the user factors")
    ] = 0.0
    alpha_H: Annotated[  # noqa: N815
        float | Literal["same"], Field(description="regularisation of the item factors; same: alpha_W")
    ] = "same"
    l1_ratio: Annotated[
        float, Field(ge=0, le=1, description="share of the L1 penalty in the regularisation")
    ] = 0.0
    values: MatrixValues = "rating"

    def __post_init__(self) -> None:
        if self.alpha_H != "same" and self.alpha_H < 0:
            raise ValueError(f"alpha_H must be 'same' or at least 0, not {self.alpha_H}")

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Factorise the matrix of users and items with train data.

        Raises:
            ModelError: There are negative ratings, or too few users or items for ``n_components``.
        """
        if self.values == "rating" and train.rating_scale[0] < 0:
            raise ModelError(
                f"sklearn.NMF takes no negative ratings, and the lowest one is {train.rating_scale[0]:g}; "
                f"set values to 'binary', or take another model"
            )
        self._check_size(train)
        estimator = self._estimator("NMF", rng)
        self.user_factors = np.zeros((train.n_users, self.n_components))
        self.item_factors = np.zeros((train.n_items, self.n_components))
        self.user_factors[train.rows.counts > 0] = estimator.fit_transform(
            _present(matrix_of(train, self.values), train)
        )
        self._present_items, self._components = np.flatnonzero(train.item_counts), estimator.components_
        self.item_factors[train.item_counts > 0] = self._components.T

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the scores of users with these rows in the matrix: least squares with the item factors as they are.

        Coordinate descent makes ``max_iter`` passes, as a tolerance for all users together would let them depend on
        each other.
        """
        from sklearn.decomposition import non_negative_factorization

        rows = rows_of(history, users, self.values)[:, self._present_items]
        factors, _, _ = non_negative_factorization(
            rows,
            H=self._components,
            n_components=self.n_components,
            update_H=False,
            tol=0,
            max_iter=self.max_iter,
            alpha_W=self.alpha_W,
            alpha_H=self.alpha_H,
            l1_ratio=self.l1_ratio,
        )
        return self.scores_of(factors)


@model("sklearn.NearestNeighbors")
@dataclass
class NearestNeighbors(MatrixModel):
    """The items most similar to the user's items (item-based collaborative filtering).

    score(u, i) = sum over the items j of the user that have i among their ``n_neighbors`` nearest items of x(u, j) *
    similarity(j, i), x being the matrix entry. Items are compared as columns of the matrix; an item is not its own
    neighbour. similarity = 1 - distance for cosine, 1 / (1 + distance) for euclidean. Zero for items without train
    data. Sarwar et al. 2001; Deshpande and Karypis 2004. Parameters are those of sklearn.neighbors.NearestNeighbors
    (its own n_neighbors is 5, its metric minkowski); of equally distant items the first in the catalogue are
    neighbours.
    """

    n_neighbors: Annotated[int, Field(ge=1, description="most neighbours of each item")] = 40
    metric: Annotated[Literal["cosine", "euclidean"], Field(description="distance of two items")] = "cosine"
    values: MatrixValues = "rating"

    def prepare(self) -> None:
        """Import scikit-learn."""
        import sklearn.metrics.pairwise  # noqa: F401

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Find the nearest neighbours of every item that has train data; fewer in a small catalogue."""
        self._interactions = matrix_of(train, self.values)
        present = np.flatnonzero(train.item_counts)
        size = max(1, min(self.n_neighbors, len(present) - 1))
        nearest = np.empty((len(present), size), dtype=np.int32)
        similarity = np.empty(nearest.shape)
        rows = self._interactions.T.tocsr()[present]
        self._nearest(rows, nearest, similarity)
        row, column = np.nonzero((nearest != NO_ITEM) & (similarity != 0))
        entries = present[row], present[nearest[row, column]]
        self._similarity = sparse.csr_array(
            (similarity[row, column], entries), shape=(train.n_items, train.n_items)
        )

    def _nearest(self, rows: sparse.csr_array, nearest: Codes, similarity: Floats) -> None:
        """Write the neighbours of each row (item), best first, and their similarities."""
        from sklearn.metrics.pairwise import cosine_distances, euclidean_distances

        is_cosine = self.metric == "cosine"
        distances = cosine_distances if is_cosine else euclidean_distances

        def some(start: int, stop: int) -> None:
            closeness: Floats = -distances(rows[start:stop], rows)
            own = np.arange(stop - start), np.arange(start, stop)
            closeness[own] = -np.inf  # an item is not its own neighbour
            nearest[start:stop], selected = select_top_n(closeness, nearest.shape[1])
            similarity[start:stop] = 1 + selected if is_cosine else 1 / (1 - selected)

        for_ranges(some, len(nearest), selection_rows(len(nearest)))

    def scores(self, users: Codes) -> Floats:
        """Return the sums of similarities: float64 (len(users), n_items)."""
        return (self._interactions[users] @ self._similarity).toarray()

    def recommend_for(self, users: Codes, history: Interactions) -> Floats:
        """Return the sums of similarities with the items of histories: float64 (len(users), n_items)."""
        return (rows_of(history, users, self.values) @ self._similarity).toarray()


def _present(matrix: sparse.csr_array, train: Interactions) -> sparse.csr_array:
    """Return the matrix without the rows and columns that have no interaction."""
    return matrix[np.flatnonzero(train.rows.counts)][:, np.flatnonzero(train.item_counts)]
