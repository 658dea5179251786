"""Reads of S3 objects that AWS's client does not repeat: those whose error is longer than the range that was asked for.

pyarrow reads a range of an object into memory of the same size. The text of an error (300 bytes and more) does not fit
into a small range: the end of a Parquet file, a small column chunk, a small file. AWS's client then reports a failure
of this machine, ``Failed to flush response stream``, which it does not repeat, whatever the server said.
"""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from evalplugin.files.stores import max_attempts

_LOST_ERROR = "Failed to flush response stream"
_LONGEST_PAUSE = 20.0  # seconds; of 1, 2, 4 ... a random share, as AWS's client waits

T = TypeVar("T", bound="_Closable")
R = TypeVar("R")


class _Closable(Protocol):
    def close(self) -> None: ...


class RepeatedReadError(OSError):
    """A read that failed at every attempt."""

    def __init__(self, message: str, attempts: int) -> None:
        super().__init__(message)
        self.attempts = attempts


class RepeatedReads(Generic[T]):
    """An object of S3 that is opened anew where a read fails in a way that AWS's client does not repeat.

    Opening asks for the headers alone (HEAD), whose errors have no text: AWS's client repeats it where sensible, and an
    object that is gone or that may not be read ends the attempts.
    """

    def __init__(self, open_object: Callable[[], T]) -> None:
        self._open = open_object
        self._opened: T | None = None

    def read(self, of: Callable[[T], R]) -> R:
        """Return the result of a function of the opened object.

        Raises:
            OSError, ArrowException: What opening or the function raises; RepeatedReadError after the last attempt.
        """
        attempt = 1
        while True:
            try:
                if self._opened is None:
                    self._opened = self._open()
                return of(self._opened)
            except OSError as error:
                self._opened = None
                if _LOST_ERROR not in str(error):
                    raise
                if attempt >= max_attempts():
                    raise RepeatedReadError(str(error), attempt) from None
            time.sleep(random.uniform(0, min(2 ** (attempt - 1), _LONGEST_PAUSE)))
            attempt += 1

    def close(self) -> None:
        """Close the object, if it is open."""
        if self._opened is not None:
            self._opened.close()
        self._opened = None

    def iterate(self, of: Callable[[T], Iterator[R]]) -> Iterator[R]:
        """Yield the values that a function yields of the opened object, each once in spite of failures."""
        done = 0
        current: tuple[T, Iterator[R]] | None = None

        def following(opened: T) -> R | None:
            nonlocal current
            if current is None or current[0] is not opened:
                current = opened, islice(of(opened), done, None)
            return next(current[1], None)

        while (value := self.read(following)) is not None:
            done += 1
            yield value


class S3Reader(io.RawIOBase):
    """The bytes of an S3 object, from any position."""

    def __init__(self, open_object: Callable[[], Any]) -> None:
        self._reads: RepeatedReads[Any] = RepeatedReads(open_object)
        self._at = 0
        self._size: int = self._reads.read(lambda opened: opened.size())

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, from the begin, from here or from the end; return it from the begin."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes; return their number."""
        content = self._next(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Return all bytes from here on, by one request and not by many small ones."""
        return self._next(max(self._size - self._at, 0))

    def _next(self, size: int) -> bytes:
        content: bytes = self._reads.read(lambda opened: opened.read_at(size, self._at))
        self._at += len(content)
        return content
