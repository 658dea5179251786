"""Permissions in a store: everything in its folder has those of the folder, which a group may share."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path


def make_folder(path: Path) -> None:
    """Make a folder, if it does not exist, with the permissions of its parent."""
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        protect(path)


def protect(path: Path) -> None:
    """Give a new file or folder the permissions of its parent."""
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    with suppress(PermissionError):
        path.chmod(mode if path.is_dir() else mode & 0o666)


def file_mode(folder: Path) -> int:
    """Return the permissions of the files in a folder: the folder's own without the right to search."""
    return stat.S_IMODE(folder.stat().st_mode) & 0o666
