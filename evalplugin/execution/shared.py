"""Files that processes of a machine share: a private folder for them, and values mapped into the memory of each."""

from __future__ import annotations

import mmap
import pickle
import tempfile
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from evalplugin.base.errors import StoreError

_ALIGNED = 64  # bytes: where parts begin, for the fastest instructions


def write_value(value: object, file: Path) -> None:
    """Write a value that can be pickled: the number of parts and their sizes, its pickle, and the arrays in it.

    Raises:
        OSError: It cannot be written.
    """
    arrays: list[pickle.PickleBuffer] = []
    pickled = memoryview(pickle.dumps(value, protocol=5, buffer_callback=arrays.append))
    parts = [pickled, *(buffer.raw() for buffer in arrays)]
    sizes = array("q", [len(parts), *(part.nbytes for part in parts)])
    with file.open("wb") as out:
        out.write(sizes)
        for part in parts:
            out.write(bytes(-out.tell() % _ALIGNED))
            out.write(part)


def read_value(file: Path) -> Any:
    """Return a value that ``write_value`` has written; its arrays are read-only and in the mapped file."""
    with file.open("rb") as opened:
        mapped = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    (count,) = mapped[:8].cast("q")
    sizes = mapped[8 : 8 * (count + 1)].cast("q")
    ends = accumulate(sizes, lambda end, size: end + -end % _ALIGNED + size, initial=8 * (count + 1))
    pickled, *arrays = (mapped[end - size : end] for size, end in zip(sizes, list(ends)[1:], strict=True))
    return pickle.loads(pickled, buffers=arrays)  # our own process wrote it


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder of this user alone, for what processes unpickle; it is removed at the end.

    It lies in the system's folder for temporary files, not in the store: whoever may write to a shared store could
    replace a file there.

    Raises:
        StoreError: It cannot be created.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="evalplugin-run-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StoreError(
            f"cannot write to {tempfile.gettempdir()}: {error.strerror or error}; name another folder for temporary "
            f"files by the environment variable TMPDIR"
        ) from None
    with folder as name:
        yield Path(name)
