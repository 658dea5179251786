"""Scheduler in the foreground: bake-offs by their schedules, one at a time, each in its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, ConfigError
from evalplugin.base.processes import kill_group
from evalplugin.config import CheckedConfig
from evalplugin.config.cron import Cron
from evalplugin.config.sections import Schedule

# A wait pauses while a machine sleeps: the scheduler wakes up this often to read the clock.
_WAKE_SECONDS = 60


@dataclass(frozen=True)
class ScheduledConfig:
    """A config with a schedule."""

    file: Path  # absolute
    schedule: Schedule
    cron: Cron


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
    jobs = []
    for config, file in zip(configs, files, strict=True):
        schedule = config.spec.schedule
        assert schedule is not None
        jobs.append(ScheduledConfig(file.absolute(), schedule, Cron.of(schedule.cron, schedule.timezone)))
    return jobs


@dataclass
class Started:
    """A running bake-off: functions to wait for it, read its payload and end it."""

    wait: Callable[[], int]  # returns the exit code
    payload: Callable[[], dict[str, Any]]  # returns its outcome; {} if it could not write one
    stop: Callable[[bool], None]  # by SIGTERM, or, with True, by SIGKILL


def start_process(job: ScheduledConfig, arguments: Sequence[str]) -> Started:
    """Start a bake-off in a process of its own, with arguments of the command line; its stdout goes to our stderr.

    In a process of its own it returns all memory, reads plugin files anew, and cannot crash the scheduler.
    """
    handle, name = tempfile.mkstemp(prefix="evalplugin-", suffix=".json")
    os.close(handle)
    payload_file = Path(name)
    command = [sys.executable, "-m", "evalplugin", "schedule", "--once", "--outcome", name]
    # A session of its own: Ctrl-C reaches the scheduler alone, which then ends the bake-off and waits for it.
    try:
        process = subprocess.Popen(
            [*command, *arguments, str(job.file)], stdout=sys.stderr, start_new_session=True
        )
    except OSError:
        payload_file.unlink()
        raise

    def wait() -> int:
        code = process.wait()
        return code if code >= 0 else 128 - code  # the exit code that a shell gives to a signal

    def payload() -> dict[str, Any]:
        text = payload_file.read_text(encoding="utf-8")
        payload_file.unlink()
        with suppress(ValueError):  # nothing, or cut off with the process
            return dict(json.loads(text))
        return {}

    def stop(at_once: bool) -> None:
        if at_once:
            kill_group(process.pid)
        else:
            process.terminate()

    return Started(wait, payload, stop)


@dataclass
class _Planned:
    """A config and its next time."""

    job: ScheduledConfig
    due: datetime
    run: Future[None] | None = None  # the last run, which may wait for runs of other configs

    def take(self, now: datetime) -> datetime:
        """Return the latest time that is due now, and plan the next: several missed times are a single run."""
        latest = self.due
        while self.due <= now:
            latest, self.due = self.due, self.job.cron.next(self.due)
        return latest


@dataclass
class Scheduler:
    """Runs configs by their schedules until SIGTERM or Ctrl-C."""

    jobs: Sequence[ScheduledConfig]
    arguments: Sequence[str]  # of the command line, for every run
    write: Callable[[str], None]  # takes one line of JSON for each run
    report: Callable[[str], None]  # takes human-readable lines
    start: Callable[[ScheduledConfig, Sequence[str]], Started] = start_process
    _running: Started | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _idle: threading.Event = field(default_factory=threading.Event, init=False)

    def run(self) -> int:
        """Run until SIGTERM or Ctrl-C; return 0 if nothing was running then, or 130 if a bake-off was cut off.

        A cut-off bake-off ends its runs as KILLED first; a second signal does not wait for that.
        """
        # One thread for all: bake-offs of several configs do not run at once either.
        pool = ThreadPoolExecutor(1)
        try:
            self._loop(pool)
        except KeyboardInterrupt:
            return self._end(pool)

    def _loop(self, pool: ThreadPoolExecutor) -> NoReturn:
        begun = datetime.now(UTC)
        plans = [_Planned(job, job.cron.next(begun)) for job in self.jobs]
        for plan in plans:
            cron = plan.job.cron
            times = f"{cron.expression} in {cron.timezone}"
            self.report(f"{plan.job.file.name}: {times}; next run {plan.due:%Y-%m-%d %H:%M %Z}")
        while True:
            now = datetime.now(UTC)
            for plan in sorted(plans, key=lambda plan: plan.due.timestamp()):
                if plan.due <= now:
                    self._queue(plan, plan.take(now), pool)
            first = min(plan.due.timestamp() for plan in plans)
            time.sleep(min(max(first - time.time(), 0), _WAKE_SECONDS))

    def _queue(self, plan: _Planned, due: datetime, pool: ThreadPoolExecutor) -> None:
        if plan.run is None or plan.run.done():
            plan.run = pool.submit(self._run_due, plan.job, due)
        else:
            with self._failure_reported(plan.job):
                reason = "the run before it is not done"
                self._line(plan.job, event="left out", due=_text(due), reason=reason)

    def _run_due(self, job: ScheduledConfig, due: datetime) -> None:
        hours = job.schedule.catch_up_hours
        with self._failure_reported(job):
            if datetime.now(UTC) - due > timedelta(seconds=max(1, round(hours * 3600))):
                reason = f"more than {hours:g} hours late"
                self._line(job, event="left out", due=_text(due), reason=reason)
            else:
                self._run(job)

    @contextmanager
    def _failure_reported(self, job: ScheduledConfig) -> Generator[None]:
        """Report an exception inside, so that the scheduler goes on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the next run may succeed
            self.report(f"{job.file.name}: {type(error).__name__}: {error}")

    def _run(self, job: ScheduledConfig) -> None:
        begun = datetime.now(UTC)
        with self._lock:
            if self._stopping:
                return
            try:
                self._running = started = self.start(job, self.arguments)
            except OSError as error:  # no memory, no file handles: the next run may start
                why = f"cannot be started: {error.strerror}"
                self._line(job, event="run", start=_text(begun), exit_code=EXIT_FAILED, error=why)
                return
            self._idle.clear()
        try:
            code, payload = started.wait(), started.payload()
            ended = datetime.now(UTC)
            self._line(
                job,
                event="run",
                start=_text(begun),
                end=_text(ended),
                seconds=round((ended - begun).total_seconds(), 1),
                exit_code=code,
                **{key: payload.get(key) for key in ("bakeoff", "outcome", "error", "failed")},
                promoted=(payload.get("decision") or {}).get("promoted"),
            )
        finally:
            with self._lock:
                self._running = None
            self._idle.set()

    def _end(self, pool: ThreadPoolExecutor) -> int:
        """End the running bake-off, if any, wait for it, and return the exit code."""
        with self._lock:
            self._stopping, running = True, self._running
        pool.shutdown(wait=False)
        if running is None:
            return EXIT_DONE
        try:
            self.report("ending the bake-off that runs; again to end it at once")
            running.stop(False)
            self._idle.wait()
        except KeyboardInterrupt:
            running.stop(True)
            self._idle.wait()
        return EXIT_INTERRUPTED

    def _line(self, job: ScheduledConfig, **facts: Any) -> None:
        following = None if self._stopping else _text(job.cron.next(datetime.now(UTC)))
        self.write(json.dumps({"config": str(job.file), **facts, "next": following}, ensure_ascii=False))


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
