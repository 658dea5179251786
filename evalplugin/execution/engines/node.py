"""A call on a node of an engine with several machines: in a process of its own there, with its limits."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from evalplugin.base.errors import EvalpluginError
from evalplugin.execution.engines.processes import (
    hold_signals,
    load_result,
    pickle_call,
    start_worker,
    wait_for_workers,
)
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.store.versions import code_of, package_versions
from evalplugin.execution.worker import Limits, PluginFile
from evalplugin.files.inputs import fingerprint_of
from evalplugin.files.outputs import written_whole
from evalplugin.files.uris import scheme_of

__all__ = ["Setup", "component_code", "folder_of", "problem_of", "run_call"]

_READY = "ready"  # a file in the folder of a session: all has been found on this machine


@dataclass(frozen=True)
class Setup:
    """What the calls of a session need on a node: as plain values, with the content of files."""

    session: str  # its id
    plugins: tuple[tuple[Path, bytes], ...]  # resolved path on the driver's machine, and content
    modules: Mapping[str, bytes]  # modules that these import, by paths from their root
    components: Mapping[tuple[str, str], str | None]  # kind and name -> version of its code on the driver
    inputs: Mapping[str, str]  # with fingerprints on the driver
    limits: Limits
    threads: int


class _ClosedError(Exception):
    """The driver has closed the session while a call was running."""


def folder_of(session: str) -> Path:
    """Return the folder of a session on this machine."""
    return Path(tempfile.gettempdir()) / f"evalplugin-{session}"


def run_call(
    versions: Mapping[str, str],
    setup: Setup,
    call: bytes | None,
    shared: Sequence[str],
    fetch: Callable[[str], Any],
) -> tuple[str, Any]:
    """Run a call in a process of its own.

    Args:
        versions: Of the driver.
        setup: Of the session.
        call: The function and its arguments; None: check this node alone.
        shared: Names of the arguments that calls share.
        fetch: Returns the bytes of one of them, None if the driver is to send them; they are written once a machine.

    Returns:
        ``written`` and the pickled result or the failure; ``ok``; ``fetch`` and the name of what the driver is to send;
        ``problem`` and what this node lacks.
    """
    found = package_versions()
    if differing := [name for name, one in versions.items() if found.get(name) != one]:
        name = differing[0]
        text = f"{name} is {found.get(name, 'not installed')} there and {versions[name]} here"
        return "problem", f"{text}: install the same on every node"
    folder = folder_of(setup.session)
    try:
        if (problem := _prepare(folder, setup)) is not None:
            return "problem", problem
        if call is None:
            return "ok", None
        files = [_file_of(folder, key, fetch) for key in shared]
        if None in files:
            return "fetch", shared[files.index(None)]
        return "written", _run(folder, setup, call, [file for file in files if file is not None])
    except _ClosedError:
        return "written", TaskFailure("the session was closed")
    except OSError as error:
        return "problem", f"files for a task cannot be written: {error}; TMPDIR names the folder for them"
    except EvalpluginError as error:  # a full disk
        return "problem", str(error)


def problem_of(components: Mapping[tuple[str, str], str | None], inputs: Mapping[str, str]) -> str | None:
    """Return what is missing or different where this runs; None if nothing is."""
    for (kind, name), code in components.items():
        try:
            found = component_code(kind, name)
        except EvalpluginError as error:
            return f"{error}; install the package of the {kind} there, or name its file under plugins"
        if found != code:
            return f"the {kind} {name} is {found} there and {code} here: install the same on every node"
    for name, fingerprint in inputs.items():
        if scheme_of(name) is None and (found := fingerprint_of(name, lambda uri: "")) != fingerprint:
            what = found if found in ("missing", "unset") else "another one than here"
            return f"{name} is {what}: tasks read it, so it must be the same on every node, as on a shared folder"
    return None


def component_code(kind: str, name: str) -> str | None:
    """Return the version of the code of a model or a metric, as ``code_of`` here."""
    from evalplugin.metrics import METRICS
    from evalplugin.models import MODELS

    registries: dict[str, Any] = {"metric": METRICS, "model": MODELS}
    return code_of(registries[kind].entry(name), environment=False)


def _prepare(folder: Path, setup: Setup) -> str | None:
    """Write the files of the session, once a machine, and check all that calls need; return what is lacking."""
    if (folder / _READY).exists():
        return None
    folder.mkdir(mode=0o700, exist_ok=True)
    with FileLock(folder / "lock"):
        if (folder / _READY).exists():
            return None
        for name, content in setup.modules.items():
            file = folder / "modules" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        (folder / "modules").mkdir(exist_ok=True)
        for number, (origin, content) in enumerate(setup.plugins):
            copy = _copy(folder, number, origin)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        check = pickle_call(problem_of, {"components": setup.components, "inputs": setup.inputs})
        written = _run(folder, setup, check, [], limits=Limits())
        problem: str | TaskFailure | None = load_result(written) if isinstance(written, bytes) else written
        if isinstance(problem, TaskFailure):
            problem = problem.error.strip().splitlines()[-1]
        if problem is None:
            (folder / _READY).touch()
        return problem


def _plugins(folder: Path, setup: Setup) -> list[PluginFile]:
    """Return local plugin paths, falling back to the shipped copies where the originals or their modules differ."""
    paths = []
    for number, (origin, content) in enumerate(setup.plugins):
        is_here = _content_of(origin) == content and all(
            _content_of(origin.parent / name) in (None, module) for name, module in setup.modules.items()
        )
        paths.append(PluginFile(origin if is_here else _copy(folder, number, origin), origin))
    return paths


def _content_of(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _copy(folder: Path, number: int, origin: Path) -> Path:
    return folder / "plugins" / str(number) / origin.name


def _file_of(folder: Path, key: str, fetch: Callable[[str], Any]) -> Path | None:
    """Return the file with shared arguments, written by the first call on this machine that needs it."""
    file = folder / key
    if not file.exists():
        with FileLock(folder / f"{key}.lock"):
            if not file.exists():
                if (content := fetch(key)) is None:
                    return None
                with written_whole(file) as out:
                    out.write(content)
    return file


def _run(
    folder: Path, setup: Setup, call: bytes, shared: Sequence[Path], *, limits: Limits | None = None
) -> bytes | TaskFailure:
    """Return what a process has written that runs a call; it ends when the folder of the session is removed."""
    with hold_signals():
        worker = start_worker(
            uuid.uuid4().hex[:12], call, shared,
            folder=folder, threads=setup.threads, limits=setup.limits if limits is None else limits,
            plugins=_plugins(folder, setup), modules=folder / "modules",
        )  # fmt: skip
    try:
        while not wait_for_workers([worker], at_most=1.0):
            if not folder.exists():
                raise _ClosedError
        return worker.written()
    finally:
        worker.kill()
