"""Reads of S3 objects that are repeated, as far as no server is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evalplugin.files import repeated_reads
from evalplugin.files.repeated_reads import RepeatedReadError, RepeatedReads, S3Reader
from evalplugin.files.stores import store_reason

LOST = (
    "AWS Error INTERNAL_FAILURE during GetObject operation: Failed to flush response stream (eof: 0, bad: 1)"
)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The longest pauses that are made, which take no time."""
    made: list[float] = []
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "4")
    monkeypatch.setattr(repeated_reads.random, "uniform", lambda least, most: most)
    monkeypatch.setattr(repeated_reads.time, "sleep", made.append)
    return made


class Storage:
    """A store with an object, that fails a number of times."""

    def __init__(self, failures: int, error: str = LOST) -> None:
        self.failures, self.error, self.opened, self.reads = failures, error, 0, 0

    def open(self) -> Opened:
        self.opened += 1
        return Opened(self)


class Opened:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def close(self) -> None: ...

    def size(self) -> int:
        return 10

    def read_at(self, n: int, at: int) -> bytes:
        self.storage.reads += 1
        if self.storage.reads <= self.storage.failures:
            raise OSError(self.storage.error)
        return b"0123456789"[at : at + n]

    def batches(self) -> Iterator[bytes]:
        for at in range(0, 10, 2):
            yield self.read_at(2, at)


def test_a_read_whose_error_is_lost_is_repeated_with_growing_pauses(pauses: list[float]) -> None:
    storage = Storage(failures=3)
    reader = S3Reader(storage.open)
    reader.seek(-4, 2)
    assert reader.read(3) == b"678"
    assert reader.read() == b"9"
    assert (storage.reads, storage.opened, pauses) == (5, 4, [1, 2, 4])


def test_a_read_that_fails_at_every_attempt_says_how_many_there_were(pauses: list[float]) -> None:
    storage = Storage(failures=99)
    with pytest.raises(RepeatedReadError) as caught:
        S3Reader(storage.open).read(1)
    assert storage.reads == 4
    said = store_reason(caught.value, "s3://b/k")
    assert said is not None
    assert "failed in 4 attempts: " in said
    assert "GetObject" in said


@pytest.mark.parametrize("code", ["ACCESS_DENIED", "NO_SUCH_KEY", "SLOW_DOWN"])
def test_errors_that_the_client_decides_on_are_not_repeated_once_more(code: str, pauses: list[float]) -> None:
    storage = Storage(failures=99, error=f"AWS Error {code} during GetObject operation: ")
    with pytest.raises(OSError, match=code):
        S3Reader(storage.open).read(1)
    assert (storage.reads, pauses) == (1, [])


def test_batches_go_on_where_they_were_cut_off() -> None:
    storage = Storage(failures=0)
    batches = RepeatedReads(storage.open).iterate(Opened.batches)
    begin = [next(batches), next(batches)]
    storage.failures = storage.reads + 1
    assert [*begin, *batches] == [b"01", b"23", b"45", b"67", b"89"]
    assert storage.opened == 2
