"""Scheduler in the foreground: bake-offs by their schedules, one at a time, each in its own process."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalplugin.base.errors import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED
from evalplugin.schedule.units import ScheduledConfig

if TYPE_CHECKING:
    from apscheduler.schedulers.base import BaseScheduler

__all__ = ["Scheduler", "Started", "start_process"]

# Timers pause while a machine sleeps: the scheduler wakes up this often to read the clock.
_WAKE_SECONDS = 60


@dataclass
class Started:
    """A running bake-off: functions to wait for it, read its payload and end it."""

    wait: Callable[[], int]  # returns the exit code
    payload: Callable[[], dict[str, Any]]  # returns its payload; {} if it could not write one
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
        with suppress(ProcessLookupError):
            if at_once and sys.platform != "win32":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.terminate()

    return Started(wait, payload, stop)


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
        from apscheduler.schedulers.blocking import BlockingScheduler

        base = BlockingScheduler(timezone=UTC)
        logging.getLogger("apscheduler").setLevel(logging.CRITICAL)  # its events are reported below
        self._fill(base)
        for job in self.jobs:
            times = f"{job.cron.expression} in {job.cron.timezone}"
            self.report(f"{job.file.name}: {times}; next run {self._next(job):%Y-%m-%d %H:%M %Z}")
        try:
            base.start()
        except KeyboardInterrupt:
            return self._end(base)
        return EXIT_DONE

    def _fill(self, base: BaseScheduler) -> None:
        from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
        from apscheduler.executors.pool import ThreadPoolExecutor

        # One worker for all: bake-offs of several configs do not run at once either.
        base.add_executor(ThreadPoolExecutor(1), "default")
        base.add_executor(ThreadPoolExecutor(1), "clock")
        base.add_job(_wake, "interval", seconds=_WAKE_SECONDS, executor="clock", id="clock")
        # What is due at the same moment starts in the order of the ids, which is that of the jobs.
        by_id = {f"{number:09d}": job for number, job in enumerate(self.jobs)}
        for key, job in by_id.items():
            base.add_job(
                self._run_one,
                _trigger(job),
                args=[job],
                id=key,
                coalesce=True,
                max_instances=1,
                misfire_grace_time=max(1, round(job.schedule.catch_up_hours * 3600)),
            )

        def failed(event: Any) -> None:
            self.report(
                f"{by_id[event.job_id].file.name}: {type(event.exception).__name__}: {event.exception}"
            )

        def left_out(event: Any) -> None:
            if (job := by_id.get(event.job_id)) is not None:
                late = event.code == EVENT_JOB_MISSED
                due = event.scheduled_run_time if late else event.scheduled_run_times[-1]
                reason = (
                    f"more than {job.schedule.catch_up_hours:g} hours late"
                    if late
                    else "the run before it is not done"
                )
                self._line(job, event="left out", due=_text(due), reason=reason)

        base.add_listener(left_out, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        base.add_listener(failed, EVENT_JOB_ERROR)

    def _run_one(self, job: ScheduledConfig) -> None:
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

    def _end(self, base: BaseScheduler) -> int:
        """End the running bake-off, if any, wait for it, and return the exit code."""
        with self._lock:
            self._stopping, running = True, self._running
        base.shutdown(wait=False)
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

    def _next(self, job: ScheduledConfig) -> datetime:
        return job.cron.next(datetime.now(UTC))

    def _line(self, job: ScheduledConfig, **facts: Any) -> None:
        following = None if self._stopping else _text(self._next(job))
        self.write(json.dumps({"config": str(job.file), **facts, "next": following}, ensure_ascii=False))


def _trigger(job: ScheduledConfig) -> Any:
    from apscheduler.triggers.base import BaseTrigger

    class Trigger(BaseTrigger):  # type: ignore[misc]
        """APScheduler's own reads 0 as Monday, and takes a day only where both fields for days fit it."""

        def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
            """Return the time after the previous one, or after now."""
            return job.cron.next(previous_fire_time or now)

    return Trigger()


def _wake() -> None:
    """Do nothing: the scheduler reads the clock whenever a job is due."""


def _text(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
