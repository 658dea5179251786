"""Files that URIs name: found by name or pattern, opened, and written whole or not at all."""

from __future__ import annotations

import fnmatch
import glob
import io
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from evalplugin.base.errors import DataError, did_you_mean_file
from evalplugin.base.text import shorten
from evalplugin.files.local import partial_path, written_whole
from evalplugin.files.repeated_reads import S3Reader
from evalplugin.files.stores import FileStore, is_remote, local_path, place, store_of, store_reason

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

__all__ = [
    "File",
    "RemoteFile",
    "check_writable",
    "find_remote",
    "is_remote_folder",
    "objects_at",
    "open_file",
    "open_output",
    "pattern_regex",
    "size_of",
    "store_errors",
    "version_of",
]

_HEAD = 2**16  # bytes of one request where parts of a file are read
_BUFFER = 8 * 2**20  # bytes of one request where a file is read from its begin to its end


@dataclass(frozen=True)
class RemoteFile:
    """A file in an object store."""

    uri: str
    size: int  # bytes
    modified: int  # nanoseconds since 1970

    def __str__(self) -> str:
        return self.uri

    @cached_property
    def _path(self) -> PurePosixPath:
        return PurePosixPath(self.uri)

    @property
    def name(self) -> str:
        """The last part of the URI."""
        return self._path.name

    @property
    def stem(self) -> str:
        """The name without its ending."""
        return self._path.stem

    @property
    def suffix(self) -> str:
        """The ending of the name, such as ``.csv``."""
        return self._path.suffix

    @property
    def parent(self) -> str:
        """The URI without the name."""
        return self.uri.rpartition("/")[0]

    def open(self) -> Any:
        """Return the file, to be read from any position, of which only those parts are fetched.

        Raises:
            OSError, ArrowException: It is gone or cannot be read.
        """
        return self._buffered(_HEAD) if store_of(self.uri).is_s3 else self.open_for_arrow()

    def open_for_arrow(self) -> Any:
        """Return the file for readers in compiled code, which fetch several parts at a time.

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
        import pyarrow as pa

        store, path = store_of(self.uri), store_of(self.uri).path_of(self.uri)
        raw = (
            self._buffered(_BUFFER)
            if store.is_s3
            else store.files.open_input_stream(path, compression=None, buffer_size=_BUFFER)
        )
        return raw if compression is None else pa.CompressedInputStream(raw, compression)

    def _buffered(self, size: int) -> io.BufferedReader:
        return io.BufferedReader(S3Reader(self.open_for_arrow), size)


File: TypeAlias = Path | RemoteFile


def open_file(file: File) -> IO[bytes]:
    """Return a file of this machine or of a store, opened for reading."""
    opened: IO[bytes] = file.open() if isinstance(file, RemoteFile) else file.open("rb")
    return opened


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
    if store.writes_whole:
        with store_errors(file.uri), store.files.open_input_stream(store.path_of(file.uri)) as stream:
            etag = (stream.metadata() or {}).get(b"ETag")
    return f"{file.size} bytes, {etag.decode() if etag else file.modified}"


@contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Turn what the libraries of stores raise inside into a DataError that names the URI."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, NotImplementedError) as error:
        reason = store_reason(error, uri) or shorten(
            " ".join(str(error).split()) or type(error).__name__, 300
        )
        raise DataError(f"{uri}: {reason}") from None


def find_remote(uri: str, inside: str | None = None) -> list[RemoteFile]:
    """Return the sorted files of a URI: a file, a pattern, or a folder if ``inside`` is a pattern for its files.

    Raises:
        DataError: There is no such file, or the store refuses or cannot be reached.
    """
    from pyarrow.fs import FileType

    store = store_of(uri)
    with store_errors(uri):
        info = store.files.get_file_info(store.path_of(uri))
        if info.type == FileType.File and not uri.endswith("/"):
            return [_file(store, info)]
        if info.type == FileType.Directory:
            if inside is None:
                raise DataError(
                    f"{uri} is a folder, not a file; name its files by a pattern such as {uri}/*.csv"
                )
            below = _listed(store, store.path_of(uri), recursive=True)
            files = [_file(store, one) for one in below if fnmatch.fnmatchcase(one.base_name, inside)]
            if not files:
                raise DataError(f"no {inside} file in the folder {uri}")
            return sorted(files, key=str)
        if files := _matching(store, uri):
            return files
        raise DataError(_missing(store, uri))


def is_remote_folder(uri: str) -> bool:
    """Return whether there is a folder at a URI.

    Raises:
        DataError: The store refuses or cannot be reached.
    """
    from pyarrow.fs import FileType

    store = store_of(uri)
    with store_errors(uri):
        found: bool = store.files.get_file_info(store.path_of(uri)).type == FileType.Directory
    return found


def objects_at(uri: str) -> list[RemoteFile]:
    """Return the files of a URI as far as there are any: a file, all below a folder, or those that match a pattern.

    Raises:
        DataError: The store refuses or cannot be reached.
    """
    from pyarrow.fs import FileType

    store = store_of(uri)
    with store_errors(uri):
        info = store.files.get_file_info(store.path_of(uri))
        if info.type == FileType.File:
            return [_file(store, info)]
        if info.type == FileType.Directory:
            return sorted((_file(store, one) for one in _listed(store, info.path, recursive=True)), key=str)
        return _matching(store, uri)


def _matching(store: FileStore, uri: str) -> list[RemoteFile]:
    path = store.path_of(uri)
    if not glob.has_magic(path):
        return []
    before = re.split(r"[*?[]", path, maxsplit=1)[0].rpartition("/")[0]
    pattern = re.compile(pattern_regex(path))
    deep = "/" in path[len(before) + 1 :]
    return sorted(
        (_file(store, one) for one in _listed(store, before, recursive=deep) if pattern.fullmatch(one.path)),
        key=str,
    )


def pattern_regex(pattern: str) -> str:
    """Return the regular expression of a pattern as ``glob`` reads it: ``*`` stays within a folder, ``**`` does not."""
    *folders, name = pattern.split("/")
    parts = ["(?:[^/.][^/]*/)*" if part == "**" else f"{_regex_of_name(part)}/" for part in folders]
    return "".join(parts) + ("(?:[^/.][^/]*/)*[^/.][^/]*" if name == "**" else _regex_of_name(name))


def _regex_of_name(pattern: str) -> str:
    found = r"(?!\.)" if pattern[:1] in ("*", "?", "[") else ""
    for token in re.findall(r"\[!?\]?[^]]*\]|.", pattern, re.DOTALL):
        match token:
            case "*":
                found += "[^/]*"
            case "?":
                found += "[^/]"
            case _ if len(token) > 1:
                inner = token[1:-1].replace("\\", "\\\\")
                found += f"(?!/)[{'^' + inner[1:] if inner.startswith('!') else inner}]"
            case _:
                found += re.escape(token)
    return found


def _listed(store: FileStore, path: str, *, recursive: bool) -> list[FileInfo]:
    from pyarrow.fs import FileSelector, FileType

    found = store.files.get_file_info(FileSelector(path, recursive=recursive, allow_not_found=True))
    return [one for one in found if one.type == FileType.File]


def _file(store: FileStore, info: FileInfo) -> RemoteFile:
    return RemoteFile(store.uri_of(info.path), info.size or 0, info.mtime_ns or 0)


def _missing(store: FileStore, uri: str) -> str:
    """Return the message that there is nothing at a URI."""
    from pyarrow.fs import FileSelector, FileType

    if store.scheme not in ("hdfs", "viewfs") and store.base and not store.base.startswith("/"):
        bucket = store.files.get_file_info(store.base)
        if bucket.type == FileType.NotFound:
            return f"{uri}: there is no bucket {store.base!r}{place()}"
    if glob.has_magic(uri):
        return f"no file matches {uri}"
    folder, _, name = store.path_of(uri).rpartition("/")
    beside = store.files.get_file_info(FileSelector(folder, allow_not_found=True))
    return f"file not found: {uri}{did_you_mean_file(name, [one.base_name for one in beside])}"


def check_writable(target: str | Path) -> None:
    """Check, before any work is done, that a file can be written: the store answers, and has such a bucket.

    Whether an object may be written is seen only when it is. Of a file on this machine, its folder is looked up.

    Raises:
        DataError: It cannot.
        OSError: The name is none of this machine, as one that is too long.
    """
    if not is_remote(target):
        path = local_path(target)
        folder, _ = path.absolute().parent, partial_path(path).exists()  # the longest name that is needed
        if not folder.is_dir():
            raise DataError(f"{path}: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise DataError(f"{path}: cannot be written: no permission")
        return
    from pyarrow.fs import FileType

    uri = str(target)
    store = store_of(uri)
    if uri.endswith("/") or store.path_of(uri) == store.base:
        raise DataError(f"{uri}: names a folder; name a file in it")
    with store_errors(uri):
        if store.writes_whole and store.files.get_file_info(store.base).type == FileType.NotFound:
            raise DataError(_missing(store, uri))


@contextmanager
def open_output(target: str | Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to; it appears under its name when all is written, or not at all after an error.

    A file of this machine is written beside its place and renamed. One of a store is written to a temporary file
    of this machine first.

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


def _upload(store: FileStore, source: str, path: str) -> None:
    target = path
    if not store.writes_whole:
        target = f"{path.rpartition('/')[0]}/.{path.rpartition('/')[2]}.{os.getpid()}.tmp"
    try:
        _write_at_once(store, source, target)
        if target != path:
            store.files.move(target, path)
    except BaseException:
        if target != path:
            with suppress(OSError):
                store.files.delete_file(target)
        raise


def _write_at_once(store: FileStore, source: str, path: str) -> None:
    """Write a file in one call of compiled code: a stream that Python drops half-way completes what is cut short."""
    import pyarrow as pa

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
