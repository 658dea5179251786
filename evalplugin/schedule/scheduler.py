"""Scheduler in the foreground: bake-offs by their schedules, one at a time, each in its own process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, ConfigError
from evalplugin.base.processes import kill_group
from evalplugin.base.signals import deferred_signals
from evalplugin.config import CheckedConfig
from evalplugin.config.cron import next_time
from evalplugin.config.sections import Schedule

# A wait pauses while a machine sleeps: the scheduler wakes up this often to read the clock.
_WAKE_SECONDS = 60


@dataclass(frozen=True)
class ScheduledConfig:
    """A config with a schedule."""

    file: Path  # absolute
    schedule: Schedule

    def next(self, after: datetime) -> datetime:
        """Return the first time after another at which it is due."""
        return next_time(self.schedule.cron, self.schedule.timezone, after)

    def missed(self, due: datetime, moment: datetime) -> tuple[datetime, datetime]:
        """Return the latest time from ``due`` to a moment, and the next: several missed times are a single run."""
        latest = due
        while due <= moment:
            latest, due = due, self.next(due)
        return latest, due


def scheduled_configs(configs: Sequence[CheckedConfig], files: Sequence[Path]) -> list[ScheduledConfig]:
    """Return the configs with their schedules; ``files`` are their paths, in the same order.

    Raises:
        ConfigError: A config without a schedule, or one that is given twice.
    """
    paths = [file.resolve() for file in files]
    twice = dict.fromkeys(str(file) for n, file in enumerate(files) if paths[n] in paths[:n])
    if twice:
        raise ConfigError([f"{file}: is given twice; give each config once" for file in twice])
    without = [config.name for config in configs if config.spec.schedule is None]
    if without:
        add = "schedule: {cron: 0 3 * * *, timezone: Europe/Berlin}"
        raise ConfigError([f"{name}: has no schedule; add one, such as {add}" for name in without])
    return [
        ScheduledConfig(file.absolute(), config.spec.schedule)
        for config, file in zip(configs, files, strict=True)
        if config.spec.schedule is not None
    ]


class Ended(NamedTuple):
    """A bake-off whose process has ended."""

    exit_code: int
    payload: dict[str, Any]  # its outcome; {} if it could not write one
    is_cut_off: bool = False  # whether Ctrl-C or SIGTERM ended it


def run_process(job: ScheduledConfig, arguments: Sequence[str], report: Callable[[str], None]) -> Ended:
    """Run a bake-off in a process of its own, with arguments of the command line; its stdout goes to our stderr.

    In a process of its own it returns all memory, reads plugin files anew, and cannot crash the scheduler. Ctrl-C and
    SIGTERM end it and wait for that; a second one kills it.
    """
    with tempfile.TemporaryDirectory(prefix="evalplugin-") as folder:
        outcome = Path(folder, "outcome.json")
        command = [sys.executable, "-m", "evalplugin", "schedule", "--once", "--outcome", str(outcome)]
        process, is_cut_off = None, False
        try:
            with deferred_signals():
                # A session of its own: Ctrl-C reaches the scheduler alone.
                process = subprocess.Popen(
                    [*command, *arguments, str(job.file)], stdout=sys.stderr, start_new_session=True
                )
            process.wait()
        except KeyboardInterrupt:
            if process is None:  # it has not begun
                raise
            is_cut_off = True
            try:
                report("ending the bake-off that runs; again to end it at once")
                process.terminate()
                process.wait()
            except KeyboardInterrupt:
                kill_group(process.pid)
                process.wait()
        payload: dict[str, Any] = {}
        with suppress(OSError, ValueError):  # nothing, or cut off with the process
            payload = dict(json.loads(outcome.read_text(encoding="utf-8")))
    code = process.returncode
    return Ended(code if code >= 0 else 128 - code, payload, is_cut_off)  # below 0 as a shell gives it


@dataclass
class Scheduler:
    """Runs configs by their schedules until SIGTERM or Ctrl-C."""

    jobs: Sequence[ScheduledConfig]
    arguments: Sequence[str]  # of the command line, for every run
    write: Callable[[str], None]  # takes one line of JSON for each run
    report: Callable[[str], None]  # takes human-readable lines
    run_one: Callable[[ScheduledConfig, Sequence[str], Callable[[str], None]], Ended] = run_process

    def run(self) -> int:
        """Run until SIGTERM or Ctrl-C; return 0 if nothing was running then, or 130 if a bake-off was cut off.

        A cut-off bake-off ends its runs as KILLED first; a second signal does not wait for that.
        """
        begun = datetime.now(UTC)
        times = [job.next(begun) for job in self.jobs]
        for job, due in zip(self.jobs, times, strict=True):
            when = f"{job.schedule.cron} in {job.schedule.timezone}"
            self.report(f"{job.file.name}: {when}; next run {due:%Y-%m-%d %H:%M %Z}")
        try:
            while True:
                number = min(range(len(times)), key=lambda number: times[number].timestamp())
                job, now, due = self.jobs[number], datetime.now(UTC), times[number]
                if due > now:
                    time.sleep(min((due - now).total_seconds(), _WAKE_SECONDS))
                    continue
                due, times[number] = job.missed(due, now)
                if self._run_due(job, due):
                    return EXIT_INTERRUPTED
                ended = datetime.now(UTC)
                if times[number] <= ended:
                    due, times[number] = job.missed(times[number], ended)
                    self._line(job, event="left out", due=due, reason="the run before it is not done")
        except KeyboardInterrupt:
            return EXIT_DONE

    def _run_due(self, job: ScheduledConfig, due: datetime) -> bool:
        """Run a config that is due, unless it is too late; return whether Ctrl-C or SIGTERM has ended the run."""
        hours, begun = job.schedule.catch_up_hours, datetime.now(UTC)
        if begun - due > timedelta(seconds=max(1, round(hours * 3600))):
            self._line(job, event="left out", due=due, reason=f"more than {hours:g} hours late")
            return False
        try:
            code, payload, is_cut_off = self.run_one(job, self.arguments, self.report)
        except OSError as error:  # no memory, no file handles: the next run may start
            why = f"cannot be started: {error.strerror}"
            self._line(job, event="run", start=begun, exit_code=EXIT_FAILED, error=why)
            return False
        ended = datetime.now(UTC)
        self._line(
            job,
            event="run",
            start=begun,
            end=ended,
            seconds=round((ended - begun).total_seconds(), 1),
            exit_code=code,
            **{key: payload.get(key) for key in ("bakeoff", "outcome", "error", "failed")},
            promoted=(payload.get("decision") or {}).get("promoted"),
            is_last=is_cut_off,
        )
        return is_cut_off

    def _line(self, job: ScheduledConfig, *, is_last: bool = False, **facts: Any) -> None:
        """Write a line on a run; a full disk or a closed pipe does not end the scheduler."""
        following = None if is_last else job.next(datetime.now(UTC))
        shown = {
            name: fact.isoformat(timespec="seconds") if isinstance(fact, datetime) else fact
            for name, fact in {"config": str(job.file), **facts, "next": following}.items()
        }
        try:
            self.write(json.dumps(shown, ensure_ascii=False))
        except OSError as error:
            self.report(f"{job.file.name}: {type(error).__name__}: {error}")
