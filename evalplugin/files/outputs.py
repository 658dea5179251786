"""Files to write that are read too: refused before anything is read."""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from evalplugin.base.errors import DataError
from evalplugin.files.remote import pattern_regex
from evalplugin.files.stores import canonical_uri, is_remote, local_path, refuse_credentials

__all__ = ["refuse_input"]


def refuse_input(target: str | Path, inputs: Iterable[object], inside: str = "*") -> None:
    """Refuse to write to a file that is an input, or that would be one: it would be replaced, or read the next time.

    Files are compared and not names: a relative path, a link and a URI of a file are the file. Nothing is connected to.

    Args:
        target: A path or a URI.
        inputs: Files, patterns, folders and URIs; others are ignored, such as tables.
        inside: Pattern of the names of files that are read of a folder.

    Raises:
        DataError: Names the input; or the target has credentials in it.
    """
    if is_remote(target):
        refuse_credentials(str(target))
    for name in inputs:
        if not isinstance(name, str | Path) or is_remote(name) != is_remote(target):
            continue
        if is_remote(target):
            is_same = _names(canonical_uri(str(name)), canonical_uri(str(target)), inside)
        else:
            is_same = _is_among(local_path(name).expanduser(), local_path(target), inside)
        if is_same:
            raise DataError(f"{target}: is read too, as {name}, and would be replaced: write to another file")


def _is_among(given: Path, target: Path, inside: str) -> bool:
    """Return whether a file is one of those of a path, or would be."""
    if _names(os.path.realpath(given), os.path.realpath(target), inside):
        return True
    if not target.exists():
        return False
    return any(os.path.samefile(file, target) for file in _files(given, inside))


def _files(given: Path, inside: str) -> Iterator[Path]:
    if given.is_dir():
        found: Iterable[Path] = given.rglob(inside)
    else:
        found = [given, *map(Path, glob.iglob(str(given), recursive=True))]
    yield from (file for file in found if file.is_file())


def _names(given: str, target: str, inside: str) -> bool:
    """Return whether a path or a URI names a file: itself, its folder, or a pattern."""
    if target == given:
        return True
    if target.startswith(f"{given.rstrip('/')}/"):
        return fnmatch.fnmatchcase(target.rpartition("/")[2], inside)
    return glob.has_magic(given) and re.fullmatch(pattern_regex(given), target) is not None
