"""The driver's side of a session on several machines: what is sent to nodes, and what their answers mean."""

from __future__ import annotations

import pickle
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from evalplugin.base.errors import EngineError, PluginError
from evalplugin.execution.engines.base import Needs
from evalplugin.execution.engines.node import Setup, folder_of
from evalplugin.execution.engines.processes import load_result
from evalplugin.execution.store.versions import code_of, imported_files, package_versions

__all__ = ["Answer", "Remote"]

Answer = tuple[str, Any, str]  # of a node: kind, value, place; as ``node.run_call`` returns them


class Remote:
    """What every call of a session carries."""

    def __init__(self, engine: str, needs: Needs, threads: int) -> None:
        """Read the plugins and all that they import.

        Raises:
            PluginError: One of them cannot be read.
        """
        self.engine = engine
        self.session = uuid.uuid4().hex[:16]
        self.versions: dict[str, str] = package_versions()
        plugins = [path.resolve() for path in needs.plugins]
        try:
            modules = {name: file for path in plugins for name, file in imported_files(path).items()}
            setup = Setup(
                session=self.session,
                plugins=tuple((path, path.read_bytes()) for path in plugins),
                modules={name: file.read_bytes() for name, file in modules.items()},
                components=_components(needs),
                inputs=needs.inputs,
                limits=needs.limits,
                threads=threads,
            )
        except OSError as error:
            raise PluginError(f"{error.filename}: plugin cannot be read: {error.strerror or error}") from None
        self.setup = setup

    @property
    def call(self) -> bytes:
        """The arguments that all calls share, pickled: a node without evalplugin can receive them."""
        return pickle.dumps(self.setup, protocol=5)

    def value_of(self, answer: Answer) -> Any:
        """Return the value or the failure of a call.

        Raises:
            EngineError: The node cannot run it.
        """
        kind, value, place = answer
        if kind == "problem":
            raise EngineError(f"engine {self.engine}: node {place}: {value}")
        return load_result(value) if isinstance(value, bytes) else value

    def remove(self) -> None:
        """Remove the files of the session on this machine."""
        with suppress(OSError):
            shutil.rmtree(folder_of(self.session), ignore_errors=True)


def _components(needs: Needs) -> Mapping[tuple[str, str], str | None]:
    from evalplugin.metrics import METRICS
    from evalplugin.models import MODELS

    registries: dict[str, Any] = {"metric": METRICS, "model": MODELS}
    return {
        (kind, name): code_of(registries[kind].entry(name), environment=False)
        for kind, name in dict.fromkeys(needs.components)
    }
