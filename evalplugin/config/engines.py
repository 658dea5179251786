"""The registry of engines: where tasks run."""

from typing import Any

from evalplugin.components.registry import Registry

# Engines of evalplugin are imported by entry points when a config names them, as their layer is a higher one; what one
# does is the protocol ``evalplugin.execution.engines.Engine``.
ENGINES: Registry[Any] = Registry("engine", "open(needs)")
