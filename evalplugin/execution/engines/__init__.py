"""Engines: where the tasks of a bake-off run."""

from evalplugin.execution.engines.base import Call, Handle, Needs, Session, run_calls
from evalplugin.execution.engines.local import Local

__all__ = ["Call", "Handle", "Local", "Needs", "Session", "run_calls"]
