"""The seam between tasks and engines: sessions that run calls of functions, and the loop over calls."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field

from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.worker import Limits

UsersPerTask = Annotated[
    int, Field(ge=1, description="test users of one model above which they are split into ranges of tasks")
]
Handle = Any  # of arguments that were put; only the session that made it can read it


@dataclass(frozen=True)
class Needs:
    """The needs of the calls that an engine is opened for."""

    folder: Path  # an empty folder for files, on this machine
    plugins: Sequence[Path] = ()  # files that are loaded before a call
    limits: Limits = field(default_factory=Limits)  # of each call
    workers: int | None = None  # calls at a time; None: as many as the engine has room for
    # Kind and name of what calls use of the registries, such as ("model", "surprise.SVD").
    components: Sequence[tuple[str, str]] = ()
    inputs: Mapping[str, str] = field(default_factory=dict)  # files that calls read, with fingerprints here
    base: Path = Path()  # of relative paths: the folder of the config
    report: Callable[[str], None] = lambda text: None  # receives a line on the nodes


@dataclass(frozen=True)
class Call:
    """A call of a function of a module, with a number that is unique in the session."""

    number: int
    function: Callable[..., Any]
    shared: Sequence[Handle] = ()  # arguments that were put
    rest: Mapping[str, Any] = field(default_factory=dict)  # the other keyword arguments


class Session(Protocol):
    """An open engine.

    Function and arguments of a call can be pickled. Its value is returned, or a ``TaskFailure`` where it raised, ended
    its process, or broke a limit: other calls never notice.
    """

    slots: int  # calls that run at a time
    in_process: bool  # whether a call runs in this process, within ``wait``: nothing is pickled

    def put(self, value: Mapping[str, Any]) -> Handle:
        """Store large arguments that several calls share: once, read-only, mapped into memory on each node."""

    def submit(self, call: Call) -> None:
        """Start a call."""

    def wait(self) -> list[tuple[int, Any]]:
        """Return number and value of each call that has ended since the last time: at least one."""

    def describe(self) -> str:
        """Return where calls run now, for progress, such as ``in 4 processes``; empty: in this process."""
        return ""

    def close(self) -> None:
        """End all that runs, on every node, and remove its files; nothing can be submitted afterwards."""


class Engine(Protocol):
    """A frozen dataclass whose fields are its parameters. It opens sessions, each for the tasks of one bake-off.

    An optional attribute ``users_per_task``: the ranges into which the users of one model are split.
    """

    def open(self, needs: Needs) -> AbstractContextManager[Session]:
        """Return a context manager whose value is a session; leaving it closes the session.

        Before it is entered, it is checked that calls can run, and that plugins and inputs are on every node.

        Raises:
            EngineError: A check fails; names the node, the value and what to do.
        """


def run_calls(session: Session, calls: Iterable[Call | None]) -> Generator[tuple[int, Any | TaskFailure]]:
    """Run calls, as many at a time as the session has slots; yield number and value of each as soon as it has ended.

    ``calls`` is asked for no more calls than can start. Where it yields None, the next call depends on the value of a
    running one, and it is asked again when a call has ended. Closing the generator closes the session.
    """
    waiting, running = iter(calls), 0

    def fill() -> None:
        nonlocal running
        while running < session.slots and (call := next(waiting, None)) is not None:
            session.submit(call)
            running += 1

    try:
        fill()
        while running:
            ended = session.wait()
            running -= len(ended)
            if not session.in_process:
                fill()  # before values are yielded, so that no process waits for them to be logged
            yield from ended
            fill()
    except BaseException:
        session.close()
        raise
