"""Bases for models of the matrix of interactions, and for models whose scores are dot products of factors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from evalplugin.base.arrays import Codes, Factors, Floats, Ints
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import sparse
from evalplugin.models.base import Product, Recommender
from evalplugin.models.randomness import Seeded
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Interactions


@dataclass
class FactorModel(Recommender):
    """A model whose ``fit`` sets ``user_factors`` and ``item_factors``; a score is the dot product of two rows.

    Floats (n_users, n_factors) and (n_items, n_factors); scores are computed in float64. A bias of items is a factor
    more: a column of ones in ``user_factors``, the biases in ``item_factors``.
    """

    user_factors: Factors = field(init=False, repr=False, compare=False)
    item_factors: Factors = field(init=False, repr=False, compare=False)

    def product(self) -> Product | None:
        """Return the factors, unless a subclass computes its scores in another way."""
        if type(self).scores is not FactorModel.scores:
            return None
        of_users, of_items = self._checked(self.user_factors)

        def exact(users: Codes, items: Ints | Codes) -> Floats:
            left, right = of_users[users], of_items[items]
            products: Floats = np.vecdot(
                left.astype(np.float64, copy=False), right.astype(np.float64, copy=False)
            )
            return products

        return Product(lambda users: of_users[users], of_items, exact)

    def scores(self, users: Codes) -> Floats:
        """Return the dot products of the users with all items: float64 (len(users), n_items).

        Raises:
            ModelError: ``fit`` has set factors that do not fit together.
        """
        return self.scores_of(self.user_factors, users)

    def scores_of(self, of_users: Factors, users: Codes | None = None) -> Floats:
        """Return the dot products of rows of factors, those of ``users`` or all, with all items."""
        left, right = self._checked(of_users)
        rows = left if users is None else left[users]
        return dot_products(rows.astype(np.float64, copy=False), right.astype(np.float64, copy=False))

    def _checked(self, user_factors: Factors) -> tuple[Factors, Factors]:
        of_users, of_items = np.asarray(user_factors), np.asarray(self.item_factors)
        if of_users.ndim != 2 or of_items.ndim != 2 or of_users.shape[1] != of_items.shape[1]:
            raise ModelError(
                f"{type(self).__name__}: user_factors and item_factors must have the shapes (n_users, n_factors) and "
                f"(n_items, n_factors), not {of_users.shape} and {of_items.shape}"
            )
        return of_users, of_items


def dot_products(left: Floats, right: Floats) -> Floats:
    """Return all dot products of the rows of two matrices, each to the bit ``numpy.dot`` of the two rows.

    A matrix product is faster, but its rounding depends on the position in the block, which decides ties by chance.
    """
    products = np.empty((len(left), len(right)))

    def rows(start: int, stop: int) -> None:
        np.vecdot(left[start:stop, None, :], right[None, :, :], out=products[start:stop])

    for_ranges(rows, len(left), 64)
    return products


@dataclass(frozen=True, eq=False, repr=False)
class NearProduct:
    """All dot products of users and items in float32, and how far each may be from the score.

    Factors are scaled by powers of two, those of each user and those of all items together, which changes no order.
    """

    product: Product
    right: npt.NDArray[np.float32]  # (n_items, n_factors), the largest from 0.5 to 1
    norm: float  # the largest of an item
    exponent: int  # of the power of two that the items were divided by

    @classmethod
    def of(cls, product: Product) -> NearProduct | None:
        """Return the near product, or None where factors are no finite numbers."""
        right = product.right.astype(np.float64, copy=False)
        largest = np.abs(right).max(initial=0.0)
        if not np.isfinite(largest):
            return None
        exponent = int(np.frexp(largest)[1])
        scaled = np.ldexp(right, -exponent)
        norm = float(np.sqrt(np.vecdot(scaled, scaled).max(initial=0.0)))
        return cls(product, scaled.astype(np.float32), norm, exponent)

    def scores(self, users: Codes) -> tuple[npt.NDArray[np.float32], Floats]:
        """Return the products of users with all items, float32 (B, I), and the largest error of each user's (B,).

        The error is infinite where the scores themselves may not be finite, or lose digits as they are too small.
        """
        left = self.product.left(users).astype(np.float64, copy=False)
        largest = np.abs(left).max(axis=1, initial=0.0)
        exponent = np.frexp(largest)[1]
        scaled = np.ldexp(left, -exponent[:, None])
        # Sums of d products are wrong by at most gamma(d) |x| |y| in any order (Higham 2002, section 3.1); each factor
        # is rounded once, and the scores, in float64, are wrong by far less than is added here.
        error = (left.shape[1] + 8) * 1.01 * 2.0**-24 * self.norm * np.sqrt(np.vecdot(scaled, scaled))
        usual = np.isfinite(largest) & (np.abs(exponent + self.exponent) < _MOST_EXPONENT)
        scaled[~usual] = 0.0
        return scaled.astype(np.float32) @ self.right.T, np.where(usual, error, np.inf)


_MOST_EXPONENT = 900  # of a product: float64 loses digits below -1022, and ends at 1024

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


def rows_of(
    history: Interactions, users: Codes, values: str, dtype: npt.DTypeLike = np.float64
) -> sparse.csr_array:
    """Return the rows of some users as ``matrix_of`` has them: floats (len(users), n_items)."""
    return matrix_of(history, values, dtype)[users]


def matrix_of(train: Interactions, values: str, dtype: npt.DTypeLike = np.float64) -> sparse.csr_array:
    """Return the interactions as a sparse matrix, floats (n_users, n_items)."""
    rows = train.rows
    data = rows.rating.astype(dtype) if values == "rating" else np.ones(len(rows.item), dtype)
    return sparse.csr_array((data, rows.item, rows.indptr), shape=(train.n_users, train.n_items))
