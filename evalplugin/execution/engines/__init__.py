"""Engines: where the tasks of a bake-off run."""

from evalplugin.execution.engines.base import Call, Handle, Needs, Session, run_calls

__all__ = ["Call", "Handle", "Needs", "Session", "run_calls"]
