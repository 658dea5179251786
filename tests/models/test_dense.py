from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from evalplugin.models import limit_threads
from evalplugin.models.kernels.dense import gram_of, write_weighted


def matrix(seed, n_rows, n_columns, density=0.2):
    """Return ratings that are no sums of powers of two, rows sorted."""
    rng = np.random.default_rng(seed)
    entries = sparse.random_array((n_rows, n_columns), density=density, format="csr", rng=rng)
    entries.sort_indices()
    return entries


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_products_of_columns_are_made_in_blocks(dtype):
    entries = matrix(0, 40, 300)
    gram = gram_of(entries, dtype)
    assert gram.dtype == dtype
    np.testing.assert_array_equal(gram, (entries.T.tocsr() @ entries).toarray().astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(1, 300), st.integers(1, 3))
def test_weighted_rows_have_the_bits_of_sparse_products(dtype, seed, n_rows, n_weights, threads):
    rows = matrix(seed, max(1, n_rows), 40, density=0.4).astype(dtype)[:n_rows]
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((40, n_weights)).astype(dtype)
    columns = np.sort(rng.permutation(n_weights + 3)[:n_weights])
    out = np.full((n_rows, n_weights + 3), 7, dtype=dtype)
    with limit_threads(threads):
        write_weighted(rows, weights, columns, out)
    np.testing.assert_array_equal(out[:, columns], rows @ weights)
    assert (np.delete(out, columns, axis=1) == 7).all()
