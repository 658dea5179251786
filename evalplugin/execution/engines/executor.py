"""The engine executor: tasks in any executor of ``concurrent.futures``, as of Dask."""

from __future__ import annotations

import concurrent.futures
import importlib
import runpy
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from evalplugin.base.errors import EngineError, Problem, how_to_install
from evalplugin.base.units import count_text
from evalplugin.data import LoadContext
from evalplugin.execution.engines.base import Handle, Needs, Session, UsersPerTask
from evalplugin.execution.engines.bootstrap import on_node
from evalplugin.execution.engines.processes import pickle_call, write_shared
from evalplugin.execution.engines.remote import Answer, Remote

__all__ = ["Executor"]

_PROBE_SECONDS = 120.0


@dataclass(frozen=True)
class Executor:
    """Any executor of Python's concurrent.futures: of processes, of Dask, of MPI, of Slurm through dask-jobqueue.

    `factory` names a function that returns one, with `params` as its arguments: `package.module:function`, or
    `file.py:function` with the file beside the config. How many tasks it gets at a time is `workers`, which must be
    given. Each task runs in a process of its own that the executor's worker starts, within the `limits` of the config.
    A fold is sent once to each machine. Workers must have the same Python, evalplugin and libraries as this machine:
    checked before anything is fitted, and again by each task. The executor is shut down at the end; one that has
    started a cluster should end it then, as the example for Dask does. A worker that is lost is an error, unless the
    executor runs its tasks again: the results until then are in the store.
    """

    factory: Annotated[
        str,
        Field(
            pattern=r".+:\w+$",
            description="`module:function` or `file.py:function`, which returns an executor",
        ),
    ]
    params: Annotated[Mapping[str, Any], Field(description="arguments of the function")] = field(
        default_factory=dict
    )
    users_per_task: UsersPerTask = 100_000

    def check(self, context: LoadContext) -> list[Problem]:
        """Return what is wrong with the factory, as far as it is known without running it."""
        source = self.factory.rpartition(":")[0]
        if source.endswith(".py") and not (context.base / source).is_file():
            return [Problem(("factory",), f"no such file: {context.base / source}")]
        return []

    @contextmanager
    def open(self, needs: Needs) -> Generator[Session]:
        """Yield a session on the workers of a new executor.

        Raises:
            EngineError: There is no executor, or a worker lacks something.
        """
        if needs.workers is None:
            raise EngineError(
                "engine executor: workers: must be given: how many tasks the executor gets at a time"
            )
        remote = Remote("executor", needs, threads=1)
        session = _ExecutorSession(self._made(needs.base), needs, remote, needs.workers)
        try:
            session.probe()
            yield session
        finally:
            session.close()

    def _made(self, base: Path) -> concurrent.futures.Executor:
        source, _, name = self.factory.rpartition(":")
        try:
            if source.endswith(".py"):
                function = runpy.run_path(str(base / source), run_name=Path(source).stem)[name]
            else:
                function = getattr(importlib.import_module(source), name)
            made = function(**self.params)
        except KeyError:
            raise EngineError(f"engine executor: {base / source} has no function {name}") from None
        except Exception as error:
            extra = isinstance(error, ModuleNotFoundError) and error.name in ("dask", "distributed")
            hint = f"; {how_to_install('distributed', 'dask')}" if extra else ""
            raise EngineError(
                f"engine executor: {self.factory} fails: {type(error).__name__}: {error}{hint}"
            ) from error
        if not isinstance(made, concurrent.futures.Executor) and not callable(getattr(made, "submit", None)):
            raise EngineError(
                f"engine executor: {self.factory} returns {type(made).__name__}, and no executor of "
                f"concurrent.futures"
            )
        executor: concurrent.futures.Executor = made
        return executor


class _ExecutorSession:
    in_process = False

    def __init__(
        self, executor: concurrent.futures.Executor, needs: Needs, remote: Remote, workers: int
    ) -> None:
        self._executor, self._needs, self._remote, self.slots = executor, needs, remote, workers
        self._setup = remote.setup
        self._running: dict[Future[Answer], tuple[int, bytes, tuple[str, ...]]] = {}
        self._put = 0

    def probe(self) -> None:
        """Check the workers: as many calls as there are tasks at a time, as an executor does not name them."""
        probes = [self._submit(None, (), {}) for _ in range(self.slots)]
        done, waiting = concurrent.futures.wait(probes, timeout=_PROBE_SECONDS)
        for future in done:
            self._remote.value_of(self._answer(future))
        if waiting:
            raise EngineError(f"engine executor: no worker answered within {_PROBE_SECONDS:g} s")

    def put(self, value: Mapping[str, Any]) -> Handle:
        """Keep the arguments in a file, whose content is sent to a machine that lacks it."""
        self._put += 1
        key = f"shared-{self._put}"
        write_shared(value, self._needs.folder / key)
        return key

    def submit(
        self, number: int, function: Callable[..., Any], shared: Sequence[Handle], rest: Mapping[str, Any]
    ) -> None:
        call, keys = pickle_call(function, rest), tuple(shared)
        self._running[self._submit(call, keys, {})] = number, call, keys

    def wait(self) -> list[tuple[int, Any]]:
        """Wait for results; a call whose machine lacks shared arguments is handed out again with them."""
        while True:
            found = []
            for future in concurrent.futures.wait(self._running, return_when=FIRST_COMPLETED).done:
                number, call, keys = self._running.pop(future)
                answer = self._answer(future)
                if answer[0] == "fetch":
                    sent = {key: (self._needs.folder / key).read_bytes() for key in keys}
                    self._running[self._submit(call, keys, sent)] = number, call, keys
                else:
                    found.append((number, self._remote.value_of(answer)))
            if found:
                return found

    def _submit(self, call: bytes | None, keys: tuple[str, ...], sent: Mapping[str, bytes]) -> Future[Answer]:
        try:
            return self._executor.submit(
                _on_worker, self._remote.versions, self._setup, call, keys, dict(sent)
            )
        except Exception as error:
            raise EngineError(f"engine executor: {type(error).__name__}: {error}") from error

    def _answer(self, future: Future[Answer]) -> Answer:
        try:
            return future.result()
        except Exception as error:
            raise EngineError(
                f"engine executor: a worker was lost, or cannot run a task: {type(error).__name__}: {error}; "
                f"evalplugin must be installed where the executor's workers run"
            ) from error

    def describe(self) -> str:
        return f"by an executor, {count_text(self.slots, 'task')} at a time"

    def close(self) -> None:
        """Cancel what waits, end what runs on this machine, and shut the executor down."""
        for future in self._running:
            future.cancel()
        self._running.clear()
        self._remote.remove()  # a call that runs on this machine ends without it
        with suppress(Exception):  # a broken executor has nothing left to end
            self._executor.shutdown(wait=False, cancel_futures=True)


def _on_worker(
    versions: dict[str, str],
    setup: bytes,
    call: bytes | None,
    keys: tuple[str, ...],
    sent: dict[str, bytes],
) -> Answer:
    """Run a call, or the check alone, in a worker of the executor."""
    import socket

    return on_node(versions, socket.gethostname(), setup, {"call": call, "shared": keys, "fetch": sent.get})
