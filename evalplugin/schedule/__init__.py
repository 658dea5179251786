"""The scheduler in the foreground."""

from evalplugin.schedule.scheduler import ScheduledConfig, Scheduler, scheduled_configs

__all__ = ["ScheduledConfig", "Scheduler", "scheduled_configs"]
