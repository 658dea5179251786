"""Script: write crafted ``.npz`` files into a folder, and print what reading each of them says, as JSON.

A process of its own: SciPy's conversions of such matrices can end the process, or fill its memory.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from evalplugin.base.errors import DataError
from evalplugin.data.pair_formats import SparseMatrix

CSR: dict[str, Any] = {
    "format": b"csr",
    "shape": np.array([3, 4]),
    "data": np.ones(4),
    "indices": np.array([0, 3, 1, 2], np.int32),
    "indptr": np.array([0, 2, 3, 4], np.int32),
}
COO = {
    "format": b"coo",
    "shape": np.array([3, 4]),
    "data": np.ones(2),
    "row": np.array([0, 2], np.int32),
    "col": np.array([3, 1], np.int32),
}
INT = np.int32


def header(dtype: str, shape: str) -> bytes:
    """Return the header of an array that has no content."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def archive(arrays: dict[str, Any], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return an ``.npz`` file; bytes that begin as an array's file are written as they are."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression) as target:
        for name, value in arrays.items():
            own = io.BytesIO()
            if isinstance(value, bytes) and value.startswith((b"\x93NUMPY", b"raw")):
                own.write(value)
            else:
                np.save(own, np.asanyarray(value), allow_pickle=True)
            target.writestr(f"{name}.npy", own.getvalue())
    return content.getvalue()


def npy(array: Any) -> bytes:
    """Return an ``.npy`` file."""
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def encrypted(content: bytes) -> bytes:
    """Return an archive whose members are said to be encrypted."""
    changed = bytearray(content)
    for mark, offset in (b"PK\x03\x04", 6), (b"PK\x01\x02", 8):
        at = changed.find(mark)
        while at >= 0:
            changed[at + offset] |= 1
            at = changed.find(mark, at + 4)
    return bytes(changed)


GOOD = archive(CSR)
CASES: dict[str, bytes] = {
    "good csr": GOOD,
    "good csc": archive(CSR | {"format": "csc", "shape": [4, 3]}),
    "good coo": archive(COO),
    "good unsorted with a repeated cell": archive(CSR | {"indices": np.array([3, 0, 2, 2])}),
    "good big-endian": archive(CSR | {"indices": CSR["indices"].astype(">i4"), "data": np.ones(4, ">f4")}),
    "good empty": archive(COO | {"data": np.ones(0), "row": np.ones(0, INT), "col": np.ones(0, INT)}),
    "indptr descends": archive(CSR | {"indptr": np.array([0, 3, 2, 4], INT)}),
    "indptr descends, csc": archive(
        CSR | {"format": b"csc", "shape": [4, 3], "indptr": np.array([0, 3, 2, 4], INT)}
    ),
    "indptr far beyond": archive(CSR | {"indptr": np.array([0, 2**31 - 1, 3, 4], INT)}),
    "indptr below zero": archive(CSR | {"indptr": np.array([0, -5, 3, 4], INT)}),
    "indptr too short": archive(CSR | {"indptr": np.array([0, 4], INT)}),
    "indptr of floats": archive(CSR | {"indptr": np.array([0.0, 2.0, 3.0, 4.0])}),
    "index too high": archive(CSR | {"indices": np.array([0, 4, 1, 2], INT)}),
    "index below zero": archive(CSR | {"indices": np.array([0, -1, 1, 2], INT)}),
    "index wraps": archive(CSR | {"indices": np.array([0, 2**64 - 1, 1, 2], np.uint64)}),
    "row too high": archive(COO | {"row": np.array([0, 3], INT)}),
    "row below zero": archive(COO | {"row": np.array([0, -3], INT)}),
    "rows of floats": archive(COO | {"row": np.array([0.0, 1.0])}),
    "other lengths": archive(COO | {"data": np.ones(3)}),
    "data of objects": archive(CSR | {"data": np.array([1, "a", None, 2], object)}),
    "data of text": archive(CSR | {"data": np.array(["a", "b", "c", "d"])}),
    "data of complex": archive(CSR | {"data": np.ones(4, complex)}),
    "data of two dimensions": archive(CSR | {"data": np.ones((2, 2))}),
    "shape of floats": archive(CSR | {"shape": np.array([3.0, 4.0])}),
    "shape of nan": archive(CSR | {"shape": np.array([np.nan, 4.0])}),
    "shape below zero": archive(CSR | {"shape": np.array([-3, 4])}),
    "shape of three": archive(CSR | {"shape": np.array([3, 4, 5])}),
    "shape wraps": archive(CSR | {"shape": np.array([3, 2**64 - 1], np.uint64)}),
    "format of integers": archive(CSR | {"format": np.array(7)}),
    "format of two": archive(CSR | {"format": np.array(["csr", "csc"])}),
    "format unknown": archive(CSR | {"format": b"xyz"}),
    "bsr of block 0": archive(CSR | {"format": b"bsr", "data": np.ones((4, 0, 0))}),
    "dia": archive({"format": b"dia", "shape": [3, 4], "data": np.ones((1, 3)), "offsets": np.array([0])}),
    "no indptr": archive({name: value for name, value in CSR.items() if name != "indptr"}),
    "header of 8 TB": archive(CSR | {"data": header("<f8", "(1000000000000,)")}),
    "header below zero": archive(CSR | {"data": header("<f8", "(-1,)")}),
    "header of 10 ** 4000": archive(CSR | {"data": header("<f8", f"(1{'0' * 4000},)")}),
    "header nested": archive(CSR | {"data": header("<f8", "(" * 4000)}),
    "header not closed": archive(CSR | {"data": header("<f8", "(1")}),
    "header of no type": archive(CSR | {"data": header("what", "(1,)")}),
    "raw member": archive(CSR | {"data": b"raw bytes"}),
    "cut off": GOOD[: len(GOOD) // 2],
    "checksum": archive(CSR, zipfile.ZIP_STORED).replace(np.ones(4).tobytes(), np.zeros(4).tobytes()),
    "encrypted": encrypted(GOOD),
    "bomb": archive(CSR | {"data": np.zeros(2**26)}),
    "an array": npy(np.eye(3)),
    "text": b"user,item\n1,2\n",
    "nothing": b"",
}


def main(folder: Path) -> None:
    """Print the rows, or the error, of each file."""
    said: dict[str, Any] = {}
    for name, content in CASES.items():
        file = folder / f"{name}.npz"
        file.write_bytes(content)
        try:
            table = SparseMatrix().read(file, {"user": "user", "item": "item", "rating": "rating"})
            said[name] = [list(row.values()) for row in table.to_pylist()]
        except DataError as error:
            said[name] = str(error)
        except BaseException as error:  # noqa: BLE001 - of the code that is tested
            said[name] = f"{type(error).__name__}: {error}"
        file.unlink()
    sys.stdout.write(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
