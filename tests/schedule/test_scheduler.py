"""The scheduler in the foreground, with runs that are due at once."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalplugin.config.sections import Schedule
from evalplugin.schedule import ScheduledConfig, Scheduler
from evalplugin.schedule.scheduler import Ended, run_process

NEVER = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class DueAt(ScheduledConfig):
    """Due at given times. The first is planned even if it has passed, as if the machine had slept until now."""

    times: tuple[datetime, ...] = ()
    asked: list[datetime] = field(default_factory=list)

    def next(self, after: datetime) -> datetime:
        self.asked.append(after)
        later = self.times if len(self.asked) == 1 else [time for time in self.times if time > after]
        return next(iter(later), NEVER)


def ago(**past: float) -> datetime:
    return datetime.now(UTC) - timedelta(**past)


def planned(name: str, *times: datetime, hours: float = 12.0) -> DueAt:
    schedule = Schedule(cron="0 3 * * *", catch_up_hours=hours)
    return DueAt(Path(f"/configs/{name}.yaml"), schedule, times)


@dataclass
class Watched:
    """A scheduler whose bake-offs are made up; it is interrupted after as many lines as are wanted."""

    wanted: int
    run: Callable[[ScheduledConfig], Ended] = lambda job: Ended(0, {})
    lines: list[dict[str, Any]] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    def of(self, *jobs: ScheduledConfig) -> int:
        return Scheduler(jobs, (), self._write, self.reports.append, self._run).run()

    def _write(self, line: str) -> None:
        self.lines.append(json.loads(line))
        if len(self.lines) == self.wanted:
            raise KeyboardInterrupt

    def _run(self, job: ScheduledConfig, arguments: Sequence[str], report: Callable[[str], None]) -> Ended:
        self.started.append(job.file.stem)
        return self.run(job)


def test_scheduled_run_is_one_json_line() -> None:
    failed = [{"dataset": "shop", "split": "last_n", "model": "knn", "error": "ValueError: no"}]
    payload = {"bakeoff": "b-1", "outcome": "promote", "decision": {"promoted": "svd"}, "failed": failed}
    watched = Watched(1, run=lambda job: Ended(0, payload))
    assert watched.of(planned("nightly", ago(seconds=1))) == 0
    (line,) = watched.lines
    assert line["config"] == "/configs/nightly.yaml"
    assert (line["event"], line["exit_code"], line["bakeoff"]) == ("run", 0, "b-1")
    assert (line["outcome"], line["promoted"], line["error"]) == ("promote", "svd", None)
    assert line["failed"] == failed
    assert datetime.fromisoformat(line["start"]) <= datetime.fromisoformat(line["end"])
    assert line["next"] == NEVER.isoformat()


def test_next_run_is_reported_at_start() -> None:
    watched = Watched(1)
    watched.of(planned("nightly", ago(seconds=1)), planned("weekly"))
    assert watched.reports[1] == "weekly.yaml: 0 3 * * * in UTC; next run 2100-01-01 00:00 UTC"


def test_missed_runs_are_coalesced_into_one() -> None:
    watched = Watched(1)
    assert watched.of(planned("nightly", ago(hours=49), ago(hours=25), ago(hours=1))) == 0
    assert watched.started == ["nightly"]
    assert watched.lines[0]["event"] == "run"


def test_run_beyond_catch_up_is_skipped_and_reported() -> None:
    watched, missed = Watched(1), ago(hours=3)
    assert watched.of(planned("nightly", missed, hours=2)) == 0
    assert watched.started == []
    (line,) = watched.lines
    assert (line["event"], line["reason"]) == ("left out", "more than 2 hours late")
    assert datetime.fromisoformat(line["due"]) == missed.replace(microsecond=0)


def test_time_that_comes_during_a_run_of_the_same_config_is_left_out() -> None:
    @dataclass(frozen=True)
    class DueInARun(DueAt):
        def next(self, after: datetime) -> datetime:
            self.asked.append(after)
            if len(self.asked) == 2:  # while the first run is planned
                due.append(datetime.now(UTC) + timedelta(microseconds=1))
            return due[len(self.asked) - 1] if len(self.asked) <= 2 else NEVER

    def run(job: ScheduledConfig) -> Ended:
        while datetime.now(UTC) <= due[1]:
            pass
        return Ended(0, {})

    due, watched = [ago(seconds=1)], Watched(2, run)
    assert watched.of(DueInARun(Path("/configs/nightly.yaml"), Schedule(cron="0 3 * * *"))) == 0
    assert watched.started == ["nightly"]
    assert [(line["event"], line.get("reason")) for line in watched.lines] == [
        ("run", None),
        ("left out", "the run before it is not done"),
    ]


def test_simultaneous_runs_are_one_after_the_other_in_given_order() -> None:
    watched, when = Watched(4), ago(seconds=1)
    names = ["weekly", "clock", "a", "nightly"]
    assert watched.of(*(planned(name, when) for name in names)) == 0
    assert watched.started == names


def test_a_run_that_cannot_be_started_does_not_end_the_scheduler() -> None:
    def run(job: ScheduledConfig) -> Ended:
        raise OSError(12, "Cannot allocate memory")

    watched = Watched(1, run)
    assert watched.of(planned("nightly", ago(seconds=1))) == 0
    assert watched.lines[0]["error"] == "cannot be started: Cannot allocate memory"
    assert watched.lines[0]["exit_code"] == 1


def test_a_line_that_cannot_be_written_does_not_end_the_scheduler() -> None:
    def write(line: str) -> None:
        if "nightly" in line:
            raise OSError(28, "No space left on device")
        raise KeyboardInterrupt

    watched = Watched(1)
    jobs = [planned(name, ago(seconds=1)) for name in ("nightly", "weekly")]
    assert Scheduler(jobs, (), write, watched.reports.append, watched._run).run() == 0
    assert watched.reports[-1] == "nightly.yaml: OSError: [Errno 28] No space left on device"


def test_scheduler_ends_with_a_run_that_was_cut_off() -> None:
    watched = Watched(9, run=lambda job: Ended(130, {}, is_cut_off=True))
    assert watched.of(planned("nightly", ago(seconds=1)), planned("weekly", ago(seconds=1))) == 130
    (line,) = watched.lines
    assert (line["exit_code"], line["next"]) == (130, None)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Put a shell script in the place of `python -m evalplugin`, and let signals be those of Ctrl-C."""

    def write(lines: str) -> None:
        script = tmp_path / "program"
        script.write_text(f"#!/bin/sh\n{lines}\n")
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield write
    signal.signal(signal.SIGINT, before)


def test_scheduled_bake_off_prints_to_stderr(program, capfd):
    program('echo called with $3 $4 $5 $7 $8 $9\necho \'{"bakeoff": "b-1"}\' > $6\nexit 7')
    ended = run_process(planned("nightly"), ("--if-changed", "--set", "a=1"), print)
    assert ended == Ended(7, {"bakeoff": "b-1"})
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "called with schedule --once --outcome --if-changed --set a=1\n"


def test_ctrl_c_terminates_running_bake_off_and_waits(program: Callable[[str], None]) -> None:
    program(f"trap 'exit 130' TERM\nkill -INT {os.getpid()}\nwhile :; do sleep 0.01; done")
    reports: list[str] = []
    assert run_process(planned("nightly"), (), reports.append) == Ended(130, {}, is_cut_off=True)
    assert reports == ["ending the bake-off that runs; again to end it at once"]


def test_second_ctrl_c_kills_at_once(program: Callable[[str], None]) -> None:
    again = f"trap 'kill -INT {os.getpid()}' TERM"
    program(f"{again}\nkill -INT {os.getpid()}\nwhile :; do sleep 0.01; done")
    # The exit code is that of a shell.
    ended = run_process(planned("nightly"), (), print)
    assert ended == Ended(128 + signal.SIGKILL, {}, is_cut_off=True)
