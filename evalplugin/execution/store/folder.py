"""The store's folder: entries that several processes share, with locks, scratch folders and pruning."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from evalplugin.base.errors import DataError, StoreError, UnknownNameError
from evalplugin.base.units import bytes_of
from evalplugin.execution.store.entry import (
    EntryInfo,
    NewEntry,
    is_intact,
    read_info,
    used_now,
    write_entry,
)
from evalplugin.execution.store.journal import keys_in_use
from evalplugin.execution.store.permissions import file_mode, make_folder, make_store_folder, protect
from evalplugin.execution.store.scratch import clear_scratch, scratch_folder
from evalplugin.files.inputs import Inputs
from evalplugin.files.uris import is_remote

STORE = "EVALPLUGIN_STORE"  # environment variable with the folder
DEFAULT_PATH = ".evalplugin"
_MAX_SIZE = "10GB"
_LOCK_SECONDS = 60
_FOLDERS = {"entries", "bakeoffs", "scratch"}
# Names that a folder may have before it is a complete store.
_ALLOWED = {*_FOLDERS, "lock", "size", ".gitignore", ".gitkeep", ".DS_Store", "lost+found"}


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

    def is_intact(self, key: str) -> bool:
        """Return whether the checksums of an entry are right."""
        return is_intact(self.folder_of(key))

    def inputs_of(self, key: str) -> Inputs | None:
        """Return the inputs of an entry; None if it does not exist."""
        info = read_info(self.folder_of(key))
        return None if info is None else info.inputs

    def entries(self) -> list[EntryInfo]:
        """Return the info of every entry, the one used last first."""
        infos = [read_info(folder) for folder in self._entries.glob("??/*") if folder.is_dir()]
        return sorted(filter(None, infos), key=lambda info: (-info.used, info.key))

    def entry(self, key: str) -> EntryInfo:
        """Return the info of the entry whose key begins with ``key``.

        Raises:
            UnknownNameError: No entry or several entries do.
        """
        matching = [info for info in self.entries() if info.key.startswith(key)]
        if not matching:
            raise UnknownNameError(f"{self.path}: no entry begins with {key!r}; see: evalplugin cache list")
        if len(matching) > 1:
            several = ", ".join(info.key[:16] for info in matching[:5])
            raise UnknownNameError(
                f"{self.path}: {len(matching)} entries begin with {key!r}: {several}; give more of the key"
            )
        return matching[0]

    @property
    def _entries(self) -> Path:
        return self.path / "entries"


class Store(StoreView):
    """A folder of entries that several processes share.

    An entry is a folder that is written to scratch space and renamed, so that no process sees half of one.
    Its file ``SHA256SUMS`` holds the checksum of every file, is verified at each reading, and is in the format of
    ``sha256sum -c``: a damaged entry is removed, to be computed anew. Beyond ``max_size`` the least recently used
    entries are removed, but none of a bake-off in progress.
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
        elsewhere = f"name another folder by the environment variable {STORE} or by store.path in the config"
        try:
            if foreign := _foreign_files(path):
                raise StoreError(
                    f"the folder {path} is not a store: it holds {', '.join(foreign[:3])}"
                    f"{' and more' * (len(foreign) > 3)}; {elsewhere}"
                )
            make_store_folder(path)
            for folder in (self._entries, self.journals, self._scratch):
                make_folder(folder)
            # A store does not belong in a repository.
            ignore = path / ".gitignore"
            if not ignore.exists() or not ignore.stat().st_size:  # the disk was full
                ignore.write_text("*\n", encoding="utf-8")
                protect(ignore)
            self._lock = FileLock(path / "lock", timeout=_LOCK_SECONDS, mode=file_mode(path))
            with self._locked():
                clear_scratch(self._scratch)
        except OSError as error:
            raise StoreError(f"cannot use the store {path}: {error.strerror or error}; {elsewhere}") from None

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry whose checksums are right; None: it does not exist, or was damaged."""
        folder = self.folder_of(key)
        if not os.path.lexists(folder):
            return None
        if not is_intact(folder):
            try:
                with self._locked():
                    # Another process may have removed or replaced it in the meantime.
                    if not is_intact(folder):
                        if os.path.lexists(folder):
                            self._remove(folder)
                            self.report(
                                f"store: the entry {key[:12]} was damaged; it is removed and computed anew"
                            )
                        return None
            except (OSError, StoreError) as error:
                self.report(f"store: the entry {key[:12]} is damaged and cannot be removed: {error}")
                return None
        with suppress(OSError):
            used_now(folder)
        return folder

    def write(self, entry: NewEntry, *, replace: bool = False) -> bool:
        """Write an entry; return False if it exists already, with the same inputs, and was not replaced."""
        key = entry.key
        with self.scratch() as scratch:
            size = write_entry(scratch / key, entry)
            folder = self.folder_of(key)
            with self._locked():
                if not replace and is_intact(folder) and self.inputs_of(key) == entry.inputs:
                    return False
                if os.path.lexists(folder):
                    self._remove(folder)
                total = self._total
                if total is not None:
                    total += size
                    self._write_total(total)
                make_folder(folder.parent)
                (scratch / key).rename(folder)
        if total is None or total > self.max_bytes:
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
        before = self._total
        entries, now = self.entries(), time.time()
        total = counted = sum(info.size for info in entries)
        in_use = {*keep, *keys_in_use(self.journals)}
        unused = []
        for info in reversed(entries):
            old = older_than is not None and now - info.used >= older_than
            if info.key not in in_use and (old or (max_size is not None and total > max_size)):
                unused.append(info)
                total -= info.size
        if dry_run:
            return unused
        removed = []
        # All are renamed before the first is deleted, which may take a while and needs no lock.
        with self.scratch() as away, self._locked():
            in_use = keys_in_use(self.journals)
            for info in unused:
                folder = self.folder_of(info.key)
                latest = read_info(folder)
                if info.key in in_use or (latest is not None and latest.used > info.used):
                    continue  # it was used since its info was read
                with suppress(FileNotFoundError):  # another process was faster
                    folder.rename(away / folder.name)
                removed.append(info)
            written = (self._total or 0) - (before or 0)  # by other processes, since the entries were counted
            self._write_total(counted - sum(info.size for info in removed) + max(0, written))
        return removed

    def scratch(self) -> AbstractContextManager[Path]:
        """Return a new empty folder on the store's file system; it is removed even if the process is killed.

        Raises:
            StoreError: It cannot be created.
        """
        try:
            return scratch_folder(self._scratch, self._locked)
        except OSError as error:
            raise StoreError(f"cannot write to the store {self.path}: {error.strerror or error}") from None

    @property
    def _scratch(self) -> Path:
        return self.path / "scratch"

    @property
    def _total(self) -> int | None:
        """The bytes of all entries, or more where some were removed; None: they have to be counted."""
        # Kept in a file: to count them takes the longer, the more bake-offs there were before.
        try:
            return int((self.path / "size").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _write_total(self, total: int) -> None:
        (self.path / "size").write_text(f"{total}\n", encoding="ascii")
        protect(self.path / "size")

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

    def _remove(self, folder: Path) -> None:
        # Renamed, then deleted: a reader finds an entry whole or not at all.
        with self.scratch() as away, suppress(FileNotFoundError):
            folder.rename(away / folder.name)


def _foreign_files(folder: Path) -> list[str]:
    """Return the foreign names in a folder; none for a complete store, whatever else is in it, or a new folder."""
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return []
    return [] if names >= _FOLDERS else sorted(names - _ALLOWED)
