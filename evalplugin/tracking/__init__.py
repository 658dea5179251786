"""Writing bake-offs to MLflow, reading them back, and registered models."""

from __future__ import annotations

from evalplugin.tracking.write.links import Links
from evalplugin.tracking.write.tracker import MlflowTracker

__all__ = ["Links", "MlflowTracker"]
