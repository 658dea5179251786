"""The format of a stored entry: a folder of files with a manifest and checksums, named by a hash of its inputs."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from evalplugin.base.fingerprint import digest
from evalplugin.base.secrets import redact_values
from evalplugin.execution.store.permissions import make_folder, protect
from evalplugin.files.inputs import Inputs

_FORMAT = 2  # raised when the contents of entries are written in another way
_MANIFEST, _SUMS = "manifest.json", "SHA256SUMS"

Files = Mapping[str, Callable[[BinaryIO], object]]  # name -> writer of the file


@dataclass(frozen=True)
class EntryInfo:
    """The facts about an entry, known without reading its files."""

    key: str
    step: str  # folds, lists or scores; "damaged" where the manifest cannot be read
    about: str  # a description for people
    created: float  # seconds since 1970
    used: float  # seconds since 1970, the last time it was read or written
    size: int  # bytes
    depends_on: Mapping[str, Any] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=dict)  # what else it depends on, compared before it is used


@dataclass(frozen=True)
class NewEntry:
    """An entry to be written."""

    step: str  # folds, lists or scores
    about: str  # a description for people
    # Everything that decides its contents, as plain values; its key is a hash of them.
    depends_on: Mapping[str, Any]
    files: Files
    inputs: Inputs = field(default_factory=dict)  # what else it depends on, compared before it is used

    @property
    def key(self) -> str:
        """The key under which it is stored."""
        return key_of(self.depends_on)


def key_of(depends_on: Mapping[str, Any]) -> str:
    """Return the key of an entry that depends on these plain values: 64 hexadecimal digits."""
    return digest({"format": _FORMAT, **depends_on})


def write_entry(folder: Path, entry: NewEntry) -> int:
    """Write an entry in a new folder; return its size in bytes without manifest and checksums.

    Nothing waits for the disk: a system that fails before it has written all leaves an entry with wrong checksums.
    """
    make_folder(folder)
    for name, write in entry.files.items():
        _write_file(folder / name, write)
    size = sum(file.stat().st_size for file in folder.iterdir())
    manifest = {
        "step": entry.step,
        "about": entry.about,
        "key": entry.key,
        "created": time.time(),
        "size": size,
        "depends_on": redact_values(entry.depends_on),
        "inputs": dict(entry.inputs),
    }
    _write_file(folder / _MANIFEST, lambda f: f.write(json.dumps(manifest, indent=1).encode()))
    sums = _sums(folder)
    _write_file(folder / _SUMS, lambda f: f.write(sums.encode()))
    return size


def used_now(folder: Path) -> None:
    """Set the time of an entry's last use."""
    os.utime(folder / _SUMS)


def read_info(folder: Path) -> EntryInfo | None:
    """Return the info of the entry in a folder; None if it was removed in the meantime."""
    try:
        used = (folder / _SUMS).stat().st_mtime
        manifest = {"inputs": {}, **json.loads((folder / _MANIFEST).read_bytes())}
        known = {
            name: manifest[name] for name in ("step", "about", "created", "size", "depends_on", "inputs")
        }
        return EntryInfo(folder.name, used=used, **known)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        files = [file.lstat() for file in folder.glob("*")]
        when = max(s.st_mtime for s in (folder.stat(), *files))
    except FileNotFoundError:
        return None
    return EntryInfo(folder.name, "damaged", "", when, when, sum(s.st_size for s in files))


def is_intact(folder: Path) -> bool:
    """Return whether the checksums of an entry are right."""
    # Compared as a whole: an extra or missing file is damage too, and so is a wrong byte in the checksums. So are
    # empty checksums alone, which a power failure may leave.
    try:
        return (folder / _SUMS).read_bytes() == _sums(folder).encode() != b""
    except OSError:
        return False


def _sums(folder: Path) -> str:
    """Return the checksums of all files of an entry, as ``sha256sum`` writes them."""
    lines = []
    for file in sorted(folder.iterdir()):
        if file.name != _SUMS:
            with file.open("rb") as stream:
                lines.append(f"{hashlib.file_digest(stream, 'sha256').hexdigest()}  {file.name}\n")
    return "".join(lines)


def _write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with path.open("xb") as file:
        write(file)
    protect(path)
