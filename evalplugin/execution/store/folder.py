"""The store's folder: entries that several processes share, with locks, scratch folders and pruning."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from evalplugin.base.errors import DataError, StoreError
from evalplugin.base.units import bytes_of
from evalplugin.execution.store.entry import (
    EntryInfo,
    Files,
    is_intact,
    key_of,
    read_info,
    used_now,
    write_entry,
)
from evalplugin.execution.store.journal import LOCK_MODE, keys_in_use
from evalplugin.files.uris import is_remote

STORE = "EVALPLUGIN_STORE"  # environment variable with the folder
DEFAULT_PATH = ".evalplugin"
_MAX_SIZE = "10GB"
_LOCK_SECONDS = 60
_SCRATCH_SECONDS = 86_400
_FOLDERS = {"entries", "bakeoffs", "scratch"}
# Names that a folder may have before it is a complete store.
_ALLOWED = {*_FOLDERS, "lock", ".gitignore", ".gitkeep", ".DS_Store", "lost+found"}


def store_path(path: str | Path | None = None) -> Path:
    """Return the absolute path of the store: ``path``, else EVALPLUGIN_STORE, else ``.evalplugin``.

    Raises:
        DataError: It is a URI.
    """
    chosen = path or os.environ.get(STORE) or DEFAULT_PATH
    if is_remote(chosen):
        raise DataError(f"{chosen}: the store of cached results must be a folder of this machine, not a URI")
    return Path(chosen).expanduser().absolute()


class StoreView:
    """Read-only access to a store: nothing in its folder is made, locked or changed."""

    def __init__(self, path: Path) -> None:
        """Read from a folder, which need not exist."""
        self.path = path

    @property
    def exists(self) -> bool:
        """Whether the folder is a store."""
        return self._entries.is_dir() and not _foreign_files(self.path)

    @property
    def journals(self) -> Path:
        """The folder of the journals of bake-offs in progress."""
        return self.path / "bakeoffs"

    def folder_of(self, key: str) -> Path:
        """Return the folder of an entry, which need not exist."""
        return self._entries / key[:2] / key

    def entries(self) -> list[EntryInfo]:
        """Return the info of every entry, the one used last first."""
        infos = [read_info(folder) for folder in self._entries.glob("??/*") if folder.is_dir()]
        return sorted(filter(None, infos), key=lambda info: (-info.used, info.key))

    @property
    def _entries(self) -> Path:
        return self.path / "entries"


class Store(StoreView):
    """A folder of entries that several processes share.

    An entry is a folder that is written to scratch space and renamed, so that no process sees half of one. The
    checksums of its files are verified at each reading: a damaged entry is computed anew. Beyond ``max_size`` the least
    recently used entries are removed, but none of a bake-off in progress.
    """

    def __init__(
        self, path: Path, *, max_size: str = _MAX_SIZE, report: Callable[[str], None] = lambda text: None
    ) -> None:
        """Use a folder, which is created if it does not exist.

        All entries together may take ``max_size``, such as ``10GB``; ``report`` receives a line on each damaged one.

        Raises:
            StoreError: The folder cannot be created or written to, or has other contents than a store.
        """
        super().__init__(path)
        self.max_bytes, self.report = bytes_of(max_size, "max_size"), report
        self._total: int | None = None  # bytes of all entries, and of what this process has written since
        elsewhere = f"name another folder by the environment variable {STORE} or by store.path in the config"
        try:
            if foreign := _foreign_files(path):
                raise StoreError(
                    f"the folder {path} is not a store: it holds {', '.join(foreign[:3])}"
                    f"{' and more' * (len(foreign) > 3)}; {elsewhere}"
                )
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self._entries, self.journals, self._scratch):
                folder.mkdir(exist_ok=True)
            # A store does not belong in a repository.
            ignore = path / ".gitignore"
            if not ignore.exists() or not ignore.stat().st_size:  # the disk was full
                ignore.write_text("*\n", encoding="utf-8")
            self._lock = FileLock(path / "lock", timeout=_LOCK_SECONDS, mode=LOCK_MODE)
            self._clear_scratch()
        except OSError as error:
            raise StoreError(f"cannot use the store {path}: {error.strerror or error}; {elsewhere}") from None

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry whose checksums are right; None: it does not exist, or is damaged."""
        folder = self.folder_of(key)
        if not is_intact(folder):
            with self._locked():  # another process may have replaced it in the meantime
                if not is_intact(folder):
                    if folder.exists():
                        self.report(f"store: the entry {key[:12]} is damaged and is computed anew")
                    return None
        with suppress(OSError):
            used_now(folder)
        return folder

    def write(
        self, about: str, depends_on: Mapping[str, Any], files: Files, *, replace: bool = False
    ) -> bool:
        """Write an entry; return False if it exists already and was not replaced.

        Args:
            about: A description for people.
            depends_on: All that decides its contents, as plain values; its key is a hash of them. ``step`` is lists
                or scores.
            files: Their names and writers.
            replace: Whether to replace one that exists.
        """
        key = key_of(depends_on)
        with self.scratch() as scratch:
            size = write_entry(scratch / key, about, depends_on, files)
            folder = self.folder_of(key)
            with self._locked():
                if not replace and is_intact(folder):
                    return False
                if folder.exists():
                    folder.rename(scratch / "replaced")
                folder.parent.mkdir(exist_ok=True)
                (scratch / key).rename(folder)
        self._total = self._bytes() if self._total is None else self._total + size
        if self._total > self.max_bytes:
            self.prune(max_size=self.max_bytes, keep={key})
        return True

    def prune(
        self,
        *,
        max_size: int | None = None,
        older_than: float | None = None,
        keep: Collection[str] = (),
        dry_run: bool = False,
    ) -> list[EntryInfo]:
        """Remove entries that no bake-off in progress uses, and return their infos.

        Args:
            max_size: Bytes of all entries that may remain; the least recently used are removed first.
            older_than: Seconds since the last use, from which on entries are removed whatever the size.
            keep: Keys of entries that are not removed.
            dry_run: Remove nothing.
        """
        removed = []
        # All are renamed before the first is deleted: a reader finds an entry whole or not at all.
        with self.scratch() as away, self._locked():
            in_use, now, total = {*keep, *keys_in_use(self.journals)}, time.time(), self._bytes()
            for info in reversed(self.entries()):
                old = older_than is not None and now - info.used >= older_than
                if info.key not in in_use and (old or (max_size is not None and total > max_size)):
                    removed.append(info)
                    total -= info.size
                    if not dry_run:
                        self.folder_of(info.key).rename(away / info.key)
        if not dry_run:
            self._total = total
        return removed

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a new empty folder on the store's file system, which is removed afterwards.

        Raises:
            StoreError: It cannot be created.
        """
        folder = self._scratch / secrets.token_hex(8)
        try:
            folder.mkdir()
        except OSError as error:
            raise StoreError(f"cannot write to the store {self.path}: {error.strerror or error}") from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _clear_scratch(self) -> None:
        """Remove the scratch folders of processes that were killed: no entry takes a day to write."""
        for folder in self._scratch.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - folder.stat().st_mtime > _SCRATCH_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    @property
    def _scratch(self) -> Path:
        return self.path / "scratch"

    def _bytes(self) -> int:
        """Return the bytes of all entries."""
        return sum(info.size for info in self.entries())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the store while something is moved in or out."""
        try:
            self._lock.acquire()
        except Timeout:
            raise StoreError(
                f"the store {self.path} has been held by another process for {_LOCK_SECONDS} s "
                f"(its lock: {self._lock.lock_file})"
            ) from None
        try:
            yield
        finally:
            self._lock.release()


def _foreign_files(folder: Path) -> list[str]:
    """Return the foreign names in a folder; none for a complete store, whatever else is in it, or a new folder."""
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return []
    return [] if names >= _FOLDERS else sorted(names - _ALLOWED)
