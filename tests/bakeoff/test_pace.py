"""The estimate of the time that the tasks of a bake-off take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evalplugin.bakeoff.tasks import Pace
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.results import Costs
from evalplugin.execution.runner import Job
from evalplugin.execution.tasks import TaskResult


def done(seconds: float, start: float = 13.0) -> TaskResult:
    unused: Any = None
    return TaskResult(unused, unused, Costs(seconds / 2, seconds / 4, seconds / 4, 0.0, start))


def job(folds: int, *results: TaskResult | TaskFailure) -> Job:
    unused: Any = SimpleNamespace()
    return Job(unused, unused, (unused,) * folds, dict(enumerate(results)))


def test_nothing_is_estimated_before_a_task_is_done() -> None:
    assert Pace([job(2), job(1)], workers=1).seconds_left() is None
    assert Pace([job(2, TaskFailure("Traceback")), job(1)], workers=1).seconds_left() is None


def test_tasks_take_as_long_as_those_of_their_model_did() -> None:
    assert Pace([job(5, done(2.0), done(4.0))], workers=1).seconds_left() == pytest.approx(3 * 3.0)
    assert Pace([job(5, done(2.0), done(4.0))], workers=3).seconds_left() == pytest.approx(3.0)


def test_imports_and_compilation_before_a_fit_are_not_expected_again() -> None:
    assert Pace([job(3, done(2.0, start=40.0))], workers=1).seconds_left() == pytest.approx(2 * 2.0)


def test_models_without_a_task_that_is_done_take_as_long_as_the_average_model() -> None:
    fast, slow = job(3, done(1.0), done(1.0)), job(1, done(9.0))
    assert Pace([fast, slow, job(2)], workers=1).seconds_left() == pytest.approx(1.0 + 2 * 5.0)


def test_tasks_that_need_not_run_take_no_time() -> None:
    assert (
        Pace([job(2, done(2.0), done(2.0)), job(9, TaskFailure("Traceback"))], workers=1).seconds_left() == 0
    )


def test_estimate_shrinks_while_a_task_runs_and_is_never_negative() -> None:
    now = [100.0]
    running = job(3, done(4.0))
    pace = Pace([running], workers=1, clock=lambda: now[0])
    running.running = 1
    now[0] += 3.0
    assert pace.seconds_left() == pytest.approx(4.0 + 1.0)
    now[0] += 5.0
    assert pace.seconds_left() == pytest.approx(4.0)  # of the task that has not started


def test_nothing_is_estimated_while_a_task_takes_much_longer_than_the_others() -> None:
    now = [100.0]
    fast, slow = job(2, done(0.1), done(0.1)), job(2)
    pace = Pace([fast, slow], workers=1, clock=lambda: now[0])
    slow.running = 1
    assert pace.seconds_left() == pytest.approx(0.2)
    now[0] += 13.0
    assert pace.seconds_left() is None
    slow.running, slow.done[0] = 0, done(13.0)
    pace.advance()
    now[0] += 60.0  # its results are logged
    assert pace.seconds_left() == pytest.approx(13.0)
    slow.running, slow.started = 1, now[0]
    assert pace.seconds_left() == pytest.approx(13.0)


def test_tasks_are_counted_once_with_those_that_a_failure_made_needless() -> None:
    one, other = job(2, done(1.0)), job(4)
    pace = Pace([one, other], workers=2)
    assert (pace.done, pace.total) == (1, 6)
    one.done[1] = done(1.0)
    assert pace.advance() == 1
    other.done[0] = TaskFailure("Traceback")
    assert pace.advance() == 4
    assert pace.advance() == 0
