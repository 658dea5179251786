from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from evalplugin.models import limit_threads
from evalplugin.models.kernels.dense import gram_of, write_weighted


def matrix(seed, n_rows, n_columns, density=0.2, repeats=False):
    """Return ratings that are no sums of powers of two, rows sorted; ``repeats``: each entry stands twice."""
    rng = np.random.default_rng(seed)
    entries = sparse.random_array((n_rows, n_columns), density=density, format="csr", rng=rng)
    entries.sort_indices()
    if repeats:
        entries = sparse.csr_array(
            (entries.data.repeat(2), entries.indices.repeat(2), 2 * entries.indptr), shape=entries.shape
        )
    return entries


@given(st.integers(0, 2**32 - 1), st.integers(1, 90), st.integers(1, 150), st.integers(1, 3))
def test_the_products_of_columns_have_the_bits_of_sparse_products(seed, n_rows, n_columns, threads):
    entries = matrix(seed, n_rows, n_columns)
    with limit_threads(threads):
        gram, single = gram_of(entries), gram_of(entries, "float32")
    expected = (entries.T.tocsr() @ entries).toarray()
    np.testing.assert_array_equal(gram, expected)
    np.testing.assert_array_equal(single, expected.astype(np.float32))


def test_the_products_of_columns_count_an_entry_that_stands_twice_twice():
    entries = matrix(0, 30, 80, repeats=True)
    x = entries.toarray()
    np.testing.assert_allclose(gram_of(entries), x.T @ x)


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
