"""The engine executor: tasks in any executor of ``concurrent.futures``, such as Dask's."""

from __future__ import annotations

import concurrent.futures
import pkgutil
import runpy
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from evalplugin.base.errors import EngineError, Problem, how_to_install
from evalplugin.base.units import count_text
from evalplugin.data import LoadContext
from evalplugin.execution.engines.base import Call, Handle, Needs, Session, UsersPerTask
from evalplugin.execution.engines.local import pickle_call, write_shared
from evalplugin.execution.engines.remote import Answer, RemoteSession, run_call

_PROBE_SECONDS = 120.0


@dataclass(frozen=True)
class Executor:
    """Any executor of Python's concurrent.futures: of processes, of Dask, of MPI, of Slurm through dask-jobqueue.

    `factory` names a function that returns one, with `params` as its arguments; a file is beside the config.
    `workers`, the tasks at a time, must be given; `score` takes other engines. Each task runs in a process of its own
    that the executor's worker starts, within the `limits` of the config. Workers must have the same Python,
    evalplugin and libraries as this machine, which is checked. The executor is shut down at the end, and should end a
    cluster that it has started. A lost worker is an error, unless the executor runs its tasks again: the results
    until then are in the store.
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
        """Return a problem if the file of the factory does not exist; the factory is not run."""
        source = self.factory.rpartition(":")[0]
        if source.endswith(".py") and not (context.base / source).is_file():
            return [Problem(("factory",), f"no such file: {context.base / source}")]
        return []

    @contextmanager
    def open(self, needs: Needs) -> Generator[Session]:
        """Yield a session on the workers of a new executor.

        Raises:
            EngineError: The factory returns no executor, or a worker lacks something.
        """
        if needs.workers is None:
            raise EngineError(
                "engine executor: workers: must be given, by the config or by --workers: how many tasks the executor "
                "gets at a time"
            )
        with closing(_ExecutorSession(self, needs, needs.workers)) as session:
            session.probe()
            yield session

    def make(self, base: Path) -> concurrent.futures.Executor:
        """Return the executor of the factory; ``base`` is the folder of the config."""
        source, _, name = self.factory.rpartition(":")
        try:
            if source.endswith(".py"):
                function = runpy.run_path(str(base / source), run_name=Path(source).stem)[name]
            else:
                function = pkgutil.resolve_name(self.factory)
            executor: concurrent.futures.Executor = function(**self.params)
        except KeyError:
            raise EngineError(f"engine executor: {base / source} has no function {name}") from None
        except Exception as error:
            extra = isinstance(error, ModuleNotFoundError) and error.name in ("dask", "distributed")
            hint = f"; {how_to_install('distributed', 'dask')}" if extra else ""
            raise EngineError(
                f"engine executor: {self.factory} fails: {type(error).__name__}: {error}{hint}"
            ) from error
        if not callable(getattr(executor, "submit", None)):
            raise EngineError(
                f"engine executor: {self.factory} returns {type(executor).__name__}, which is not an executor of "
                f"concurrent.futures"
            )
        return executor


class _ExecutorSession(RemoteSession):
    def __init__(self, engine: Executor, needs: Needs, workers: int) -> None:
        super().__init__("executor", needs, threads=1)
        self._executor, self.slots = engine.make(needs.base), workers
        self._running: dict[Future[Answer], tuple[int, bytes, Sequence[str]]] = {}

    def probe(self) -> None:
        """Check the workers: as many calls as there are tasks at a time, as an executor does not name them."""
        probes = [self._submit(None, (), {}) for _ in range(self.slots)]
        done, waiting = concurrent.futures.wait(probes, timeout=_PROBE_SECONDS)
        for future in done:
            self.value_of(self._answer(future))
        if waiting:
            raise EngineError(f"engine executor: no worker answered within {_PROBE_SECONDS:g} s")

    def put(self, value: Mapping[str, Any]) -> Handle:
        """Keep the arguments in a file, whose content is sent to a machine that lacks it."""
        return write_shared(value, self.needs.folder).name

    def submit(self, call: Call) -> None:
        pickled = pickle_call(call.function, call.rest)
        self._running[self._submit(pickled, call.shared, {})] = call.number, pickled, call.shared

    def wait(self) -> list[tuple[int, Any]]:
        """Wait for results; a call whose machine lacks shared arguments is handed out again with them."""
        while True:
            ended = []
            for future in concurrent.futures.wait(self._running, return_when=FIRST_COMPLETED).done:
                number, call, keys = self._running.pop(future)
                answer = self._answer(future)
                if answer[0] == "fetch":
                    sent = {key: (self.needs.folder / key).read_bytes() for key in keys}
                    self._running[self._submit(call, keys, sent)] = number, call, keys
                else:
                    ended.append((number, self.value_of(answer)))
            if ended:
                return ended

    def _submit(self, call: bytes | None, keys: Sequence[str], sent: Mapping[str, bytes]) -> Future[Answer]:
        try:
            return self._executor.submit(run_call, self.setup, call, keys, sent.get)
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
        self.remove_files()
        with suppress(Exception):  # a broken executor has nothing left to end
            self._executor.shutdown(wait=False, cancel_futures=True)
