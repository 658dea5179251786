"""The registry of engines: where tasks run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from evalplugin.components.registry import Registry

if TYPE_CHECKING:
    from evalplugin.execution.engines import Needs, Session


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


# Engines of evalplugin are imported by entry points when a config names them, as their layer is a higher one.
ENGINES: Registry[Engine] = Registry("engine", "open(needs)")
