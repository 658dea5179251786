"""The scheduler in the foreground, with runs that are due at once."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalplugin.config.cron import Cron
from evalplugin.config.sections import Schedule
from evalplugin.schedule import ScheduledConfig, Scheduler
from evalplugin.schedule.scheduler import Started, start_process

NEVER = datetime(2100, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Times(Cron):
    """Times that are given, instead of a cron expression's."""

    given: tuple[datetime, ...] = ()

    def next(self, after: datetime) -> datetime:
        return next((time for time in self.given if time > after), NEVER)


def ago(**past: float) -> datetime:
    return datetime.now(UTC) - timedelta(**past)


def soon() -> datetime:
    # The first time is asked for after now: what is due in a moment is due when the scheduler looks.
    return datetime.now(UTC) + timedelta(seconds=0.5)


def planned(name: str, *times: datetime, hours: float = 12.0) -> ScheduledConfig:
    schedule = Schedule(cron="0 3 * * *", catch_up_hours=hours)
    return ScheduledConfig(Path(f"/configs/{name}.yaml"), schedule, Times("0 3 * * *", "UTC", times))


def interrupt() -> None:
    """Press Ctrl-C."""
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


@dataclass
class Watched:
    """A scheduler whose bake-offs are made up; it is interrupted after as many lines as are wanted."""

    wanted: int
    run: Callable[[ScheduledConfig], tuple[int, dict[str, Any]]] = lambda job: (0, {})
    lines: list[dict[str, Any]] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)

    def of(self, *jobs: ScheduledConfig) -> int:
        return Scheduler(jobs, (), self._write, self.reports.append, start=self._start).run()

    def _write(self, line: str) -> None:
        self.lines.append(json.loads(line))
        if len(self.lines) == self.wanted:
            threading.Timer(0.05, interrupt).start()

    def _start(self, job: ScheduledConfig, arguments: Sequence[str]) -> Started:
        self.started.append(job.file.stem)
        code, payload = self.run(job)
        return Started(wait=lambda: code, payload=lambda: payload, stop=lambda at_once: None)


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_scheduled_run_is_one_json_line() -> None:
    failed = [{"dataset": "shop", "split": "last_n", "model": "knn", "error": "ValueError: no"}]
    payload = {"bakeoff": "b-1", "outcome": "promote", "decision": {"promoted": "svd"}, "failed": failed}
    watched = Watched(1, run=lambda job: (0, payload))
    assert watched.of(planned("nightly", soon())) == 0
    (line,) = watched.lines
    assert line["config"] == "/configs/nightly.yaml"
    assert (line["event"], line["exit_code"], line["bakeoff"]) == ("run", 0, "b-1")
    assert (line["outcome"], line["promoted"], line["error"]) == ("promote", "svd", None)
    assert line["failed"] == failed
    assert datetime.fromisoformat(line["start"]) <= datetime.fromisoformat(line["end"])
    assert line["next"] == NEVER.isoformat()


def test_next_run_is_reported_at_start() -> None:
    watched = Watched(1)
    watched.of(planned("nightly", soon()), planned("weekly"))
    assert watched.reports[1] == "weekly.yaml: 0 3 * * * in UTC; next run 2100-01-01 00:00 UTC"


def test_missed_runs_are_coalesced_into_one(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(1)
    missed = [ago(hours=h) for h in (49, 25, 1)]
    job = planned("nightly", *missed)
    # The machine slept: the job was due long ago, by the times that were known before.
    monkeypatch.setattr(Times, "next", _from_the_first(missed))
    assert watched.of(job) == 0
    assert watched.started == ["nightly"]


def _from_the_first(times: list[datetime]) -> Callable[[Times, datetime], datetime]:
    asked: list[datetime] = []

    def next_(self: Times, after: datetime) -> datetime:
        asked.append(after)
        later = [time for time in times if len(asked) <= 2 or time > after]
        return later[0] if later else NEVER

    return next_


def test_run_beyond_catch_up_is_skipped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(1)
    missed = [ago(hours=3)]
    monkeypatch.setattr(Times, "next", _from_the_first(missed))
    assert watched.of(planned("nightly", *missed, hours=2)) == 0
    assert watched.started == []
    (line,) = watched.lines
    assert (line["event"], line["reason"]) == ("left out", "more than 2 hours late")
    assert datetime.fromisoformat(line["due"]) == missed[0].replace(microsecond=0)


def test_running_job_is_not_started_again() -> None:
    done = threading.Event()
    watched = Watched(2)

    def start(job: ScheduledConfig, arguments: Sequence[str]) -> Started:
        watched.started.append(job.file.stem)
        return Started(wait=lambda: int(not done.wait(20)), payload=dict, stop=lambda at_once: None)

    def write(line: str) -> None:
        done.set()
        watched._write(line)

    first = soon()
    job = planned("nightly", first, first + timedelta(seconds=0.1))
    assert Scheduler([job], (), write, watched.reports.append, start=start).run() == 0
    assert watched.started == ["nightly"]
    assert [(line["event"], line.get("reason")) for line in watched.lines] == [
        ("left out", "the run before it is not done"),
        ("run", None),
    ]


def test_simultaneous_runs_start_in_given_order() -> None:
    watched, when = Watched(4), soon()
    names = ["weekly", "clock", "a", "nightly"]
    assert watched.of(*(planned(name, when) for name in names)) == 0
    assert watched.started == names


def test_two_configs_do_not_run_at_once() -> None:
    both = threading.Barrier(2)
    together = []

    def wait() -> int:
        try:
            both.wait(0.2)
        except threading.BrokenBarrierError:
            return 0
        together.append(True)
        return 0

    watched = Watched(2)
    when = soon()
    jobs = [planned("a", when), planned("b", when)]

    def start(job: ScheduledConfig, arguments: Sequence[str]) -> Started:
        watched.started.append(job.file.stem)
        return Started(wait=wait, payload=dict, stop=lambda at_once: None)

    Scheduler(jobs, (), watched._write, watched.reports.append, start=start).run()
    assert watched.started == ["a", "b"]
    assert together == []


def test_a_run_that_cannot_be_started_does_not_end_the_scheduler() -> None:
    def run(job: ScheduledConfig) -> tuple[int, dict[str, Any]]:
        raise OSError(12, "Cannot allocate memory")

    watched = Watched(1, run=run)
    assert watched.of(planned("nightly", soon())) == 0
    assert watched.lines[0]["error"] == "cannot be started: Cannot allocate memory"
    assert watched.lines[0]["exit_code"] == 1


def test_ctrl_c_terminates_running_bake_off_and_waits() -> None:
    ended, stops = threading.Event(), []

    def start(job: ScheduledConfig, arguments: Sequence[str]) -> Started:
        def stop(at_once: bool) -> None:
            stops.append(at_once)
            ended.set()

        threading.Timer(0.05, interrupt).start()
        return Started(wait=lambda: 130 if ended.wait(20) else 1, payload=dict, stop=stop)

    watched = Watched(9)
    code = Scheduler([planned("nightly", soon())], (), watched._write, watched.reports.append, start).run()
    assert code == 130
    assert stops == [False]
    (line,) = watched.lines
    assert (line["exit_code"], line["next"]) == (130, None)
    assert watched.reports[-1] == "ending the bake-off that runs; again to end it at once"


def test_second_ctrl_c_kills_at_once() -> None:
    ended, stops = threading.Event(), []

    def start(job: ScheduledConfig, arguments: Sequence[str]) -> Started:
        def stop(at_once: bool) -> None:
            stops.append(at_once)
            if at_once:
                ended.set()
            else:
                threading.Timer(0.05, interrupt).start()

        threading.Timer(0.05, interrupt).start()
        return Started(wait=lambda: 137 if ended.wait(20) else 1, payload=dict, stop=stop)

    watched = Watched(9)
    code = Scheduler([planned("nightly", soon())], (), watched._write, watched.reports.append, start).run()
    assert (code, stops) == (130, [False, True])


def test_scheduled_bake_off_prints_to_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # In place of `python -m evalplugin`: what it is called with, and what it says.
    script = tmp_path / "called"
    script.write_text(
        '#!/bin/sh\necho called with $3 $4 $5 $7 $8 $9\necho \'{"bakeoff": "b-1"}\' > $6\nexit 7\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    started = start_process(planned("nightly"), ("--if-changed", "--set", "a=1"))
    assert started.wait() == 7
    assert started.payload() == {"bakeoff": "b-1"}
    out, err = capfd.readouterr()
    assert out == ""
    assert err == "called with schedule --once --outcome --if-changed --set a=1\n"


def test_exit_code_of_signal_is_that_of_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "hangs"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    started = start_process(planned("nightly"), ())
    started.stop(True)
    assert started.wait() == 128 + signal.SIGKILL
    assert started.payload() == {}
    started.stop(True)  # there is nothing left to stop
