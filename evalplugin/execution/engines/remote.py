"""The driver's side of a session on several machines: what is sent to nodes, and what their answers mean."""

from __future__ import annotations

import pickle
import shutil
import uuid
from contextlib import suppress
from typing import Any

from evalplugin.base.errors import EngineError, PluginError
from evalplugin.execution.engines.base import Needs
from evalplugin.execution.engines.node import Setup, component_code, folder_of
from evalplugin.execution.engines.processes import load_result
from evalplugin.execution.store.versions import imported_files, package_versions

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
                components={key: component_code(*key) for key in dict.fromkeys(needs.components)},
                inputs=needs.inputs,
                limits=needs.limits,
                threads=threads,
            )
        except OSError as error:
            raise PluginError(f"{error.filename}: plugin cannot be read: {error.strerror or error}") from None
        # Pickled: a node without evalplugin can receive it.
        self.setup: bytes = pickle.dumps(setup, protocol=5)

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
