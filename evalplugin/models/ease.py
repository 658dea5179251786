"""EASE: item weights in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from evalplugin.base.arrays import Codes, Floats
from evalplugin.base.costs import check_memory
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import np
from evalplugin.models.base import model
from evalplugin.models.factors import MatrixModel, MatrixValues, matrix_of

if TYPE_CHECKING:
    from evalplugin.data import Interactions


@model("ease")
@dataclass
class EASE(MatrixModel):
    """A linear model of items with a closed form: the weight of every item for every other one.

    score(u, i) = x_u . B_i with the matrix B that minimises ||X - X B||² + l2 ||B||² and has a diagonal of zeros:
    with P = (X' X + l2 I)^-1, B_ij = -P_ij / P_jj. Zero for items without train data. Steck 2019,
    "Embarrassingly shallow autoencoders for sparse data". The fit takes up to 24 n² bytes for n items with train
    data, and time of n³.
    """

    l2: Annotated[float, Field(gt=0, description="L2 regularisation; more for more users")] = 500.0
    values: MatrixValues = "binary"

    def prepare(self) -> None:
        """Import SciPy."""
        import scipy.linalg
        import scipy.sparse  # noqa: F401

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of the matrices of items with items, apart from ``train``."""
        return 24 * int(np.count_nonzero(train.item_counts)) ** 2

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Compute the weights of the items that have train data.

        Raises:
            ModelError: The catalogue needs more memory than the machine has.
        """
        present = np.flatnonzero(train.item_counts)
        check_memory(
            self.fit_bytes(train),
            f"ease with {len(present):,} items",
            "take item neighbours, or a sample of the items",
        )
        matrix = matrix_of(train, self.values)[:, present]
        gram = (matrix.T @ matrix).toarray()
        gram[np.diag_indices_from(gram)] += self.l2
        weights = _inverse(gram)
        weights /= -weights.diagonal()
        np.fill_diagonal(weights, 0.0)
        self._interactions, self._present = matrix, present
        self._weights, self._n_items = weights, train.n_items

    def scores(self, users: Codes) -> Floats:
        """Return the weighted sums of the users' items: float64 (len(users), n_items)."""
        scores = np.zeros((len(users), self._n_items))
        scores[:, self._present] = self._interactions[users] @ self._weights
        return scores


def _inverse(matrix: Floats) -> Floats:
    """Return the inverse of a symmetric, positive definite matrix, in its memory."""
    from scipy.linalg import lapack

    # Seen from LAPACK, whose matrices are stored by columns, the lower triangle is the upper one.
    factor, failed = lapack.dpotrf(matrix.T, overwrite_a=True)
    columns, singular = lapack.dpotri(factor, overwrite_c=True)
    if failed or singular:
        raise ModelError("ease: the matrix of items cannot be inverted; raise l2")
    inverse: Floats = columns.T  # by rows again: its lower triangle is filled
    for row in range(1, len(inverse)):
        inverse[:row, row] = inverse[row, :row]
    return inverse
