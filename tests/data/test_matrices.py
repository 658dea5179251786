"""Sparse matrices of the dataset ``pairs``: a row a stored value; other and damaged files are refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from evalplugin.cli import main
from evalplugin.data.pair_formats import SparseMatrix

CELLS = (
    np.array([5, 2, 3, 4]),
    np.array([3, 0, 2, 2]),
    np.array([0, 2, 3, 4]),
)  # unsorted, with a repeated cell
STORED = [[0, 3, 5.0], [0, 0, 2.0], [1, 2, 3.0], [2, 2, 4.0]]


def read(matrix: Any) -> list[list[float]]:
    scipy.sparse.save_npz("train.npz", matrix)
    table = SparseMatrix().read(Path("train.npz"), {"user": "user", "item": "item", "rating": "rating"})
    return [list(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_a_matrix_is_one_row_a_stored_value(dtype: Any) -> None:
    values, indices, indptr = CELLS[0].astype(dtype), *CELLS[1:]
    expected = [[user, item, float(np.array(value).astype(dtype))] for user, item, value in STORED]
    csr = scipy.sparse.csr_array((values, indices, indptr), shape=(3, 4))
    assert read(csr) == read(csr.tocoo()) == expected
    csc = scipy.sparse.csc_array((values, indices, indptr), shape=(4, 3))
    assert read(csc) == [[item, user, value] for user, item, value in expected]
    assert read(scipy.sparse.coo_array((3, 4))) == []


def exchanged_pointer() -> None:
    matrix = scipy.sparse.csr_array(np.eye(4, 5))
    matrix.indptr[1:3] = matrix.indptr[[2, 1]]
    scipy.sparse.save_npz("truth.npz", matrix)


def high_index() -> None:
    matrix = scipy.sparse.csr_array(np.eye(4, 5))
    matrix.indices[1] = 5
    scipy.sparse.save_npz("truth.npz", matrix)


def cut_off() -> None:
    scipy.sparse.save_npz("truth.npz", scipy.sparse.csr_array(np.eye(4, 5)))
    Path("truth.npz").write_bytes(Path("truth.npz").read_bytes()[:300])


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (exchanged_pointer, "indptr must be a non-decreasing sequence"),
        (high_index, "indices must be < 5"),
        (cut_off, "not a zip file"),
        (lambda: scipy.sparse.save_npz("truth.npz", scipy.sparse.eye_array(3, dtype=complex)), "Cannot cast"),
        (lambda: np.savez("truth.npz", a=np.eye(3)), "does not contain a sparse array"),
        (lambda: Path("truth.npz").write_bytes(b"user,item\n1,2\n"), ""),
    ],
)
def test_a_file_that_is_no_matrix_is_refused_by_name(write, reason, capsys):
    write()
    Path("lists.csv").write_text("user,item,rank\n0,0,1\n")
    files = ["--lists", "lists.csv", "--rank", "rank", "--metric", "ndcg@1"]
    assert main(["score", *files, "--truth", "truth.npz"]) == 2
    error = capsys.readouterr().err
    assert "truth.npz: is not a sparse matrix as scipy.sparse.save_npz writes it: " in error
    assert reason in error
