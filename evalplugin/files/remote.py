"""Files that URIs name: found by name or pattern, and opened for reading."""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeAlias

from evalplugin.base.errors import DataError, did_you_mean_file
from evalplugin.base.libraries import fs, pa
from evalplugin.base.text import shorten
from evalplugin.files.stores import FileStore, is_store_error, no_bucket, store_of, store_reason

_BUFFER = 8 * 2**20  # bytes of one request where a file is read from its begin to its end


@dataclass(frozen=True)
class RemoteFile:
    """A file in an object store."""

    uri: str
    size: int  # bytes
    modified: int  # nanoseconds since 1970

    def __str__(self) -> str:
        return self.uri

    @property
    def name(self) -> str:
        """The last part of the URI."""
        return PurePosixPath(self.uri).name

    @property
    def suffix(self) -> str:
        """The ending of the name, such as ``.csv``."""
        return PurePosixPath(self.uri).suffix

    @property
    def parent(self) -> str:
        """The URI without the name."""
        return self.uri.rpartition("/")[0]

    def open(self) -> Any:
        """Return the file, to be read from any position; only the parts that are read are fetched.

        Raises:
            OSError, ArrowException: It is gone or cannot be read.
        """
        store = store_of(self.uri)
        return store.files.open_input_file(store.path_of(self.uri))

    def stream(self, compression: str | None = None) -> Any:
        """Return the bytes from the first to the last, decompressed.

        Raises:
            OSError, ArrowException: It is gone or cannot be read.
        """
        store = store_of(self.uri)
        path = store.path_of(self.uri)
        raw = store.files.open_input_stream(path, compression=None, buffer_size=_BUFFER)
        return raw if compression is None else pa.CompressedInputStream(raw, compression)


File: TypeAlias = Path | RemoteFile


def open_file(file: File) -> IO[bytes]:
    """Return a file of this machine or of a store, opened for reading."""
    return file.open() if isinstance(file, RemoteFile) else file.open("rb")


def size_of(file: File) -> int:
    """Return the size of a file in bytes."""
    return file.size if isinstance(file, RemoteFile) else file.stat().st_size


def version_of(file: RemoteFile) -> str:
    """Return a text that changes with the content of a file: its ETag, or else its size and time.

    Raises:
        DataError: The store refuses or cannot be reached.
    """
    store = store_of(file.uri)
    etag = None
    if store.has_buckets:
        with store_errors(file.uri), store.files.open_input_stream(store.path_of(file.uri)) as stream:
            etag = (stream.metadata() or {}).get(b"ETag")
    return f"{file.size} bytes, {etag.decode() if etag else file.modified}"


@contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Turn what the libraries of stores raise inside into a DataError that names the URI."""
    try:
        yield
    except Exception as error:
        if not is_store_error(error, uri):
            raise
        reason = store_reason(error, uri) or shorten(
            " ".join(str(error).split()) or type(error).__name__, 300
        )
        raise DataError(f"{uri}: {reason}") from None


def find_remote(uri: str, inside: str | None = None) -> list[RemoteFile]:
    """Return the sorted files of a URI: a file, a pattern, or a folder if ``inside`` is a pattern for its files.

    Raises:
        DataError: There is no such file, or the store refuses or cannot be reached.
    """
    store = store_of(uri)
    with store_errors(uri):
        info = store.files.get_file_info(store.path_of(uri))
        is_folder = info.type == fs.FileType.Directory
        if is_folder and inside is None:
            raise DataError(f"{uri} is a folder, not a file; name its files by a pattern such as {uri}/*.csv")
        is_named_folder = info.type == fs.FileType.File and uri.endswith("/")
        files = [] if is_named_folder else _files(store, info, inside or "*")
        if not files:
            raise DataError(f"no {inside} file in the folder {uri}" if is_folder else _missing(store, uri))
        return files


def is_remote_folder(uri: str) -> bool:
    """Return whether there is a folder at a URI.

    Raises:
        DataError: The store refuses or cannot be reached.
    """
    store = store_of(uri)
    with store_errors(uri):
        is_folder: bool = store.files.get_file_info(store.path_of(uri)).type == fs.FileType.Directory
    return is_folder


def objects_at(uri: str) -> list[RemoteFile]:
    """Return the sorted files of a URI, if any: a file, all below a folder, or those that match a pattern.

    Raises:
        DataError: The store refuses or cannot be reached.
    """
    store = store_of(uri)
    with store_errors(uri):
        return _files(store, store.files.get_file_info(store.path_of(uri)), "*")


def _files(store: FileStore, info: fs.FileInfo, inside: str) -> list[RemoteFile]:
    """Return the sorted files of a path: itself, those below the folder that it is, or those that it matches."""
    if info.type == fs.FileType.File:
        infos = [info]
    elif info.type == fs.FileType.Directory:
        below = store.files.get_file_info(fs.FileSelector(info.path, recursive=True, allow_not_found=True))
        infos = [file for file in below if fnmatch.fnmatchcase(file.base_name, inside)]
    elif glob.has_magic(info.path):
        folder = re.split(r"[*?[]", info.path, maxsplit=1)[0].rpartition("/")[0]
        deep = "/" in info.path[len(folder) + 1 :]
        below = store.files.get_file_info(fs.FileSelector(folder, recursive=deep, allow_not_found=True))
        infos = [file for file in below if matches_pattern(file.path, info.path)]
    else:
        infos = []
    files = [
        RemoteFile(store.uri_of(file.path), file.size or 0, file.mtime_ns or 0)
        for file in infos
        if file.type == fs.FileType.File
    ]
    return sorted(files, key=str)


def matches_pattern(path: str, pattern: str) -> bool:
    """Return whether a path matches a pattern as ``glob`` reads it: ``*`` stays within a folder, ``**`` does not."""
    return _match(path.split("/"), pattern.split("/"))


def _match(names: Sequence[str], patterns: Sequence[str]) -> bool:
    if not names or not patterns:
        return not names and not patterns
    is_hidden = names[0].startswith(".") and glob.has_magic(patterns[0][:1])
    if patterns[0] != "**":
        matches = not is_hidden and fnmatch.fnmatchcase(names[0], patterns[0])
        return matches and _match(names[1:], patterns[1:])
    if len(patterns) > 1 and _match(names, patterns[1:]):
        return True
    return not is_hidden and (_match(names[1:], patterns) or (len(names) == len(patterns) == 1))


def _missing(store: FileStore, uri: str) -> str:
    """Return the message that there is nothing at a URI."""
    has_no_bucket = store.kind in ("hdfs", "viewfs") or store.root.startswith("hf:")
    names_bucket = not has_no_bucket and store.base and not store.base.startswith("/")
    if names_bucket and store.files.get_file_info(store.base).type == fs.FileType.NotFound:
        return f"{uri}: {no_bucket(store.base)}"
    if glob.has_magic(uri):
        return f"no file matches {uri}"
    folder, _, name = store.path_of(uri).rpartition("/")
    beside = store.files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    return f"file not found: {uri}{did_you_mean_file(name, [info.base_name for info in beside])}"
