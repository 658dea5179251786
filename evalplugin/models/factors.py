"""Bases for models of the matrix of interactions, and for models whose scores are dot products of factors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Factors, Floats
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import sparse
from evalplugin.models.base import Recommender
from evalplugin.models.randomness import Seeded
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Interactions


@dataclass
class FactorModel(Recommender):
    """A model whose ``fit`` sets ``user_factors`` and ``item_factors``; score(u, i) is the dot product of their rows.

    Scores are computed in float64, one dot product at a time, so that they do not depend on the other users of a call.
    A bias of items is a factor more: a column of ones in ``user_factors``, the biases in ``item_factors``.
    ``user_factors``: floats (n_users, n_factors). ``item_factors``: floats (n_items, n_factors).
    """

    user_factors: Factors = field(init=False, repr=False, compare=False)
    item_factors: Factors = field(init=False, repr=False, compare=False)

    def scores(self, users: Codes) -> Floats:
        """Return the dot products of the users with all items: float64 (len(users), n_items).

        Raises:
            ModelError: ``fit`` has set factors that do not fit together.
        """
        return self.scores_of(np.asarray(self.user_factors), users)

    def scores_of(self, of_users: Factors, users: Codes | None = None) -> Floats:
        """Return the dot products of rows of factors, those of ``users`` or all, with all items."""
        of_items = np.asarray(self.item_factors)
        if of_users.ndim != 2 or of_items.ndim != 2 or of_users.shape[1] != of_items.shape[1]:
            raise ModelError(
                f"{type(self).__name__}: user_factors and item_factors must have the shapes (n_users, n_factors) and "
                f"(n_items, n_factors), not {of_users.shape} and {of_items.shape}"
            )
        rows = of_users if users is None else of_users[users]
        return dot_products(rows.astype(np.float64, copy=False), of_items.astype(np.float64, copy=False))


def dot_products(left: Floats, right: Floats) -> Floats:
    """Return all dot products of the rows of two matrices, each to the bit ``numpy.dot`` of the two rows.

    A matrix product is faster, but its rounding depends on the position in the block, which decides ties by chance.
    """
    products = np.empty((len(left), len(right)))

    def rows(start: int, stop: int) -> None:
        np.vecdot(left[start:stop, None, :], right[None, :, :], out=products[start:stop])

    for_ranges(rows, len(left), 64)
    return products


MatrixValues = Annotated[
    Literal["rating", "binary"],
    Field(description="entry of the matrix for an interaction: its rating, or 1; no interaction is 0"),
]


class MatrixModel(Seeded):
    """A model of the matrix of interactions, whose parameter ``values`` says what its entries are."""

    cold_users: ClassVar[str] = "popularity"
    values: str

    @property
    def uses_ratings(self) -> bool:
        """Whether ratings matter, or only the presence of interactions."""
        return self.values == "rating"


def rows_of(history: Interactions, users: Codes, values: str) -> sparse.csr_array:
    """Return the rows of some users as ``matrix_of`` has them: float64 (len(users), n_items)."""
    return matrix_of(history, values)[users]


def matrix_of(train: Interactions, values: str) -> sparse.csr_array:
    """Return the interactions as a sparse matrix, float64 (n_users, n_items)."""
    rows = train.rows
    data = rows.rating.astype(np.float64) if values == "rating" else np.ones(len(rows.item))
    return sparse.csr_array((data, rows.item, rows.indptr), shape=(train.n_users, train.n_items))
