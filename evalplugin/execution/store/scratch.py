"""A folder for the temporary files of a run, which no other user can write to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evalplugin.base.errors import StoreError


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
