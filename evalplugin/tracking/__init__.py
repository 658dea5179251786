"""What is logged of a bake-off, as plain values, and how it gets into MLflow."""

from __future__ import annotations

from evalplugin.tracking.write.board import Links
from evalplugin.tracking.write.tracker import MlflowTracker

__all__ = ["Links", "MlflowTracker"]
