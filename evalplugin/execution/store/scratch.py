"""A folder for the temporary files of a run, which no other user can write to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from evalplugin.base.errors import StoreError

_PREFIX = "evalplugin-run-"


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder of this user alone, for what processes unpickle; it is removed even if the process is killed.

    It lies in the system's folder for temporary files, not in the store: whoever may write to a shared store could
    replace a file there.

    Raises:
        StoreError: It cannot be created.
    """
    root = Path(tempfile.gettempdir())
    try:
        _clear(root)
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # Shows other processes that this one still runs.
        lock = FileLock(_lock_file(folder), timeout=0)
        lock.acquire()
    except (OSError, Timeout) as error:
        raise StoreError(
            f"cannot write to {root}: {getattr(error, 'strerror', None) or error}; name another folder for temporary "
            f"files by the environment variable TMPDIR"
        ) from None
    try:
        yield folder
    finally:
        _remove(folder, lock)


def _clear(root: Path) -> None:
    """Remove the folders of processes of this user that were killed."""
    for lock_file in root.glob(f"{_PREFIX}*.lock"):
        with suppress(OSError, Timeout):  # of another user, or in use
            lock = FileLock(lock_file, timeout=0)
            lock.acquire()
            _remove(lock_file.with_suffix(""), lock)


def _remove(folder: Path, lock: FileLock) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    _lock_file(folder).unlink(missing_ok=True)


def _lock_file(folder: Path) -> Path:
    return folder.with_suffix(".lock")
