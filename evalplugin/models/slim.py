"""SLIM: sparse weights of items, by an elastic net for each item."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from evalplugin.base.costs import check_memory
from evalplugin.base.libraries import sparse
from evalplugin.models.base import model
from evalplugin.models.factors import MatrixValues
from evalplugin.models.neighbours import ProductModel, keep_columns
from evalplugin.models.threads import for_ranges

if TYPE_CHECKING:
    from evalplugin.data import Interactions

_TOLERANCE, _PASSES = 1e-5, 1000
_ROWS = 16  # items that a thread fits at a time


@model("slim")
@dataclass
class SLIM(ProductModel):
    """A linear model of items with few, positive weights: an elastic net of every item on the others (SLIM).

    score(u, i) = x_u . w_i with the w_i >= 0, w_ii = 0, that minimises ||x_i - X w_i||² / (2 n) + alpha l1_ratio
    ||w_i||_1 + alpha (1 - l1_ratio) ||w_i||² / 2 for the column x_i of X and n users with train data, as
    sklearn.linear_model.ElasticNet(positive=True, fit_intercept=False) does; the k largest weights are kept. Zero for
    items without train data. Ning and Karypis, ICDM 2011; Levy and Jack 2013. The fit takes 4 n² bytes for n items
    with train data.
    """

    k: Annotated[int, Field(ge=1, description="most weights of each item")] = 100
    l1_ratio: Annotated[
        float, Field(ge=0, le=1, description="share of the L1 penalty: more for fewer weights")
    ] = 0.01
    alpha: Annotated[float, Field(gt=0, description="regularisation, relative to the number of users")] = 0.03
    values: MatrixValues = "binary"

    def prepare(self) -> None:
        """Import SciPy and the compiled loops."""
        super().prepare()
        import_module("evalplugin.models.kernels.elastic_net")

    def fit_bytes(self, train: Interactions) -> int:
        """Return the bytes of the matrix of items with items and of the weights, apart from ``train``."""
        n = int(np.count_nonzero(train.item_counts))
        return 4 * n * n + 40 * n * min(n, self.k)

    def fit(self, train: Interactions, rng: np.random.Generator) -> None:
        """Fit the weights of the items that have train data.

        Raises:
            ModelError: There are negative ratings, or the catalogue needs more memory than the machine has.
        """
        from evalplugin.models.kernels.dense import gram_of
        from evalplugin.models.kernels.elastic_net import Penalties, regress_columns

        matrix = self._matrix(train, "slim")
        present = np.flatnonzero(train.item_counts)
        n, n_users = len(present), int(np.count_nonzero(train.rows.counts))
        check_memory(
            self.fit_bytes(train), f"slim with {n:,} items", "take item neighbours, or a sample of the items"
        )
        gram = gram_of(matrix[:, present], "float32")
        l1, l2 = self.alpha * self.l1_ratio * n_users, self.alpha * (1 - self.l1_ratio) * n_users
        penalties = Penalties(l1, l2, _TOLERANCE, _PASSES)
        parts = [sparse.csr_array((0, n))] * -(-n // _ROWS)

        def some(start: int, stop: int) -> None:
            weights = np.empty((stop - start, n))
            regress_columns(start, stop, gram, penalties, weights)
            parts[start // _ROWS] = sparse.csr_array(weights)

        for_ranges(some, n, _ROWS)
        fitted = sparse.vstack(parts, format="csr").T.tocoo()
        entries = present[fitted.coords[0]], present[fitted.coords[1]]
        shape = train.n_items, train.n_items
        self._keep(matrix, keep_columns(sparse.csr_array((fitted.data, entries), shape=shape), self.k))
