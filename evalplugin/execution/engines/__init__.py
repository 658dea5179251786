"""Engines: where the tasks of a bake-off run."""

from evalplugin.execution.engines.base import Call, Engine, Handle, Needs, Session, run_calls

__all__ = ["Call", "Engine", "Handle", "Needs", "Session", "run_calls"]
