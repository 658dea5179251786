"""Permissions in a store: its folder is private or shared with a group, and everything in it has the same."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


def make_store_folder(path: Path) -> None:
    """Make a store's folder private, whatever the umask; remove the rights of others from one that exists.

    A folder that its group may write to stays shared with this group.
    """
    if not path.exists():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o700)
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    wanted = mode & ~(0o007 if mode & stat.S_IWGRP else 0o077)
    if wanted != mode and os.name == "posix":
        with suppress(PermissionError):  # the folder of another user, who has shared it
            path.chmod(wanted)


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
