"""Damaged and crafted ``.npz`` files: an error that names the file and what is wrong, never a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from evalplugin.cli import main

SCRIPT = Path(__file__).parent / "crafted_matrices.py"
STORED = [[0, 0, 1.0], [0, 3, 1.0], [1, 1, 1.0], [2, 2, 1.0]]
READ = {
    "good csr": STORED,
    "good csc": [[0, 0, 1.0], [3, 0, 1.0], [1, 1, 1.0], [2, 2, 1.0]],
    "good coo": [[0, 3, 1.0], [2, 1, 1.0]],
    "good unsorted with a repeated cell": [[0, 3, 1.0], [0, 0, 1.0], [1, 2, 1.0], [2, 2, 1.0]],
    "good big-endian": STORED,
    "good empty": [],
}
REFUSED = {
    "indptr descends": "indptr must be a non-decreasing sequence",
    "indptr descends, csc": "indptr must be a non-decreasing sequence",
    "indptr far beyond": "indptr must be a non-decreasing sequence",
    "indptr below zero": "indptr must be a non-decreasing sequence",
    "indptr too short": "index pointer size 2 should be 4",
    "indptr of floats": "its array 'indptr' holds float64 in the shape (4,)",
    "index too high": "indices must be < 4",
    "index below zero": "indices must be >= 0",
    "index wraps": "indices must be >= 0",
    "row too high": "exceeds matrix dimension 3",
    "row below zero": "negative axis 0 index: -3",
    "rows of floats": "its array 'row' holds float64",
    "other lengths": "must have the same length",
    "data of objects": "its array 'data' holds object",
    "data of text": "its array 'data' holds <U1",
    "data of complex": "its array 'data' holds complex128",
    "data of two dimensions": "its array 'data' holds float64 in the shape (2, 2)",
    "shape of floats": "its array 'shape' holds float64",
    "shape of nan": "its array 'shape' holds float64",
    "shape below zero": "its shape is (-3, 4), not a number of users and one of items",
    "shape of three": "its shape is (3, 4, 5), not a number of users and one of items",
    "shape wraps": "its shape is (3, -1)",
    "format of integers": "its array 'format' holds int64",
    "format of two": "its array 'format' holds <U3 in the shape (2,)",
    "format unknown": "its format is 'xyz'; allowed: csr, csc, coo: save matrix.tocsr()",
    "bsr of block 0": "its format is 'bsr'; allowed: csr, csc, coo: save matrix.tocsr()",
    "dia": "its format is 'dia'; allowed: csr, csc, coo: save matrix.tocsr()",
    "no indptr": "it has no array 'indptr'",
    "header of 8 TB": "its array 'data' has the shape (1000000000000,) of float64, but 0 bytes",
    "header below zero": "its array 'data' has the shape (-1,) of float64, but 0 bytes",
    "header of 10 ** 4000": "characters left out",
    "header nested": "",
    "header not closed": "",
    "header of no type": "not a valid dtype descriptor",
    "raw member": "the magic string is not correct",
    "cut off": "not a zip file",
    "checksum": "Bad CRC-32",
    "encrypted": "is encrypted",
    "bomb": "it would unpack to 512 MB from",
    "an array": "not a zip file",
    "text": "not a zip file",
    "nothing": "not a zip file",
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What reading each file gives, by its name: rows, or an error."""
    command = [sys.executable, "-W", "ignore", str(SCRIPT), str(tmp_path_factory.mktemp("matrices"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(done.stdout)
    assert {*found} == {*READ, *REFUSED}
    return found


@pytest.mark.parametrize("name", READ)
def test_a_matrix_is_one_row_a_stored_value(said: dict[str, Any], name: str) -> None:
    assert said[name] == READ[name]


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_matrix_is_refused_by_name(said: dict[str, Any], name: str) -> None:
    words = f"{name}.npz: is not a sparse matrix as scipy.sparse.save_npz writes it: "
    assert words in said[name]
    assert REFUSED[name] in said[name]


def test_an_exchanged_pointer_ends_a_command_before_anything_is_computed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    matrix = scipy.sparse.csr_array(np.eye(4, 5))
    scipy.sparse.save_npz("train.npz", matrix)
    matrix.indptr[1:3] = matrix.indptr[[2, 1]]
    scipy.sparse.save_npz("truth.npz", matrix)
    Path("lists.csv").write_text("user,item,rank\n0,0,1\n")
    files = ["--lists", "lists.csv", "--rank", "rank", "--metric", "ndcg@1"]
    assert main(["score", *files, "--truth", "truth.npz"]) == 2
    assert "truth.npz: is not a sparse matrix" in capsys.readouterr().err
    scipy.sparse.save_npz("truth.npz", scipy.sparse.csr_array(np.eye(4, 5)))
    scipy.sparse.save_npz("train.npz", matrix)
    assert main(["score", *files, "--truth", "truth.npz", "--train", "train.npz"]) == 2
    assert "train.npz: is not a sparse matrix" in capsys.readouterr().err
