"""Scratch folders: removed after use, or by the next process where the one that made them was killed."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from evalplugin.base.errors import StoreError
from evalplugin.execution.store.permissions import file_mode, make_folder

__all__ = ["Scratch", "private_folder"]


class Scratch:
    """The scratch folders of this process below a root that several processes share."""

    def __init__(self, root: Path, locked: Callable[[], AbstractContextManager[object]]) -> None:
        """Use a folder that exists.

        Args:
            root: The folder.
            locked: Locks it while the folder of a process is made or removed.
        """
        self.root, self._locked = root, locked
        self._own: Path | None = None
        self._lock: FileLock | None = None

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a new empty folder with the permissions of the root; it is removed even if the process is killed.

        Raises:
            OSError: It cannot be created.
        """
        if self._own is None:
            with self._locked():
                own = self.root / f"{os.getpid()}-{secrets.token_hex(4)}"
                # The lock shows the next process whether this one still runs.
                self._lock = FileLock(f"{own}.lock", mode=file_mode(self.root))
                self._lock.acquire(timeout=0)
                make_folder(own)
                self._own = own
        folder = self._own / secrets.token_hex(4)
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder of this process."""
        if self._own is not None and self._lock is not None:
            shutil.rmtree(self._own, ignore_errors=True)
            self._lock.release()
            Path(self._lock.lock_file).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folders of processes that were killed."""
        for lock_file in self.root.glob("*.lock"):
            lock = FileLock(lock_file)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
            lock.release()
            lock_file.unlink(missing_ok=True)


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a scratch folder that no other user can write to, for what processes unpickle; removed as others are.

    It lies in the system's folder for temporary files, not in the store: whoever may write to a shared store could
    replace a folder there.

    Raises:
        StoreError: It cannot be created, or another user can write to the folder that it would be in.
    """
    elsewhere = "name another folder for temporary files by the environment variable TMPDIR"
    with ExitStack() as opened:
        root = Path(tempfile.gettempdir()) / (
            f"evalplugin-{os.getuid()}" if os.name == "posix" else "evalplugin"
        )
        try:
            root.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(root):
                raise StoreError(
                    f"the folder {root} is not yours alone, so that others could replace what worker processes "
                    f"read: remove it, or {elsewhere}"
                )
            if (open_to := next(filter(_can_be_renamed_in, root.resolve().parents), None)) is not None:
                raise StoreError(
                    f"others can write to {open_to}, and so replace what worker processes read in {root}: let each "
                    f"rename only what is his own (chmod +t {open_to}), or {elsewhere}"
                )
            lock = FileLock(root / "lock", mode=0o600)
            scratch = Scratch(root, lambda: lock)
            with lock:
                scratch.clear()
            opened.callback(scratch.close)
            folder = opened.enter_context(scratch.folder())
        except OSError as error:
            raise StoreError(f"cannot write to {root}: {error.strerror or error}; {elsewhere}") from None
        yield folder


def _is_private(folder: Path) -> bool:
    """Return whether a folder, and no link, belongs to this user, and no other user can write to it."""
    status = folder.lstat()
    if os.name != "posix":
        return stat.S_ISDIR(status.st_mode)  # the folder for temporary files is the user's own
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _can_be_renamed_in(folder: Path) -> bool:
    """Return whether other users may rename what is in a folder."""
    mode = folder.stat().st_mode
    return os.name == "posix" and bool(mode & 0o022) and not mode & stat.S_ISVTX
