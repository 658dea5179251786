"""Journals: records on disk of the steps that a bake-off has computed, from which it can be resumed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from evalplugin.base.errors import StoreError
from evalplugin.base.secrets import redact
from evalplugin.base.signals import ignore_signals
from evalplugin.execution.isolation import TaskFailure

PENDING_SECONDS = 7 * 86_400  # for which the entries of an interrupted bake-off are not pruned
LOCK_MODE = 0o660  # of the files of locks: a group may share the store
_PROBE_SECONDS = 0.5  # a process that only tests whether a lock is free holds it for less


@dataclass(frozen=True)
class Header:
    """The identity of a bake-off, the first line of its journal."""

    id: str
    asked: Mapping[str, str]  # fingerprints, by part, of everything that must not change before a resume
    inputs: Mapping[str, str]  # fingerprints of the inputs of models, which must not change either
    started: float  # seconds since 1970
    fresh: bool  # whether earlier entries of the store may not be used
    command: Sequence[str] = ()  # arguments of `evalplugin run`; empty where it was started from Python

    def __post_init__(self) -> None:
        object.__setattr__(self, "command", tuple(map(redact, self.command)))

    @property
    def started_at(self) -> str:
        """The local time at which the bake-off was started."""
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(self.started))


@dataclass(eq=False)
class Journal:
    """The journal of one bake-off: a line for each event, written by the process that holds its lock.

    The system frees the lock as soon as the process has ended, for whatever reason. An incomplete line counts as not
    written. The end of a ``with`` statement closes the journal and, unless it is ``resumable``, removes it.
    """

    path: Path
    header: Header
    entries: set[str] = field(default_factory=set)  # keys of the store's entries that the bake-off has used
    failures: dict[str, TaskFailure] = field(default_factory=dict)  # by name of the task
    report: Callable[[str], None] = lambda text: None  # receives one line if the journal cannot be written
    is_resumed: bool = False  # whether an earlier process began the bake-off
    resumable: bool = False  # whether the bake-off can be resumed if it ends now
    _lock: FileLock = field(init=False, repr=False)
    _is_broken: bool = field(default=False, init=False, repr=False)  # whether it cannot be written any more

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with ignore_signals():
            self.close(finished=not self.resumable)

    @classmethod
    def create(cls, folder: Path, header: Header) -> Journal:
        """Return a new journal in a folder of journals.

        Raises:
            StoreError: It cannot be written.
        """
        journal = cls(folder / f"{header.id}.jsonl", header)
        journal._lock = _lock_of(journal.path)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            journal._lock.acquire(timeout=0)
            journal._append(asdict(header))
        except OSError as error:
            journal.close(finished=True)
            raise StoreError(
                f"cannot begin a bake-off in the store {folder.parent}: {error.strerror or error}"
            ) from None
        return journal

    @classmethod
    def reopen(cls, path: Path) -> Journal | None:
        """Return the journal of an interrupted bake-off; None if a process still writes it."""
        lock = _lock_of(path)
        try:
            lock.acquire(timeout=_PROBE_SECONDS)
        except Timeout:
            return None
        journal = _read(path)
        if journal is None:  # it was finished in the meantime
            lock.release()
            return None
        journal._lock, journal.is_resumed, journal.resumable = lock, True, True
        # So that the next line does not continue an incomplete one.
        os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        return journal

    def record_use(self, key: str) -> None:
        """Record that an entry of the store is used, so that it is not pruned before the bake-off is finished."""
        if key not in self.entries:
            self.entries.add(key)
            self._write({"uses": key})

    def record_failure(self, task: str, failure: TaskFailure) -> None:
        """Record a task that failed."""
        self.failures[task] = replace(failure, error=redact(failure.error))
        self._write({"failed": task, "error": self.failures[task].error})

    def close(self, *, finished: bool) -> None:
        """Release the journal; if the bake-off is ``finished``, remove it, else it can be reopened."""
        with suppress(OSError):
            if finished:
                self.path.unlink(missing_ok=True)
                Path(self._lock.lock_file).unlink(missing_ok=True)
        self._lock.release()

    def _write(self, line: Mapping[str, Any]) -> None:
        # A step that cannot be recorded is computed again on resume; the result in memory must not be lost.
        try:
            if not self._is_broken:
                self._append(line)
        except OSError as error:
            self._is_broken = True  # a further line would continue an incomplete one
            self.report(
                f"store: cannot write {self.path}: {error.strerror or error}; should the bake-off be cut off, "
                f"some of it will be computed again"
            )

    def _append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")


def unfinished(folder: Path) -> list[Journal]:
    """Return the journals in a folder, the newest first, as far as they can be read; none is locked."""
    journals = [journal for path in folder.glob("*.jsonl") if (journal := _read(path)) is not None]
    return sorted(journals, key=lambda j: (j.header.started, j.header.id), reverse=True)


def keys_in_use(folder: Path) -> set[str]:
    """Return the keys of all entries of bake-offs in progress: running, or interrupted less than 7 days ago."""
    keys: set[str] = set()
    for journal in unfinished(folder):
        with suppress(FileNotFoundError):  # it was finished in the meantime
            if is_running(journal) or time.time() - journal.path.stat().st_mtime < PENDING_SECONDS:
                keys |= journal.entries
    return keys


def is_running(journal: Journal) -> bool:
    """Return whether a process writes a journal."""
    try:
        with _lock_of(journal.path).acquire(timeout=0):
            return False
    except Timeout:
        return True


def _lock_of(path: Path) -> FileLock:
    return FileLock(path.with_suffix(".lock"), mode=LOCK_MODE)


def _read(path: Path) -> Journal | None:
    """Return a journal with its records; None if it does not exist or its first line is incomplete."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        first = json.loads(lines[0])
        journal = Journal(path, Header(**first))
    except (OSError, IndexError, ValueError, TypeError):
        return None
    for line in lines[1:]:
        with suppress(ValueError, KeyError):
            event: dict[str, Any] = json.loads(line)
            if "uses" in event:
                journal.entries.add(event["uses"])
            else:
                journal.failures[event["failed"]] = TaskFailure(event["error"])
    return journal
