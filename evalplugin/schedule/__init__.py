"""Schedules: a scheduler in the foreground, and units for other schedulers."""

from evalplugin.schedule.scheduler import Scheduler
from evalplugin.schedule.units import KINDS, ScheduledConfig, scheduled_configs, units

__all__ = ["KINDS", "ScheduledConfig", "Scheduler", "scheduled_configs", "units"]
