"""Scratch folders: removed after use, or by the next process where the one that made them was killed."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from evalplugin.base.errors import StoreError
from evalplugin.execution.store.permissions import file_mode, make_folder


def scratch_folder(
    root: Path, locked: Callable[[], AbstractContextManager[object]]
) -> AbstractContextManager[Path]:
    """Return a new empty folder with the permissions of the root; it is removed even if the process is killed.

    The root exists, and several processes share it; ``locked`` locks it while the folder is made.

    Raises:
        OSError: It cannot be created.
    """
    folder = root / f"{os.getpid()}-{secrets.token_hex(4)}"
    # Shows other processes whether this one still runs.
    lock = FileLock(f"{folder}.lock", mode=file_mode(root))
    with locked():
        lock.acquire(timeout=0)
        make_folder(folder)
    return _removed_after(folder, lock)


@contextmanager
def _removed_after(folder: Path, lock: FileLock) -> Iterator[Path]:
    try:
        yield folder
    finally:
        _remove(folder, lock)


def clear_scratch(root: Path) -> None:
    """Remove the folders of processes that were killed; the caller has locked the root."""
    for lock_file in root.glob("*.lock"):
        lock = FileLock(lock_file)
        with suppress(Timeout):
            lock.acquire(timeout=0)
            _remove(lock_file.with_suffix(""), lock)


def _remove(folder: Path, lock: FileLock) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lock.release()
    Path(lock.lock_file).unlink(missing_ok=True)


def private_folder() -> AbstractContextManager[Path]:
    """Return a scratch folder that no other user can write to, for what processes unpickle; removed as others are.

    It lies in the system's folder for temporary files, not in the store: whoever may write to a shared store could
    replace a folder there.

    Raises:
        StoreError: It cannot be created, or another user can write to the folder that it would be in.
    """
    elsewhere = "name another folder for temporary files by the environment variable TMPDIR"
    root = Path(tempfile.gettempdir()) / (f"evalplugin-{os.getuid()}" if os.name == "posix" else "evalplugin")
    try:
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.lstat()  # of the folder, and no link
        is_private = stat.S_ISDIR(status.st_mode)
        if os.name == "posix":  # elsewhere the folder for temporary files is the user's own
            is_private &= status.st_uid == os.getuid() and not status.st_mode & 0o022
        if not is_private:
            raise StoreError(
                f"the folder {root} is not yours alone, so that others could replace what worker processes "
                f"read: remove it, or {elsewhere}"
            )
        if (open_to := next(filter(_can_be_renamed_in, root.resolve().parents), None)) is not None:
            raise StoreError(
                f"others can write to {open_to}, and so replace what worker processes read in {root}: let users "
                f"rename only their own files there (chmod +t {open_to}), or {elsewhere}"
            )
        lock = FileLock(root / "lock", mode=0o600)
        with lock:
            clear_scratch(root)
        return scratch_folder(root, lambda: lock)
    except OSError as error:
        raise StoreError(f"cannot write to {root}: {error.strerror or error}; {elsewhere}") from None


def _can_be_renamed_in(folder: Path) -> bool:
    """Return whether other users may rename the contents of a folder."""
    mode = folder.stat().st_mode
    return os.name == "posix" and bool(mode & 0o022) and not mode & stat.S_ISVTX
