"""Logging by another process, while this one works on: importing MLflow and writing runs take seconds."""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar

from evalplugin.base import secrets
from evalplugin.base.costs import without_collections
from evalplugin.base.errors import TrackingError
from evalplugin.base.processes import end_process, ended_by_signal, start_python
from evalplugin.base.signals import deferred_signals, ignore_signals
from evalplugin.tracking import mlflow

if TYPE_CHECKING:  # a command starts the process before it imports what it works with
    from evalplugin.tracking.write.board import Links
    from evalplugin.tracking.write.items import Item, Tag
    from evalplugin.tracking.write.runs import Key, Runs

P = ParamSpec("P")
T = TypeVar("T")

_MOST_WAITING = 2**26  # bytes of calls, which hold the tables of models
_SECONDS_TO_END = 3.0  # for calls that wait, when this process is interrupted
_HEADER = struct.Struct("!Q")  # before each message: its length in bytes
_PROCESS = "the process that logs to MLflow"


@dataclass
class Logger:
    """A process that logs the runs of one bake-off after the other. Make it with ``started``."""

    process: subprocess.Popen[bytes]
    _answers: SimpleQueue[bytes | None] = field(default_factory=SimpleQueue)  # None: it has ended
    asked: int = 0  # calls
    answered: int = 0
    _waiting: dict[int, int] = field(default_factory=dict)  # bytes of the calls without an answer, by number

    @classmethod
    @contextmanager
    def started(cls) -> Generator[Logger | None]:
        """Yield a new process, which imports MLflow at once and ends with the context; None if none can be started."""
        pipe = subprocess.PIPE
        process = start_python(f"from {__name__} import serve; serve()", stdin=pipe, stdout=pipe)
        if process is None:
            yield None
            return
        try:
            logger = cls(process)
            threading.Thread(target=_read, args=(process.stdout, logger._answers.put), daemon=True).start()
            yield logger
        finally:
            end_process(process)

    def open(
        self,
        uri: str,
        experiment: str,
        bakeoff: str,
        *,
        resume: Mapping[str, str] | None = None,
    ) -> RemoteRuns:
        """Return the runs of a bake-off, opened by the process; see ``Runs.open``."""
        runs = RemoteRuns(self)
        from evalplugin.tracking.connection import store_exists

        # MLflow cannot open a SQLite store whose creation was cut off.
        with nullcontext() if store_exists(uri) else deferred_signals():
            runs.experiment_id, runs.complete = runs.ask("open", uri, experiment, bakeoff, resume=resume)
        return runs

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
        """Send a call to the process, and return its number."""
        number = self.asked + 1
        call = pickle.dumps((number, name, args, kwargs, secrets.registered()), protocol=5)
        assert self.process.stdin is not None
        try:
            with deferred_signals():  # half a message could not be followed by another
                _write(self.process.stdin, call)
        except OSError:
            raise self._ended_error() from None
        self.asked, self._waiting[number] = number, len(call)
        return number

    @property
    def waiting(self) -> int:
        """How many calls have no answer yet."""
        return len(self._waiting)

    @property
    def is_behind(self) -> bool:
        """Whether so much waits that no more should be asked."""
        return sum(self._waiting.values()) >= _MOST_WAITING

    @property
    def has_answered(self) -> bool:
        """Whether an answer is here."""
        return not self._answers.empty()

    def answer(self, seconds: float | None = None) -> tuple[Any, BaseException | None]:
        """Return the next answer: a value or an error; ``queue.Empty`` is raised after some seconds."""
        if (content := self._answers.get(timeout=seconds)) is None:
            self._answers.put(None)
            raise self._ended_error()
        self.answered, value, error = pickle.loads(content)
        self._waiting.pop(self.answered, None)
        return value, error

    def interrupt(self) -> None:
        """Interrupt the call that the process is at, and leave out those that wait."""
        # It may have ended, or the system may have no such signal: then the call comes to its end first.
        with suppress(OSError, ValueError):
            self.process.send_signal(signal.SIGINT)

    def _ended_error(self) -> TrackingError:
        code = self.process.wait()
        how = ended_by_signal(code) if code < 0 else f"ended with exit code {code}"
        return TrackingError(f"{_PROCESS} {how}")


@dataclass
class RemoteRuns:
    """The runs of one bake-off, which a ``Logger`` logs while this process works on; see ``Runs``.

    An error is raised by a later call. After an error nothing more is logged, and each call raises it again.
    """

    logger: Logger
    experiment_id: str = ""
    complete: set[Key] = field(default_factory=set)  # the runs whose results are logged, for certain
    _finishing: dict[int, Key] = field(default_factory=dict)  # by the number of the call

    def start(self, key: Key, name: str, tags: Sequence[Tag]) -> None:
        """Start the run of a model."""
        self._send("start", key, name, tags)

    def finish(self, key: Key, items: Sequence[Item], *, failed: bool) -> None:
        """Log the items of a model's run and of its logged model, and end both."""
        self._finishing[self._send("finish", key, items, failed=failed)] = key

    def fail(self, key: Key, error: str) -> None:
        """End a model's run as FAILED, and log a traceback."""
        self._send("fail", key, error)

    def log(self, purpose: str, items: Mapping[Key, Sequence[Item]]) -> None:
        """Log further items into models' runs."""
        self._send("log", purpose, items)

    def log_standings(self, items: Mapping[Key, Sequence[Item]]) -> None:
        """Log into models' runs what needs all models."""
        self._send("log_standings", items)

    def start_summary(
        self,
        name: str,
        tags: Sequence[Tag],
        *,
        board: tuple[Mapping[str, Any] | None] | None,
        compared: Sequence[Key],
    ) -> Links:
        """Start the summary run and return the links to all pages."""
        links: Links = self.ask("start_summary", name, tags, board=board, compared=compared)
        return links

    def log_summary(self, items: Sequence[Item]) -> None:
        """Log items into the summary run."""
        self._send("log_summary", items)

    def end_summary(self, status: str) -> None:
        """End the summary run."""
        self._send("end_summary", status)

    def tag(self, run_id: str, tag: Tag) -> None:
        """Set a tag of a run, which may have ended."""
        self._send("tag", run_id, tag)

    def run_id(self, key: Key) -> str:
        """Return the id of a model's run."""
        return str(self.ask("run_id", key))

    def read(
        self,
        purpose: str,
        function: Callable[Concatenate[mlflow.MlflowClient, str, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return what a function of a module reads from the store, once all before is logged."""
        value: T = self.ask("read", purpose, function, *args, **kwargs)
        return value

    def wait(self) -> None:
        """Wait until all is logged."""
        while self.logger.waiting:
            self._receive()

    def end_open(self) -> None:
        """End the runs that are still open as KILLED; what is not logged within seconds is cut off."""
        with ignore_signals(), suppress(TrackingError):
            end = time.monotonic() + _SECONDS_TO_END
            try:
                while self.logger.waiting:
                    self.logger.answer(max(0.0, end - time.monotonic()))
            except Empty:
                self.logger.interrupt()
            self.logger.call("end_open", (), {})
            while self.logger.waiting:
                self.logger.answer()

    def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Return what a method of ``Runs`` returns, once all before is logged."""
        self.wait()
        self._send(name, *args, **kwargs)
        return self._receive()

    def _send(self, name: str, *args: Any, **kwargs: Any) -> int:
        """Have a method called; an error of an earlier call is raised."""
        while self.logger.is_behind or self.logger.has_answered:
            self._receive()
        return self.logger.call(name, args, kwargs)

    def _receive(self) -> Any:
        """Return the next answer, or raise the error in it."""
        value, error = self.logger.answer()
        if error is not None:
            raise error
        if (key := self._finishing.pop(self.logger.answered, None)) is not None:
            self.complete.add(key)
        return value


def serve() -> NoReturn:
    """Make the calls that come by the standard input, and write the answers to the standard output."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for whatever libraries print
    calls: SimpleQueue[bytes] = SimpleQueue()

    def hand_on(call: bytes | None) -> None:
        if call is None:  # the process that asks is gone, and another one may resume its bake-off
            os._exit(0)
        calls.put(call)

    threading.Thread(target=_read, args=(sys.stdin.buffer, hand_on), daemon=True).start()
    with suppress(Exception), without_collections():  # an error of these imports is one of the first call
        _ = mlflow.MlflowClient
        import evalplugin.tracking.write.runs  # noqa: F401

    served = _Served(_open)
    signal.signal(signal.SIGINT, served.interrupt)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        _write(answers, served.answer(calls.get()))


def _open(*args: Any, **kwargs: Any) -> Runs:
    from evalplugin.tracking.write.runs import Runs

    return Runs.open(*args, **kwargs)


@dataclass
class _Served:
    """The runs of a bake-off in the process that logs."""

    open: Callable[..., Runs]
    runs: Runs | None = None
    error: BaseException | None = None  # by which a call has failed
    _is_working: bool = False

    def interrupt(self, number: int, frame: object) -> None:
        """Cut off the call that is being made, and refuse those that wait; none is lost, as each has an answer."""
        self.error = KeyboardInterrupt()
        if self._is_working:
            raise self.error

    def answer(self, content: bytes) -> bytes:
        """Return the answer to a call: its number, and a value or an error."""
        number, value, error = 0, None, None
        try:
            number, name, args, kwargs, known = pickle.loads(content)
            for secret in known:
                secrets.register_secret(secret)
            if name == "open":
                self.runs, self.error = None, None
                self.runs = self.open(*args, **kwargs)
                value = self.runs.experiment_id, self.runs.complete
            elif self.error is None or name == "end_open":
                assert self.runs is not None
                self._is_working = name != "end_open"
                value = _with_temporary_files(partial(getattr(self.runs, name), *args, **kwargs))
                self._is_working = False
            else:
                error = self.error
        except BaseException as raised:  # noqa: BLE001 - raised again by the process that asked
            self._is_working = False
            error = self.error = _portable(raised)
        return pickle.dumps((number, value, error), protocol=5)


def _with_temporary_files(call: Callable[[], T]) -> T:
    """Make a call, and make it again if a model has meanwhile deleted the folder of its temporary files."""
    try:
        return call()
    except TrackingError as error:
        folder, cause = tempfile.gettempdir(), error.__cause__
        if not isinstance(cause, FileNotFoundError) or not str(cause.filename).startswith(folder):
            raise
        Path(folder).mkdir(parents=True, exist_ok=True)
        return call()  # what is logged twice is stored once


def _portable(error: BaseException) -> BaseException:
    """Return an error that can be pickled, with its traceback: in a note, or of a defect in the message."""
    text = "".join(traceback.format_exception(error))
    if isinstance(error, TrackingError):
        known = TrackingError(str(error))
        known.add_note(text)  # which --debug shows
        return known
    return RuntimeError(f"{_PROCESS} failed:\n{text}")


def _write(pipe: IO[bytes], message: bytes) -> None:
    pipe.write(_HEADER.pack(len(message)))
    pipe.write(message)
    pipe.flush()


def _read(pipe: IO[bytes], put: Callable[[bytes | None], object]) -> None:
    """Hand on each message of a pipe, and None at its end."""
    with suppress(OSError, ValueError):  # it is closed here
        while len(header := pipe.read(_HEADER.size)) == _HEADER.size:
            (size,) = _HEADER.unpack(header)
            if len(message := pipe.read(size)) < size:
                break
            put(message)
    put(None)
