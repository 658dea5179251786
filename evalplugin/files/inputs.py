"""Inputs of a result beside data and config: files, folders, URIs and environment variables, with fingerprints.

An input is named by a text:

- ``/folder/file.csv``: a file, by its content, or that it is missing;
- ``/folder/``: a folder, by the names and contents of its files;
- ``glob:/folder/*.csv``: the names of the files that match a pattern;
- ``env:NAME``: the value of an environment variable;
- ``models:/name@alias``, ``https://...``, ``s3://...``: a URI, by what its store says about it;
- ``command:/folder git rev-parse HEAD``: a command that prints a version, run in a folder;
- ``program:/usr/bin/python``: a program that may read anything.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from evalplugin.base.errors import DataError
from evalplugin.base.fingerprint import file_digest
from evalplugin.files.uris import COMMAND, GLOB, PROGRAM, URI_SCHEMES, local_path, scheme_of

ENV = "env:"
CHANGED = "not known"  # instead of a fingerprint: it counts as changed
# Of a folder, so much is read; of the other files, name, size and time of the last change count.
_MAX_FILES, _MAX_BYTES = 10_000, 10 * 2**30
_MAX_PATH = 4096  # characters
_BYTECODE = "__pycache__"

Inputs = Mapping[str, str]  # name of an input -> fingerprint
Resolve = Callable[[str], str]  # URI -> fingerprint; raises DataError where it cannot be known
Signature = tuple[int, ...]  # changes with a file's content, as the file system reports it

_digests: dict[str, tuple[Signature, str]] = {}  # by path: a file is read once, until its signature changes


def command_input(words: Sequence[str], folder: Path) -> str:
    """Return the name of a command that prints a version and is run in a folder."""
    return f"{COMMAND}:/{shlex.join([os.path.abspath(folder)[1:], *words])}"


def program_input(program: str, folder: Path) -> str:
    """Return the input that stands for a program without a version: its folder, if that lies below ``folder``.

    Else the program itself, as results may be written to ``folder``, the working directory and the user's home.
    """
    place = os.path.dirname(os.path.realpath(program))
    homes = [os.path.realpath(home) for home in (folder, Path.cwd(), Path.home())]
    if Path(place).is_relative_to(homes[0]) and not any(Path(home).is_relative_to(place) for home in homes):
        return f"{place}/"
    return f"{PROGRAM}:{program}"


def folder_size(folder: str) -> tuple[int, int]:
    """Return how many files count when a folder is compared, and their bytes."""
    sizes = [signature[0] for path in _files_below(folder) if (signature := signature_of(path)) is not None]
    return len(sizes), sum(sizes)


def signature_of(path: str) -> Signature | None:
    """Return size, times and inode of a file; None unless it is a regular file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev


def inputs_named_in(value: object, folders: Sequence[Path]) -> Iterator[str]:
    """Yield the inputs that plain values name, nested ones and keys of mappings included.

    These are files, folders and patterns that exist relative to one of the folders, and URIs. A folder that holds the
    working directory or the user's home does not count: logging there would change it.
    """
    if isinstance(value, Mapping):
        for item in value.items():
            yield from inputs_named_in(item, folders)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from inputs_named_in(item, folders)
    elif isinstance(value, str) and 0 < len(value) < _MAX_PATH and "\0" not in value:
        scheme = scheme_of(value)
        if scheme == "file":
            with suppress(DataError):  # of another machine: reading it reports that
                yield from _paths_named(str(local_path(value)), folders[:1])
        elif scheme is not None:
            if scheme in URI_SCHEMES:
                yield value
        else:
            yield from _paths_named(value, folders)


def _paths_named(text: str, folders: Sequence[Path]) -> Iterator[str]:
    for folder in dict.fromkeys(os.path.abspath(folder) for folder in folders):
        path = os.path.abspath(os.path.join(folder, os.path.expanduser(text)))
        if os.path.isfile(path):
            yield path
        elif os.path.isdir(path):
            if not any(home.is_relative_to(path) for home in (Path.cwd(), Path.home())):
                yield f"{path}/"
        elif glob.has_magic(text):
            pattern = os.path.join(glob.escape(folder), os.path.expanduser(text))
            if files := _matching(pattern):
                yield f"{GLOB}{pattern}"
                yield from filter(os.path.isfile, files)


def _matching(pattern: str) -> list[str]:
    with suppress(OSError, re.error):
        paths = glob.glob(pattern, recursive=True, include_hidden=True)
        return sorted(
            path for path in paths if _BYTECODE not in Path(path).parts
        )  # written by Python on import
    return []


def fingerprint_of(name: str, resolve: Resolve) -> str:
    """Return the present fingerprint of an input, which differs when the input has changed.

    Raises:
        DataError: It is a URI, and whether it has changed cannot be known.
    """
    if name.startswith(ENV):
        value = os.environ.get(name.removeprefix(ENV))
        return "unset" if value is None else _digest(value.encode(errors="surrogateescape"))
    if name.startswith(GLOB):
        return _digest("\0".join(_matching(name.removeprefix(GLOB))).encode(errors="surrogateescape"))
    if scheme_of(name) is not None:
        return resolve(name)
    return _folder_digest(name) if name.endswith("/") else _file_digest(name)


def changed_input(recorded: Inputs, now: Inputs) -> str | None:
    """Return the name of the first input that differs from what was recorded; None if all are the same.

    Args:
        recorded: Fingerprints of that time.
        now: Present fingerprints; other inputs are looked up, but no URI of the record is asked for.
    """
    for name in {**recorded, **now}:
        was = recorded.get(name)
        if was in (None, CHANGED) or was != (now.get(name) or fingerprint_of(name, lambda uri: "")):
            return name
    return None


def _file_digest(path: str) -> str:
    signature = signature_of(path)
    if signature is None:
        return "a folder" if os.path.isdir(path) else "special" if os.path.exists(path) else "missing"
    known = _digests.get(path)
    if known is not None and known[0] == signature:
        return known[1]
    try:
        digest = file_digest(path)[:32]
    except OSError as error:
        return f"unreadable: {error.strerror}"
    if signature_of(path) == signature:
        _digests[path] = signature, digest
    return digest


def _folder_digest(folder: str) -> str:
    if not os.path.isdir(folder):
        return "missing"
    content, files, size = hashlib.sha256(), 0, 0
    for path in _files_below(folder):
        signature = signature_of(path)
        if signature is None:
            continue
        files, size = files + 1, size + signature[0]
        within = files <= _MAX_FILES and size <= _MAX_BYTES
        state = _file_digest(path) if within else signature[:2]
        content.update(f"{os.path.relpath(path, folder)}\0{state}\n".encode(errors="surrogateescape"))
    return content.hexdigest()[:32]


def _files_below(folder: str) -> Iterator[str]:
    """Yield the files of a folder and of those that are linked there, in a fixed order.

    Hidden folders and Python's caches do not count.
    """
    seen = {os.path.realpath(folder)}  # links may lead back
    for at, folders, names in os.walk(folder, followlinks=True):
        below = [f for f in sorted(folders) if not f.startswith(".") and f != _BYTECODE]
        real = {f: os.path.realpath(os.path.join(at, f)) for f in below}
        folders[:] = [f for f in below if real[f] not in seen]
        seen.update(real.values())
        yield from (os.path.join(at, name) for name in sorted(names))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]
