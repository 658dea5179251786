"""Products of sparse matrices against the whole product of dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from evalplugin.data import Candidates
from evalplugin.data.interactions import Rows
from evalplugin.models import limit_threads
from evalplugin.models.kernels.products import dense_product, top_of_product, top_products
from evalplugin.models.selection import select_candidates


def entries(rng, n_rows, n_columns, shares, values):
    """A matrix whose rows have these shares of the columns in turn, and entries drawn from these values."""
    chosen = rng.random((n_rows, n_columns)) < np.resize(shares, n_rows)[:, None]
    return sparse.csr_array(chosen * rng.choice(values, (n_rows, n_columns)))


# Few values make many ties; the others take bits that depend on the order of a sum, and that zeros would hide.
VALUES = {
    "ties": [1.0, 2.0],
    "alike": [1.0],
    "digits": np.random.default_rng(0).random(500),
    "small": [5e-324, 1e-300],
}
SHARES = {"dense": [0.9, 0.02, 0.3, 0.0], "sparse": [0.003, 0.0, 0.1], "whole": [1.0]}


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    # Around the widths of groups and tiles.
    n_columns=st.sampled_from([1, 3, 63, 64, 65, 500, 2047, 2049, 5000, 33_000]),
    shares=st.sampled_from(sorted(SHARES)),
    values=st.sampled_from(sorted(VALUES)),
    n=st.sampled_from([1, 7, 100, 600]),
    excluded=st.booleans(),
    ranked=st.booleans(),
    threads=st.sampled_from([1, 3]),
)
def test_lists_of_products_are_those_of_the_scores(
    seed, n_columns, shares, values, n, excluded, ranked, threads
):
    rng = np.random.default_rng(seed)
    left = entries(rng, 9, 20, [0.0, 0.5, 1.0, 0.2], VALUES["ties" if values == "ties" else "digits"])
    right = entries(rng, 20, n_columns, SHARES[shares], VALUES[values])
    known = entries(rng, 9, n_columns, [0.0, 0.3, 0.01, 1.0], [1.0])
    rows = np.sort(rng.choice(9, 7, replace=False)).astype(np.int32)
    candidates = Candidates(
        "all",
        Rows(known.indptr.astype(np.int64), known.indices.astype(np.int32), known.data.astype(np.float32))
        if excluded
        else None,
        tie_rank=rng.permutation(n_columns) if ranked else None,
    )
    expected = select_candidates(rows, dense_product(left, rows, right), n, candidates)
    with limit_threads(threads):
        items, scores = top_of_product(left, rows, right, n, candidates.excluded, candidates.tie_rank)
    np.testing.assert_array_equal(items, expected[0])
    np.testing.assert_array_equal(scores, expected[1])


def test_rows_without_order_make_the_same_lists():
    rng = np.random.default_rng(3)
    left, right = (
        entries(rng, 9, 20, [0.5], VALUES["ties"]),
        entries(rng, 20, 40_000, [0.2], VALUES["digits"]),
    )
    mixed = sparse.csr_array(
        (right.data[::-1].copy(), right.indices[::-1].copy(), right.nnz - right.indptr[::-1]),
        shape=right.shape,
    )[::-1]
    assert not mixed.has_sorted_indices
    rows = np.arange(9, dtype=np.int32)
    expected = top_of_product(left, rows, right, 50, None, None)
    for found, wanted in zip(top_of_product(left, rows, mixed, 50, None, None), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("share", [0.01, 0.3])  # the columns that a row meets, and all of them
@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [-1.0, 0.0, 1.0]])
@pytest.mark.parametrize("k", [1, 5, 400])
def test_largest_products_are_those_of_the_whole_product(share, values, k):
    rng = np.random.default_rng(4)
    left, right = entries(rng, 300, 90, [share, 0.0], [1.0, 2.0]), entries(rng, 90, 300, [share], values)
    whole = left.toarray() @ right.toarray()
    np.fill_diagonal(whole, 0.0)
    expected = np.zeros_like(whole)
    for row, value in enumerate(np.where(whole == 0, -np.inf, whole)):
        best = np.argsort(-value, kind="stable")[:k]
        expected[row, best] = whole[row, best]
    found = top_products(left, right, k)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert not found.nnz or (found.data != 0).all()
