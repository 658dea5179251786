"""EASE: item weights in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from evalplugin.base.arrays import Codes, Factors
from evalplugin.base.costs import check_memory
from evalplugin.base.errors import ModelError
from evalplugin.base.libraries import sparse
from evalplugin.models.base import model
from evalplugin.models.factors import MatrixModel, MatrixValues, matrix_of, rows_of
from evalplugin.models.threads import one_blas_thread

if TYPE_CHECKING:
    from evalplugin.data import Interactions


@model("ease")
@dataclass
class EASE(MatrixModel):
    """A linear model of items with a closed form: the weight of every item for every other one.

    score(u, i) = x_u . B_i with the matrix B that minimises ||X - X B||² + l2 ||B||² and has a diagonal of zeros:
    with P = (X' X + l2 I)^-1, B_ij = -P_ij / P_jj. Zero for items without train data. Steck, WWW 2019. The fit takes
    8 n² bytes for n items (half with ``precision: float32``), and time of n³.
    """

    l2: Annotated[float, Field(gt=0, description="L2 regularisation; more for more users")] = 500.0
    values: MatrixValues = "binary"
    precision: Annotated[
        Literal["float64", "float32"],
        Field(description="of the weights; float32 may change the order of near scores"),
    ] = "float64"

    def prepare(self) -> None:
        """Import SciPy and the compiled loops."""
        import_module("scipy.linalg")
        import_module("evalplugin.models.kernels.dense")

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of the matrix of items with items and of the blocks it is made in, apart from ``train``."""
        return self._bytes(train, self.precision)

    def _bytes(self, train: Interactions, precision: str) -> int:
        n = int(np.count_nonzero(train.item_counts))
        return np.dtype(precision).itemsize * n * n + 36 * len(train)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Compute the weights of the items that have train data.

        Raises:
            ModelError: The catalogue needs more memory than the machine has.
        """
        from evalplugin.models.kernels.dense import gram_of

        present = np.flatnonzero(train.item_counts)
        remedy = "take item neighbours, or a sample of the items"
        if self.precision == "float64":
            remedy = f"set precision to float32 ({self._bytes(train, 'float32'):,} bytes), {remedy}"
        check_memory(self.fit_bytes(train), f"ease with {len(present):,} items", remedy)
        matrix = matrix_of(train, self.values)[:, present]
        gram = gram_of(matrix, self.precision)
        gram[np.diag_indices_from(gram)] += self.l2
        weights = _inverse(gram)
        weights /= -weights.diagonal()
        np.fill_diagonal(weights, 0.0)
        matrix.data = matrix.data.astype(self.precision)
        self._interactions, self._present = matrix, present
        self._weights, self._n_items = weights, train.n_items

    def scores(self, users: Codes) -> Factors:
        """Return the weighted sums of the users' items: floats of the precision, (len(users), n_items)."""
        return self._weighted(self._interactions[users])

    def recommend_for(self, users: Codes, history: Interactions) -> Factors:
        """Return the weighted sums of the items of histories, as ``scores`` does of those of the train data."""
        rows = rows_of(history, users, self.values)[:, self._present]
        rows.data = rows.data.astype(self.precision)
        return self._weighted(rows)

    def _weighted(self, rows: sparse.csr_array) -> Factors:
        from evalplugin.models.kernels.dense import write_weighted

        scores = np.zeros((rows.shape[0], self._n_items), dtype=self.precision)
        write_weighted(rows, self._weights, self._present, scores)
        return scores


def _inverse(matrix: Factors) -> Factors:
    """Return the inverse of a symmetric, positive definite matrix, in its memory."""
    from scipy.linalg import lapack

    from evalplugin.models.kernels.dense import mirror

    # Seen from LAPACK, whose matrices are stored by columns, the lower triangle is the upper one.
    functions: Any = lapack.get_lapack_funcs(("potrf", "potri"), dtype=matrix.dtype)
    potrf, potri = functions
    # With several threads, OpenBLAS writes outside of a matrix of 41,000 rows.
    with one_blas_thread():
        factor, failed = potrf(matrix.T, overwrite_a=True)
        columns, singular = potri(factor, overwrite_c=True)
    if failed or singular:
        raise ModelError("ease: the matrix of items cannot be inverted; raise l2")
    inverse: Factors = columns.T  # by rows again: its lower triangle is filled
    mirror(inverse)
    return inverse
