"""The engine Ray: tasks on the machines of a Ray cluster."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from evalplugin.base.errors import EngineError
from evalplugin.base.signals import restored_signals
from evalplugin.base.units import bytes_of, count_text
from evalplugin.config.sections import Size
from evalplugin.execution.engines.base import Call, Handle, Needs, Session, UsersPerTask
from evalplugin.execution.engines.local import pickle_call, write_shared
from evalplugin.execution.engines.remote import Answer, RemoteSession, Setup, run_call
from evalplugin.execution.isolation import TaskFailure

_PROBE_SECONDS = 120.0  # for a node to start a process and to import all that is needed
_CLEAN_SECONDS = 10.0
_CONNECT_SECONDS = 5.0  # within which something must answer at the address
_HELP = "see `evalplugin describe engine ray`"


@dataclass(frozen=True)
class Ray:
    """The machines of a Ray cluster: `pip install ray`, here and on every node.

    Each task runs in a process of its own, within the `limits` of the config. A fold is written once to the disk of
    each node. What ran on a lost node is run again on another one. Nodes must have the same Python, evalplugin and
    libraries as this machine, which is checked; plugin files and the modules that they import are sent along. By
    default, `workers` is as many tasks as the nodes have CPUs for; a larger number makes a cluster with an autoscaler
    grow.

    - `address: local` starts Ray on this machine, and ends it with the bake-off; for a command, RAY_ADDRESS=local.
    - `address: auto` is the cluster of this machine: where `ray start` was run, and in a job of `ray job submit`, which
      sets RAY_ADDRESS.
    - `address: 10.0.0.1:6379` is the head node of a cluster of which this machine is a node.
    - `address: ray://10.0.0.1:10001` is Ray Client, from a machine outside of the cluster.

    Kubernetes, on a RayCluster of KubeRay: `ray job submit --address http://HEAD:8265 --working-dir . -- evalplugin run
    --engine ray config.yaml`. Databricks: `ray.util.spark.setup_ray_cluster(max_worker_nodes=4)` in the notebook.
    Slurm: `srun --nodes=4 ray symmetric-run --address HEAD:6379 -- evalplugin run --engine ray config.yaml`.

    Where a cluster asks for a token, as by default from Ray 2.59 on, RAY_AUTH_TOKEN holds it, or the file
    `~/.ray/auth_token`.
    """

    requires: ClassVar[tuple[str, ...]] = ("ray",)

    address: Annotated[
        str, Field(min_length=1, description="auto, local, HOST:PORT of the head node, or ray://HOST:PORT")
    ] = "auto"
    cpus: Annotated[int, Field(ge=1, description="CPUs of each task: a reservation, and its threads")] = 1
    memory: Annotated[
        Size | None,
        Field(description="memory of each task, such as 8GB: a reservation; `limits.memory` bounds it"),
    ] = None
    retries: Annotated[
        int,
        Field(
            ge=0,
            description="how often a task is run again whose node was lost; a failure of a model never is",
        ),
    ] = 2
    users_per_task: UsersPerTask = 100_000

    @contextmanager
    def open(self, needs: Needs) -> Generator[Session]:
        """Yield a session on all nodes of the cluster.

        Raises:
            EngineError: No cluster answers, or a node lacks something.
        """
        with _connected(self.address) as ray, closing(_RaySession(ray, self, needs)) as session:
            session.probe()
            yield session


class _RaySession(RemoteSession):
    def __init__(self, ray: Any, engine: Ray, needs: Needs) -> None:
        super().__init__("ray", needs, engine.cpus)
        self._ray, self._parameters = ray, engine
        self._memory = None if engine.memory is None else bytes_of(engine.memory)
        self._task = ray.remote(_run_on_node)
        self._setup = ray.put(self.setup)
        self._running: dict[Any, int] = {}  # reference of the result -> number of the call
        self._closed = False
        self.slots = 0

    def probe(self) -> None:
        """Check every node that is there now; one that joins later is checked by its first call."""
        parameters, nodes = self._parameters, self._nodes()
        fitting = [node for node in nodes if self._fits(node) > 0]
        if not fitting:
            asked = f"{parameters.cpus} CPUs" + (f" and {parameters.memory}" if parameters.memory else "")
            largest = max((node["Resources"].get("CPU", 0) for node in nodes), default=0)
            raise EngineError(
                f"engine ray: no node has {asked} for a task (cpus, memory): the largest of "
                f"{count_text(len(nodes), 'node')} has {largest:g} CPUs"
            )
        self._check([node["NodeID"] for node in fitting])
        room = sum(self._fits(node) for node in fitting)
        self.slots = self.needs.workers or room
        self._on_nodes = f"on {count_text(len(fitting), 'node')}"
        self.needs.report(
            f"engine ray: {count_text(len(fitting), 'node')} with room for {count_text(room, 'task')} at a time"
        )

    def _nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _options(self, node: str) -> dict[str, Any]:
        """Return the options of a task that runs on a node, whatever else runs there."""
        pinned = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        return {"num_cpus": 0, "scheduling_strategy": pinned(node, soft=False)}

    def _fits(self, node: Mapping[str, Any]) -> int:
        """Return how many tasks a node has room for."""
        has = node["Resources"]
        rooms = [has.get("CPU", 0) // self._parameters.cpus]
        if self._memory is not None:
            rooms.append(has.get("memory", 0) // self._memory)
        return int(min(rooms))

    def _check(self, nodes: Sequence[str]) -> None:
        task = self._task.options
        checks = {
            task(name="evalplugin check", **self._options(node)).remote(self._setup, None, []): node
            for node in nodes
        }
        errors, until = self._ray.exceptions, time.monotonic() + _PROBE_SECONDS
        for ref, node in checks.items():
            try:
                self.value_of(self._ray.get(ref, timeout=max(0.0, until - time.monotonic())))
            except errors.GetTimeoutError:
                raise EngineError(
                    f"engine ray: node {node[:6]} did not answer within {_PROBE_SECONDS:g} s"
                ) from None
            except errors.RayError as error:
                raise EngineError(
                    f"engine ray: node {node[:6]}: {_cause(error)}; evalplugin must be installed on every node"
                ) from None

    def put(self, value: Mapping[str, Any]) -> Handle:
        """Store the arguments in the cluster as the bytes of a file, which a node maps into memory."""
        file = write_shared(value, self.needs.folder)
        content = np.fromfile(file, dtype=np.uint8)
        file.unlink()
        return file.name, self._ray.put(content)

    def submit(self, call: Call) -> None:
        """Hand a call to Ray, which starts it on a node with room."""
        options = {
            "name": f"evalplugin call {call.number}",
            "num_cpus": self._parameters.cpus,
            "memory": self._memory,
            "max_retries": self._parameters.retries,  # of lost nodes and processes
            "retry_exceptions": False,
            "scheduling_strategy": "SPREAD",
        }
        pickled = pickle_call(call.function, call.rest)
        ref = self._task.options(**options).remote(self._setup, pickled, list(call.shared))
        self._running[ref] = call.number

    def wait(self) -> list[tuple[int, Any]]:
        """Wait for a result."""
        ended, _ = self._ray.wait(list(self._running), num_returns=1)
        return [self._ended(ref) for ref in ended]

    def _ended(self, ref: Any) -> tuple[int, Any]:
        errors = self._ray.exceptions
        number = self._running.pop(ref)
        try:
            return number, self.value_of(self._ray.get(ref))
        except errors.RayTaskError as error:
            raise EngineError(f"engine ray: a task could not be run: {_cause(error)}") from None
        except errors.RayError as error:
            times = f"engine.retries: {self._parameters.retries}"
            return number, TaskFailure(
                f"{type(error).__name__}: {_first_line(error)}\n"
                f"the node of the task, or Ray's process on it, was lost each time that it was run ({times})"
            )

    def describe(self) -> str:
        return self._on_nodes

    def close(self) -> None:
        """Cancel what runs, and remove the files of the session on every node."""
        if self._closed:
            return
        self._closed = True
        for ref in self._running:
            with suppress(Exception):
                self._ray.cancel(ref, force=True)
        self._running.clear()
        with suppress(Exception):  # a node that is gone has nothing left to remove
            self._clean()
        self.remove_files()

    def _clean(self) -> None:
        task, folder = self._ray.remote(_remove), self.setup.folder.name
        refs = [
            task.options(max_retries=0, **self._options(node["NodeID"])).remote(folder)
            for node in self._nodes()
        ]
        self._ray.wait(refs, num_returns=len(refs), timeout=_CLEAN_SECONDS)


def _run_on_node(setup: Setup, call: bytes | None, shared: Sequence[tuple[str, Any]]) -> Answer:
    """Return what ``run_call`` returns, in a task of Ray; ``shared`` has names with references to the content."""
    import ray

    refs = dict(shared)
    return run_call(setup, call, list(refs), lambda key: ray.get(refs[key]))


def _remove(folder: str) -> None:
    shutil.rmtree(f"{tempfile.gettempdir()}/{folder}", ignore_errors=True)


def _cause(error: BaseException) -> str:
    """Return the error that was raised on the node as text; Ray's own error begins with a traceback."""
    cause = getattr(error, "cause", None)
    return _first_line(error) if cause is None else f"{type(cause).__name__}: {_first_line(cause)}"


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Yield the module ``ray``, connected to a cluster; an existing connection of this process stays open.

    Raises:
        EngineError: There is no cluster at the address, or this process is connected to another one.
    """
    token_mode = os.environ.get("RAY_AUTH_MODE")  # which Ray sets where it starts a cluster
    # Of the models' processes, not of ours: Ray would set what they see.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray: Any = importlib.import_module("ray")
    importlib.import_module("ray.util.scheduling_strategies")
    if ray.is_initialized():
        if address != "auto":
            raise EngineError(
                "engine ray: this process is connected to a Ray cluster: take address: auto, or call ray.shutdown()"
            )
        yield ray
        return
    target = (os.environ.get("RAY_ADDRESS") if address == "auto" else None) or address
    if target not in ("local", "auto"):
        _check_answers(target)
    with restored_signals():
        try:
            ray.init(
                address=target,
                include_dashboard=False if target == "local" else None,
                log_to_driver=False,
                logging_level="WARNING",
            )
        except Exception as error:  # noqa: BLE001 - Ray raises errors of many kinds
            raise EngineError(
                f"engine ray: cannot connect to {address}: {type(error).__name__}: {_first_line(error)}; {_HELP}"
            ) from None
    try:
        yield ray
    finally:
        with restored_signals():
            ray.shutdown()
        if token_mode is None and os.environ.pop("RAY_AUTH_MODE", None) is not None:
            _forget_tokens()


def _forget_tokens() -> None:
    """Make Ray read the environment again, for a process that goes on to a cluster without tokens.

    Ray keeps the mode and the token of the first cluster, and the next one then loses what its tasks return. The mode
    comes first: a thread of Ray's that ends later must not look for a token which is gone.
    """
    # Private: Ray has no public way to reset them. Held by test_ray_starts_on_this_machine_and_ends.
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def _check_answers(target: str) -> None:
    host, _, port = target.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise EngineError(
            f"engine ray: {target} is not an address of a cluster: give HOST:PORT of the head node, such as "
            f"10.0.0.1:6379, or ray://HOST:10001; http:// is for `ray job submit` alone; {_HELP}"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"engine ray: no response from {target} ({error}): is the cluster running, and does this machine reach "
            f"it? {_HELP}"
        ) from None


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message that is not blank; without one, the name of its type."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
