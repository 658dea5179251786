"""Reading of files: what a library raises becomes one message, with the file and what to do."""

from __future__ import annotations

import csv
import errno
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from evalplugin.base.errors import DataError
from evalplugin.base.libraries import pa, pq
from evalplugin.base.text import shorten
from evalplugin.files.remote import File, RemoteFile, open_file, size_of
from evalplugin.files.stores import is_store_error, store_reason

_SHOWN = 300  # characters of a path or of another library's message
_HEAD = 4096  # bytes of a file that show what it is
_DECOMPRESSED = {".gz": "gzip", ".bz2": "bz2"}  # while reading, by the ending of the name
COMPRESSED = (*_DECOMPRESSED, ".xz", ".zst", ".lz4", ".zip")  # endings of names; not all can be read
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK": "zip",
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"\x89HDF": "HDF5",
    b"SQLite format 3": "SQLite",
}
# What reading a damaged or unexpected file raises, apart from errors of Arrow and of the system.
DAMAGE = (
    EOFError,
    ValueError,  # UnicodeDecodeError, NUL characters in paths, and errors of pandas
    NotImplementedError,  # of zipfile
    csv.Error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
)
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_DAMAGED = "the compressed data is cut short or damaged: copy or download the file again"
_ENCODING = "convert it, for instance by iconv -f LATIN1 -t UTF-8 (Excel: save as CSV UTF-8)"
_OF_SYSTEM = {
    errno.ENOENT: "file not found",
    errno.EISDIR: "is a folder, not a file",
    errno.EACCES: "no permission to read it",
    errno.EPERM: "no permission to read it",
}


@contextmanager
def readable(source: object) -> Iterator[None]:
    """Turn errors of the system and of libraries that are raised inside into a DataError that names the source."""
    try:
        yield
    except Exception as error:
        uri = source.uri if isinstance(source, RemoteFile) else None
        is_known = isinstance(error, (pa.ArrowException, OSError, *DAMAGE))
        if not is_known and not (uri and is_store_error(error, uri)):
            raise
        reason = store_reason(error, uri) if uri else None
        raise DataError(f"{path_text(source)}: {reason or reason_of(error)}") from None


def reason_of(error: Exception) -> str:
    """Return the problem of a file, and what to do, for an error that reading it raised."""
    text = str(getattr(error, "strerror", None) or error).strip()
    if isinstance(error, UnicodeDecodeError):
        return f"is not UTF-8 text (byte {error.start}); {_ENCODING}"
    if (
        isinstance(error, EOFError | zlib.error | lzma.LZMAError)
        or "compressed stream" in text
        or " failed: " in text[:40]
    ):
        return _DAMAGED
    if isinstance(error, OSError) and error.errno in _OF_SYSTEM:
        return _OF_SYSTEM[error.errno]
    if "CRC checksum verification failed" in text:
        return "a page is damaged: its checksum is another; copy the file again, or write it anew"
    if "invalid UTF8" in text:
        return f"is not UTF-8 text ({_shortened(text)}); {_ENCODING}"
    if "imezone" in text or "time zone" in text:
        return f"{_shortened(text)}; write the times in UTC, or install the package tzdata"
    hint = "; is the separator another one, or this line a comment?" if " columns, got 1: " in text else ""
    return f"cannot be read: {_shortened(text or type(error).__name__)}{hint}"


def path_text(path: object) -> str:
    """Return a path as messages show it: in one line of bounded length."""
    text = str(path)
    return _shortened(text if text.isprintable() else repr(text)[1:-1])


def open_text(file: File) -> IO[bytes]:
    """Return the decompressed bytes of a CSV or TREC file.

    Raises:
        DataError: The file is of another format, or in UTF-16.
        OSError: The file cannot be read.
    """
    compression = _DECOMPRESSED.get(file.suffix.casefold())
    with open_file(file) as raw:
        format = _format_of(raw.read(_HEAD))
    if format is not None and format != compression:
        raise DataError(f"{path_text(file)}: is not text but {format}{_what_to_do(format)}")
    if format is None and compression is not None and size_of(file):
        raise DataError(f"{path_text(file)}: is not compressed by {compression} as its name says")
    with _stream(file, compression) as stream:
        head = stream.read(_HEAD)
    if head.startswith(_UTF16) or head[1::2].count(0) > len(head) // 4 or head[::2].count(0) > len(head) // 4:
        raise DataError(
            f"{path_text(file)}: is UTF-16 (or no text) and not UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
        )
    if format is not None and (inner := _format_of(head)) is not None:
        raise DataError(f"{path_text(file)}: is not text but {inner} inside of {format}{_what_to_do(inner)}")
    return _stream(file, compression)


def _stream(file: File, compression: str | None) -> IO[bytes]:
    if isinstance(file, RemoteFile):
        return file.stream(compression)  # type: ignore[no-any-return]
    return pa.input_stream(str(file), compression)  # type: ignore[no-any-return]


class LineCounter:
    """A stream that counts its lines while it is read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._breaks, self._last = stream, 0, b"\n"

    @property
    def lines(self) -> int:
        """Number of lines read so far."""
        return self._breaks + (self._last != b"\n")

    @property
    def closed(self) -> bool:
        """Whether the stream is closed."""
        return self._stream.closed

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes."""
        data = self._stream.read(size)
        self._breaks += data.count(b"\n")
        self._last = data[-1:] or self._last
        return data


def open_parquet(file: File) -> Any:
    """Return a Parquet file; of one in a store, the column chunks that are read are fetched at once.

    Raises:
        OSError, ArrowException: The file cannot be read.
    """
    if isinstance(file, RemoteFile):
        return pq.ParquetFile(file.open(), page_checksum_verification=True, pre_buffer=True)
    return pq.ParquetFile(file, page_checksum_verification=True)


def check_parquet(file: File) -> None:
    """Refuse a file that is not Parquet, or not all of it.

    Raises:
        DataError: The file is of another format, empty or cut short.
        OSError: The file cannot be read.
    """
    with open_file(file) as raw:
        head = raw.read(_HEAD)
        size = raw.seek(0, 2)
        raw.seek(max(size - 4, 0))
        tail = raw.read()
    if not head:
        raise DataError(f"{path_text(file)}: is empty (0 bytes), and so not Parquet")
    if not head.startswith(b"PAR1"):
        content = _format_of(head) or ("of another format" if b"\0" in head else "text")
        raise DataError(f"{path_text(file)}: cannot be read: it is not Parquet but {content}")
    if tail != b"PAR1":
        raise DataError(
            f"{path_text(file)}: cannot be read: the end of the Parquet file is missing; copy it again, or wait until "
            f"it is written"
        )


def _format_of(head: bytes) -> str | None:
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def _what_to_do(format: str) -> str:
    for ending, name in _DECOMPRESSED.items():
        if format == name:
            return f"; name it {ending}, so that it is decompressed"
    if format in ("xz", "zstd", "lz4", "zip"):
        return f"; decompress it first (only {' and '.join(_DECOMPRESSED)} are read as they are)"
    if format == "Parquet":
        return "; say so by its ending .parquet or by the dataset type"
    return "; export it as CSV"


def _shortened(text: str) -> str:
    return shorten(" ".join(text.split("\n")), _SHOWN)
