"""Models of the sparse matrix of interactions, with ratings or ones as its entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from evalplugin.data import Interactions
from evalplugin.models.randomness import Seeded

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["MatrixModel", "MatrixValues", "matrix_of"]

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


def matrix_of(train: Interactions, values: str) -> csr_array:
    """Return the interactions as a sparse matrix, float64 (n_users, n_items)."""
    from scipy.sparse import csr_array

    rows = train.rows
    data = rows.rating.astype(np.float64) if values == "rating" else np.ones(len(rows.item))
    return csr_array((data, rows.item, rows.indptr), shape=(train.n_users, train.n_items))
