"""Permissions in a store: its folder is its owner's, or shared with a group, and what is in it has the same."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["file_mode", "make_folder", "make_store_folder", "protect"]


def make_store_folder(path: Path) -> None:
    """Make a store's folder for its owner alone, whatever the umask; take the rights of others from one that exists.

    A folder that its group may write to is shared with this group, and stays so.
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
    """Make a folder, if there is none, with the permissions of the one that it is in."""
    if not path.is_dir():
        path.mkdir(exist_ok=True)
        protect(path)


def protect(path: Path) -> None:
    """Give a file or folder that was just made the permissions of the folder that it is in."""
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    with suppress(PermissionError):
        path.chmod(mode if path.is_dir() else mode & 0o666)


def file_mode(folder: Path) -> int:
    """Return the permissions of the files in a folder: its own, without those to search it."""
    return stat.S_IMODE(folder.stat().st_mode) & 0o666
