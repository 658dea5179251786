"""Files to write: refused where they are read too or cannot be written, and written whole or not at all."""

from __future__ import annotations

import fnmatch
import glob
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import fs, pa
from evalplugin.files.remote import matches_pattern, store_errors
from evalplugin.files.stores import FileStore, no_bucket, store_of
from evalplugin.files.uris import canonical_uri, is_remote, local_path, refuse_credentials

_TABLES = (".parquet", ".csv")  # endings


@contextmanager
def open_output(target: str | Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to; it appears under its name when all is written, or not at all after an error.

    A file of a store is written to a temporary file of this machine first.

    Raises:
        OSError: It cannot be written on this machine.
        DataError: The store refuses or cannot be reached.
    """
    if not is_remote(target):
        with written_whole(local_path(target)) as file:
            yield file
        return
    uri = str(target)
    store = store_of(uri)
    with tempfile.NamedTemporaryFile(prefix="evalplugin-") as file:
        yield file
        file.flush()
        with store_errors(uri):
            _upload(store, file.name, store.path_of(uri))


@contextmanager
def open_table(target: str | Path) -> Iterator[tuple[IO[bytes], bool]]:
    """Yield a file for a table, like ``open_output``, and whether its suffix is that of Parquet; it is CSV otherwise.

    Raises:
        DataError: It cannot be written.
    """
    try:
        with open_output(target) as file:
            yield file, PurePath(target).suffix.casefold() == ".parquet"
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror or error}") from None


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that replaces the one at ``path`` when all is written, and is removed after an error.

    It is written beside its place. Devices and pipes are written to directly.
    """
    if path.exists() and not path.is_file():  # such as /dev/stdout
        with path.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(path))  # a link stays one
    partial = target.with_name(_partial_name(target.name))
    try:
        with partial.open("wb") as file:
            yield file
        if target.exists():
            shutil.copymode(target, partial)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _partial_name(name: str) -> str:
    """Return the name of a file until it is whole, in the same folder."""
    return f".{name}.{os.getpid()}.tmp"


def _upload(store: FileStore, source: str, path: str) -> None:
    if store.has_buckets:
        _write_at_once(store, source, path)
        return
    folder, _, name = path.rpartition("/")
    partial = f"{folder}/{_partial_name(name)}"
    try:
        _write_at_once(store, source, partial)
        store.files.move(partial, path)
    except BaseException:
        with suppress(OSError):
            store.files.delete_file(partial)
        raise


def _write_at_once(store: FileStore, source: str, path: str) -> None:
    """Write a file in one call of compiled code: a stream that Python drops half-way completes what is cut short."""
    with pa.OSFile(source) if not os.path.getsize(source) else pa.memory_map(source) as file:
        content = file.read_buffer()
        stream = store.files.open_output_stream(path, compression=None)
        try:
            stream.write(content)
        except BaseException:
            with suppress(OSError, pa.ArrowException):
                stream.close()  # reports the same error again, which is then not printed
            raise
        stream.close()


def check_writable(target: str | Path) -> None:
    """Check, before any work is done, that a file can be written: the store answers, and has such a bucket.

    Whether an object may be written is seen only when it is written. For a file on this machine, its folder is checked.

    Raises:
        DataError: It cannot.
        OSError: The name is not allowed on this machine, such as one that is too long.
    """
    if not is_remote(target):
        path = local_path(target)
        folder = path.absolute().parent
        # It raises if this name, the longest that is needed, is too long.
        path.with_name(_partial_name(path.name)).exists()
        if not folder.is_dir():
            raise DataError(f"{path}: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise DataError(f"{path}: cannot be written: no permission")
        return
    uri = str(target)
    store = store_of(uri)
    if uri.endswith("/") or store.path_of(uri) == store.base:
        raise DataError(f"{uri}: names a folder; name a file in it")
    with store_errors(uri):
        if store.has_buckets and store.files.get_file_info(store.base).type == fs.FileType.NotFound:
            raise DataError(f"{uri}: {no_bucket(store.base)}")


def check_table(target: str | Path) -> None:
    """Check, before any work is done, that a table can be written by ``open_table``, to a file or a URI.

    Raises:
        DataError: Another suffix than .parquet or .csv, a folder that is missing or cannot be written to, or a store
            that cannot be reached.
    """
    suffix = PurePath(target).suffix
    if suffix.casefold() not in _TABLES:
        raise DataError(f"{target}: per-user scores are written as {' or '.join(_TABLES)}, not {suffix!r}")
    try:
        check_writable(target)
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror or error}") from None


def refuse_input(target: str | Path, inputs: Iterable[object], inside: str = "*") -> None:
    """Refuse to write to a file that is an input, or that would be one: it would be replaced, or read the next time.

    A relative path, a link and a URI of a file are the file. Nothing is connected to.

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
            given = os.path.realpath(local_path(name).expanduser())
            is_same = _names(given, os.path.realpath(local_path(target)), inside)
        if is_same:
            raise DataError(f"{target}: is read too, as {name}, and would be replaced: write to another file")


def _names(given: str, target: str, inside: str) -> bool:
    """Return whether a path or a URI names a file: itself, its folder, or a pattern."""
    if target == given:
        return True
    if target.startswith(f"{given.rstrip('/')}/"):
        return fnmatch.fnmatchcase(target.rpartition("/")[2], inside)
    return glob.has_magic(given) and matches_pattern(target, given)
