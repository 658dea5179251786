"""The engine of this machine: this process, or processes of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalplugin.base.errors import EvalpluginError
from evalplugin.base.units import count_text
from evalplugin.execution.engines.base import Handle, Needs, Session, UsersPerTask
from evalplugin.execution.engines.processes import (
    WorkerProcess,
    hold_signals,
    pickle_call,
    start_worker,
    wait_for_workers,
    write_shared,
)
from evalplugin.execution.isolation import TaskFailure, error_text, isolated, raise_interruption
from evalplugin.execution.worker import Limits, PluginFile

__all__ = ["InProcess", "Local", "Processes"]


@dataclass(frozen=True)
class Local:
    """This machine: one task after the other in this process, or ``workers`` processes at a time.

    Every task has a process of its own where there are several workers or limits, so that one that crashes, hangs or
    is killed affects no other.
    """

    users_per_task: UsersPerTask = 100_000

    @contextmanager
    def open(self, needs: Needs) -> Generator[Session]:
        """Yield a session.

        Raises:
            EvalpluginError: The system cannot limit memory.
        """
        in_process = needs.workers in (None, 1) and needs.limits == Limits()
        session: InProcess | Processes = InProcess() if in_process else Processes(needs)
        with closing(session):
            yield session


class InProcess:
    """A session that runs each call in this process when it is waited for."""

    slots = 1
    in_process = True

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Callable[..., Any], dict[str, Any]]] = []

    def put(self, value: Mapping[str, Any]) -> Handle:
        """Return the arguments themselves."""
        return value

    def submit(
        self, number: int, function: Callable[..., Any], shared: Sequence[Handle], rest: Mapping[str, Any]
    ) -> None:
        """Note a call."""
        arguments = {name: one for handle in shared for name, one in handle.items()}
        self._waiting.append((number, function, arguments | dict(rest)))

    def wait(self) -> list[tuple[int, Any]]:
        """Run the call; an interruption by the user is raised."""
        number, function, arguments = self._waiting.pop(0)
        try:
            with isolated():
                return [(number, function(**arguments))]
        except BaseException as error:  # noqa: BLE001 - the edge of a call: recorded whole, the others go on
            raise_interruption(error)
            return [(number, TaskFailure(error_text()))]

    def describe(self) -> str:
        """Return nothing: all runs here."""
        return ""

    def close(self) -> None:
        """Forget what has not run."""
        self._waiting.clear()


class Processes:
    """A session with worker processes; every call has one of its own.

    What is put is written once, and mapped into the memory of every process that needs it.
    """

    in_process = False

    def __init__(self, needs: Needs) -> None:
        """Start nothing yet; together the processes have no more threads than there are processors.

        Raises:
            EvalpluginError: The system cannot limit memory.
        """
        if needs.limits.memory is not None and sys.platform != "linux":
            raise EvalpluginError(
                "limits.memory: only Linux can bound the memory of a process; leave it out here"
            )
        from evalplugin.models import thread_count

        self.slots = needs.workers or 1
        self._needs = needs
        self._threads = max(1, min(thread_count(), _processors() // self.slots))
        self._plugins = [PluginFile(path.resolve(), path.resolve()) for path in needs.plugins]
        self._running: dict[int, WorkerProcess] = {}
        self._written = 0

    def put(self, value: Mapping[str, Any]) -> Path:
        """Write the arguments to a file."""
        self._written += 1
        return write_shared(value, self._needs.folder / f"shared-{self._written}")

    def submit(
        self, number: int, function: Callable[..., Any], shared: Sequence[Handle], rest: Mapping[str, Any]
    ) -> None:
        """Start a process."""
        needs = self._needs
        with hold_signals():
            self._running[number] = start_worker(
                number, pickle_call(function, rest), shared,
                folder=needs.folder, threads=self._threads, limits=needs.limits, plugins=self._plugins,
            )  # fmt: skip

    def wait(self) -> list[tuple[int, Any]]:
        """Wait for a process that has ended."""
        ended = wait_for_workers(list(self._running.values()))
        numbers = [number for number, worker in self._running.items() if worker in ended]
        return [(number, self._running.pop(number).result()) for number in numbers]

    def describe(self) -> str:
        """Return the number of processes."""
        return f"in {count_text(self.slots, 'process')}" if self.slots > 1 else ""

    def close(self) -> None:
        """Kill the processes that are running; the folder is its owner's to remove."""
        for worker in self._running.values():
            worker.kill()
        self._running.clear()


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
