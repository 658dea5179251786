"""Calls on other machines: what a driver sends to a node, and how the node runs it in a process of its own."""

from __future__ import annotations

import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from filelock import FileLock

from evalplugin.base.errors import EngineError, EvalpluginError, PluginError
from evalplugin.execution.engines.base import Needs
from evalplugin.execution.engines.local import Ended, Server, load_result, pickle_call
from evalplugin.execution.isolation import TaskFailure, last_line
from evalplugin.execution.store.versions import code_of, local_sources, package_versions
from evalplugin.execution.worker import Limits, WorkerSettings
from evalplugin.files.inputs import fingerprint_of
from evalplugin.files.outputs import written_whole
from evalplugin.files.uris import scheme_of
from evalplugin.metrics import METRICS
from evalplugin.models import MODELS

Answer = tuple[str, Any, str]  # of a node: kind, value, place; as ``run_call`` returns them
_READY = "ready"  # a file in the folder of a session: this machine has all that its calls need


@dataclass(frozen=True)
class Setup:
    """The needs of a session's calls on a node: plain values, with the content of files."""

    session: str  # its id
    versions: Mapping[str, str]  # by name, of what the driver and a node must share
    plugins: tuple[tuple[Path, bytes], ...]  # resolved path on the driver's machine, and content
    modules: Mapping[str, bytes]  # modules that these import, by paths from their root
    components: Mapping[tuple[str, str], str | None]  # kind and name -> version of its code on the driver
    inputs: Mapping[str, str]  # with fingerprints on the driver
    limits: Limits
    threads: int

    @property
    def folder(self) -> Path:
        """The folder of the session on this machine."""
        return Path(tempfile.gettempdir()) / f"evalplugin-{self.session}"


class RemoteSession:
    """The driver's side of a session on other machines."""

    in_process = False

    def __init__(self, engine: str, needs: Needs, threads: int) -> None:
        """Read the plugins and all that they import.

        Raises:
            PluginError: One of them cannot be read.
        """
        self.engine, self.needs = engine, needs
        plugins = [path.resolve() for path in needs.plugins]
        try:
            modules = {name: file for path in plugins for name, file in local_sources(path).items()}
            self.setup = Setup(
                session=uuid.uuid4().hex[:16],
                versions=package_versions(),
                plugins=tuple((path, path.read_bytes()) for path in plugins),
                modules={name: file.read_bytes() for name, file in modules.items()},
                components={key: _component_code(*key) for key in dict.fromkeys(needs.components)},
                inputs=needs.inputs,
                limits=needs.limits,
                threads=threads,
            )
        except OSError as error:
            raise PluginError(f"{error.filename}: plugin cannot be read: {error.strerror or error}") from None

    def value_of(self, answer: Answer) -> Any:
        """Return the value or the failure of a call.

        Raises:
            EngineError: The node cannot run it.
        """
        kind, value, place = answer
        if kind == "problem":
            raise EngineError(f"engine {self.engine}: node {place}: {value}")
        return load_result(value) if kind == "written" else value

    def remove_files(self) -> None:
        """Remove the files of the session on this machine, which ends the calls that run here."""
        shutil.rmtree(self.setup.folder, ignore_errors=True)


def run_call(setup: Setup, call: bytes | None, shared: Sequence[str], fetch: Callable[[str], Any]) -> Answer:
    """Run a call on this node, in a process of its own.

    Args:
        setup: Of the session.
        call: The function and its arguments; None: check this node alone.
        shared: Names of the arguments that calls share.
        fetch: Returns the bytes of one of them, None if the driver is to send them; they are written once a machine.

    Returns:
        ``written`` and the pickled result or the failure; ``ok``; ``fetch`` and the name of what the driver is to send;
        ``problem`` and what this node lacks; each with the host name of this node.
    """
    return *_answer(setup, call, shared, fetch), socket.gethostname()


def _answer(
    setup: Setup, call: bytes | None, shared: Sequence[str], fetch: Callable[[str], Any]
) -> tuple[str, Any]:
    node_versions = package_versions()
    for name, version in setup.versions.items():
        if node_versions.get(name) != version:
            text = f"{name} is {node_versions.get(name, 'not installed')} there and {version} here"
            return "problem", f"{text}: install the same on every node"
    try:
        if (problem := _prepare(setup)) is not None:
            return "problem", problem
        if call is None:
            return "ok", None
        files = []
        for key in shared:
            file = setup.folder / key
            with FileLock(f"{file}.lock"):
                if not file.exists():
                    if (content := fetch(key)) is None:
                        return "fetch", key
                    with written_whole(file) as out:
                        out.write(content)
            files.append(file)
        return "written", _run(setup, call, files, setup.limits)
    except OSError as error:
        return "problem", f"files for a task cannot be written: {error}; TMPDIR names the folder for them"
    except EvalpluginError as error:  # a full disk
        return "problem", str(error)


def problem_of(components: Mapping[tuple[str, str], str | None], inputs: Mapping[str, str]) -> str | None:
    """Return the first component or input that is missing or different on this machine, as text; or None."""
    for (kind, name), code in components.items():
        try:
            on_node = _component_code(kind, name)
        except EvalpluginError as error:
            return f"{error}; install the package of the {kind} there, or name its file under plugins"
        if on_node != code:
            return f"the {kind} {name} is {on_node} there and {code} here: install the same on every node"
    for name, fingerprint in inputs.items():
        if scheme_of(name) is None and (on_node := fingerprint_of(name, lambda uri: "")) != fingerprint:
            state = on_node if on_node in ("missing", "unset") else "another one than here"
            return f"{name} is {state}: tasks read it, so it must be the same on every node, as on a shared folder"
    return None


def _component_code(kind: str, name: str) -> str | None:
    """Return the version of the code of a model or a metric on this machine, by ``code_of``."""
    registries: dict[str, Any] = {"metric": METRICS, "model": MODELS}
    return code_of(registries[kind].entry(name), modules=False)


def _prepare(setup: Setup) -> str | None:
    """Write the files of the session and check the needs of its calls, once a machine; return a problem, or None."""
    folder = setup.folder
    if (folder / _READY).exists():
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    with FileLock(folder / "lock"):
        if (folder / _READY).exists():
            return None
        files = {f"modules/{name}": content for name, content in setup.modules.items()}
        for number, (origin, content) in enumerate(setup.plugins):
            files[f"plugins/{number}/{origin.name}"] = content
        (folder / "modules").mkdir(exist_ok=True)
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        check = pickle_call(problem_of, {"components": setup.components, "inputs": setup.inputs})
        problem: str | TaskFailure | None = load_result(_run(setup, check, [], Limits()))
        if problem is None:
            (folder / _READY).touch()
        return last_line(problem.error) if isinstance(problem, TaskFailure) else problem


def _plugins(setup: Setup) -> dict[Path, Path]:
    """Return the files of plugins: the original where this machine has it, as files may lie beside it, or the copy."""
    files = {}
    for number, (origin, content) in enumerate(setup.plugins):
        copy = setup.folder / "plugins" / str(number) / origin.name
        is_here = origin.is_file() and origin.read_bytes() == content
        files[origin] = origin if is_here else copy
    return files


def _run(setup: Setup, call: bytes, shared: Sequence[Path], limits: Limits) -> bytes | TaskFailure:
    """Return the result of a process that runs a call; it ends when the folder of the session is removed."""
    folder = setup.folder
    settings = WorkerSettings(folder, setup.threads, limits, _plugins(setup), modules=folder / "modules")
    ended: SimpleQueue[Ended] = SimpleQueue()
    with closing(Server(settings, ended, imports_script=False)) as server:
        server.start(0, call, shared)
        while True:
            with suppress(Empty):
                return server.result(0, ended.get(timeout=1.0).code)
            if not folder.exists():
                return TaskFailure("the session was closed")
