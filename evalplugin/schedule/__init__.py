"""Bake-offs by schedule: a scheduler of our own in the foreground, and units for those of others."""

from evalplugin.schedule.scheduler import Options, Scheduler
from evalplugin.schedule.units import KINDS, Kind, Planned, planned, units

__all__ = ["KINDS", "Kind", "Options", "Planned", "Scheduler", "planned", "units"]
