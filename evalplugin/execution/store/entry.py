"""The format of a stored entry: a folder of files with a manifest, named by a hash of its inputs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from evalplugin.base.fingerprint import digest, file_digest
from evalplugin.base.secrets import redact_values

_FORMAT = 4  # raised when the contents of entries are written in another way
_MANIFEST = "manifest.json"

Files = Mapping[str, Callable[[BinaryIO], object]]  # name -> writer of the file


@dataclass(frozen=True)
class EntryInfo:
    """The facts about an entry: its manifest, and the time of its last use."""

    key: str
    step: str  # lists or scores; "damaged" where the manifest cannot be read
    about: str  # a description for people
    used: float  # seconds since 1970, the last time it was read or written
    size: int  # bytes


def key_of(depends_on: Mapping[str, Any]) -> str:
    """Return the key of an entry that depends on these plain values: 64 hexadecimal digits."""
    return digest({"format": _FORMAT, **depends_on})


def write_entry(folder: Path, about: str, depends_on: Mapping[str, Any], files: Files) -> int:
    """Write an entry in a new folder; return its size in bytes without the manifest, which has checksums of all files.

    Nothing waits for the disk: a system that fails before it has written all leaves an entry with wrong checksums.
    """
    folder.mkdir()
    for name, write in files.items():
        _write_file(folder / name, write)
    size = sum(file.stat().st_size for file in folder.iterdir())
    manifest = {
        "step": depends_on["step"],
        "about": about,
        "key": key_of(depends_on),
        "created": time.time(),
        "size": size,
        "depends_on": redact_values(depends_on),
        "files": _digests(folder),
    }
    _write_file(folder / _MANIFEST, lambda f: f.write(json.dumps(manifest, indent=1).encode()))
    return size


def used_now(folder: Path) -> None:
    """Set the time of an entry's last use."""
    os.utime(folder / _MANIFEST)


def read_info(folder: Path) -> EntryInfo | None:
    """Return the info of the entry in a folder; None if it was removed in the meantime."""
    try:
        used = (folder / _MANIFEST).stat().st_mtime
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        known = {name: manifest[name] for name in ("step", "about", "size")}
        return EntryInfo(folder.name, used=used, **known)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        when, size = folder.stat().st_mtime, sum(file.stat().st_size for file in folder.iterdir())
    except FileNotFoundError:
        return None
    return EntryInfo(folder.name, "damaged", "", when, size)


def is_intact(folder: Path) -> bool:
    """Return whether an entry has the files of its manifest, whole."""
    try:
        files: object = json.loads((folder / _MANIFEST).read_bytes())["files"]
        return files == _digests(folder)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """Return the checksums of all files of an entry, by name, without the manifest."""
    return {file.name: file_digest(file) for file in folder.iterdir() if file.name != _MANIFEST}


def _write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    with path.open("xb") as file:
        write(file)
