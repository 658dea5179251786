"""The store: finished steps of bake-offs on disk, each under a hash of all it depends on."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from evalplugin.base.errors import StoreError, UnknownNameError
from evalplugin.base.secrets import redact_values
from evalplugin.base.units import bytes_of
from evalplugin.execution.store.journal import keys_in_use

__all__ = [
    "DEFAULT_PATH",
    "FORMAT",
    "MAX_SIZE",
    "STORE",
    "EntryInfo",
    "Store",
    "StoreView",
    "key_of",
    "store_path",
]

FORMAT = 2  # raised when what an entry holds is written in another way
STORE = "EVALPLUGIN_STORE"  # environment variable with the folder
DEFAULT_PATH = ".evalplugin"
MAX_SIZE = "10GB"
_MANIFEST, _SUMS = "manifest.json", "SHA256SUMS"
_LOCK_SECONDS = 60
_FOLDERS = {"entries", "bakeoffs", "scratch"}
# What a folder may hold in which a store was only begun, or is to be begun.
_HARMLESS = {*_FOLDERS, "lock", ".gitignore", ".gitkeep", ".DS_Store", "lost+found"}

Files = Mapping[str, Callable[[BinaryIO], object]]  # name -> what writes the file


@dataclass(frozen=True)
class EntryInfo:
    """What is known of an entry without reading it."""

    key: str
    step: str  # folds, lists or scores; "damaged" where the manifest cannot be read
    about: str  # what it is, in words
    created: float  # seconds since 1970
    used: float  # seconds since 1970, the last time it was read or written
    size: int  # bytes
    depends_on: Mapping[str, Any] = field(default_factory=dict)


def key_of(depends_on: Mapping[str, Any]) -> str:
    """Return the key of what depends on these plain values: 64 hexadecimal digits."""
    text = json.dumps({"format": FORMAT, **depends_on}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def store_path(path: str | Path | None = None) -> Path:
    """Return the folder of the store: the one given, EVALPLUGIN_STORE, or else ``.evalplugin``; absolute."""
    return Path(path or os.environ.get(STORE) or DEFAULT_PATH).expanduser().absolute()


class StoreView:
    """What a folder of entries holds, for looking only: nothing in it is made, locked or changed."""

    def __init__(self, path: Path) -> None:
        """Look at a folder, which need not be there."""
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
        """Return where an entry is, or would be."""
        return self._entries / key[:2] / key

    def is_intact(self, key: str) -> bool:
        """Return whether the checksums of an entry are right."""
        return _is_intact(self.folder_of(key))

    def entries(self) -> list[EntryInfo]:
        """Return what is known of every entry, the one used last first."""
        found = [_facts(folder) for folder in self._entries.glob("??/*") if folder.is_dir()]
        return sorted((f for f in found if f is not None), key=lambda f: (-f.used, f.key))

    def entry(self, key: str) -> EntryInfo:
        """Return what is known of the entry whose key begins so.

        Raises:
            UnknownNameError: There is none, or there are several.
        """
        found = [facts for facts in self.entries() if facts.key.startswith(key)]
        if len(found) != 1:
            several = ", ".join(f.key[:16] for f in found[:5])
            raise UnknownNameError(
                f"{self.path}: {len(found)} entries begin with {key!r}: {several}; give more of the key"
                if found
                else f"{self.path}: no entry begins with {key!r}; see: evalplugin cache list"
            )
        return found[0]

    @property
    def _entries(self) -> Path:
        return self.path / "entries"


class Store(StoreView):
    """A folder of entries that several processes share.

    An entry is a folder that is written beside and renamed into its place, so that it is there whole or not at all.
    ``SHA256SUMS`` in it holds the checksum of every file and is verified at each reading (``sha256sum -c`` reads it
    too): what is damaged is removed, and is to be computed anew. Beyond ``max_size`` the entries that were not used
    for the longest time go, but none of a bake-off in progress.
    """

    def __init__(
        self, path: Path, *, max_size: str = MAX_SIZE, report: Callable[[str], None] = lambda text: None
    ) -> None:
        """Use a folder, made if need be.

        Args:
            path: The folder.
            max_size: How large all entries may be together, such as ``10GB``.
            report: Is told of each entry that is damaged.

        Raises:
            StoreError: The folder cannot be made or written to, or holds something else than a store.
        """
        super().__init__(path)
        self.max_bytes, self.report = bytes_of(max_size, "max_size"), report
        self._total: int | None = (
            None  # bytes of all entries, as far as this process knows; None: not counted yet
        )
        self._own_scratch: Path | None = None
        self._scratch_lock: FileLock | None = None
        elsewhere = f"name another folder by the environment variable {STORE} or by store.path in the config"
        try:
            if strangers := _foreign_files(path):
                raise StoreError(
                    f"the folder {path} is no store: it holds {', '.join(strangers[:3])}"
                    f"{' and more' * (len(strangers) > 3)}; {elsewhere}"
                )
            for folder in (self._entries, self.journals, self._scratch):
                folder.mkdir(parents=True, exist_ok=True)
            # Never meant for a repository.
            ignore = path / ".gitignore"
            if not ignore.exists() or not ignore.stat().st_size:  # the disk was full
                ignore.write_text("*\n", encoding="utf-8")
            self._lock = FileLock(path / "lock", timeout=_LOCK_SECONDS)
            with self._locked():
                self._clear_scratch()
        except OSError as error:
            raise StoreError(f"cannot use the store {path}: {error.strerror or error}; {elsewhere}") from None

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry whose checksums are right; None: there is none, or there is none any more."""
        folder = self.folder_of(key)
        if not os.path.lexists(folder):
            return None
        if not _is_intact(folder):
            try:
                with self._locked():
                    # Another process may have removed it or put it right in between.
                    if not os.path.lexists(folder):
                        return None
                    if not _is_intact(folder):
                        self._remove(folder)
                        self.report(
                            f"store: the entry {key[:12]} was damaged; it is removed and computed anew"
                        )
                        return None
            except (OSError, StoreError) as error:
                self.report(f"store: the entry {key[:12]} is damaged and cannot be removed: {error}")
                return None
        with suppress(OSError):
            os.utime(folder / _SUMS)  # the time of its last use
        return folder

    def write(
        self, step: str, about: str, depends_on: Mapping[str, Any], files: Files, *, replace: bool = False
    ) -> bool:
        """Write an entry; return False if there was one already, which stays unless ``replace``.

        Args:
            step: What kind of step it is the result of.
            about: What it is, in words.
            depends_on: Everything it depends on, plain values: its key is a hash of them.
            files: Writers of its files by name.
            replace: Whether to take the place of an entry that is there.
        """
        key = key_of(depends_on)
        with self.scratch() as beside:
            entry = beside / key
            entry.mkdir()
            for name, write in files.items():
                _write_file(entry / name, write)
            size = sum(file.stat().st_size for file in entry.iterdir())
            manifest = {
                "step": step,
                "about": about,
                "key": key,
                "created": time.time(),
                "size": size,
                "depends_on": redact_values(depends_on),
            }
            _write_file(entry / _MANIFEST, lambda f: f.write(json.dumps(manifest, indent=1).encode()))
            sums = _sums(entry)
            _write_file(entry / _SUMS, lambda f: f.write(sums.encode()))
            _sync(entry)
            folder = self.folder_of(key)
            with self._locked():
                if not replace and _is_intact(folder):
                    return False
                self._remove(folder)
                folder.parent.mkdir(exist_ok=True)
                entry.rename(folder)
                _sync(folder.parent)
        if self._total is not None:
            self._total += size
        if self._total is None or self._total > self.max_bytes:
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
        """Remove entries and return what they were; those of a bake-off in progress and those used just now stay.

        Args:
            max_size: Bytes that may stay; what was not used for the longest time goes first.
            older_than: Seconds; what was used since stays, apart from that.
            keep: Keys that stay.
            dry_run: Remove nothing.
        """
        entries, now = self.entries(), time.time()
        total = sum(facts.size for facts in entries)
        kept = {*keep, *keys_in_use(self.journals)}
        going = []
        for facts in reversed(entries):
            old = older_than is not None and now - facts.used >= older_than
            if facts.key not in kept and (old or (max_size is not None and total > max_size)):
                going.append(facts)
                total -= facts.size
        if dry_run:
            return going
        gone = self._remove_unused(going) if going else []
        self._total = sum(facts.size for facts in entries) - sum(facts.size for facts in gone)
        return gone

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield a new empty folder on the store's file system, removed afterwards, whatever ends the process.

        Raises:
            StoreError: It cannot be made.
        """
        try:
            folder = self._new_scratch()
        except OSError as error:
            raise StoreError(f"cannot write to the store {self.path}: {error.strerror or error}") from None
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def _scratch(self) -> Path:
        return self.path / "scratch"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the store, for as long as something is moved in or out."""
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

    def _new_scratch(self) -> Path:
        if self._own_scratch is None:
            with self._locked():
                own = self._scratch / f"{os.getpid()}-{secrets.token_hex(4)}"
                # The next one who uses the store sees by the lock whether this process is still there.
                self._scratch_lock = FileLock(f"{own}.lock")
                self._scratch_lock.acquire(timeout=0)
                own.mkdir()
                self._own_scratch = own
        folder = self._own_scratch / secrets.token_hex(4)
        folder.mkdir()
        return folder

    def _remove(self, folder: Path) -> None:
        # Out of sight at once: a reader sees an entry whole or not at all.
        with self.scratch() as away, suppress(FileNotFoundError):
            folder.rename(away / folder.name)

    def _remove_unused(self, going: Sequence[EntryInfo]) -> list[EntryInfo]:
        """Remove entries, but for those that were used since their facts were read; return which were removed."""
        gone = []
        # All are out of sight before the first is deleted, which may take its time and needs no lock.
        with self.scratch() as away, self._locked():
            kept = keys_in_use(self.journals)
            for facts in going:
                folder = self.folder_of(facts.key)
                latest = _facts(folder)
                if facts.key in kept or (latest is not None and latest.used > facts.used):
                    continue
                with suppress(FileNotFoundError):  # another process was faster
                    folder.rename(away / folder.name)
                gone.append(facts)
        return gone

    def _clear_scratch(self) -> None:
        """Remove what processes have left that were killed."""
        for lock_file in self._scratch.glob("*.lock"):
            lock = FileLock(lock_file)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            shutil.rmtree(lock_file.with_suffix(""), ignore_errors=True)
            lock.release()
            lock_file.unlink(missing_ok=True)


def _write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with path.open("xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Bring the names in a folder to disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sums(folder: Path) -> str:
    """Return the checksums of all files of an entry, as ``sha256sum`` writes them."""
    lines = []
    for file in sorted(folder.iterdir()):
        if file.name != _SUMS:
            with file.open("rb") as stream:
                lines.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {file.name}\n")
    return "".join(lines)


def _is_intact(folder: Path) -> bool:
    # Compared as a whole: a file too many or too few is damage too, and so is a wrong byte in the sums themselves.
    try:
        return (folder / _SUMS).read_bytes() == _sums(folder).encode()
    except OSError:
        return False


def _facts(folder: Path) -> EntryInfo | None:
    try:
        used = (folder / _SUMS).stat().st_mtime
        m = json.loads((folder / _MANIFEST).read_bytes())
        return EntryInfo(folder.name, m["step"], m["about"], m["created"], used, m["size"], m["depends_on"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        files = [file.lstat() for file in folder.glob("*")]
        when = max(s.st_mtime for s in (folder.stat(), *files))
    except FileNotFoundError:
        return None  # it was removed just now
    return EntryInfo(folder.name, "damaged", "", when, when, sum(s.st_size for s in files))


def _foreign_files(folder: Path) -> list[str]:
    """Return what a folder holds that is no store; nothing of a store, whatever else is in it, or of a new folder."""
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return []
    return [] if names >= _FOLDERS else sorted(names - _HARMLESS)
