"""Progress of a bake-off: the number of tasks that are done, and the estimated seconds left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from evalplugin.execution.runner import Job
from evalplugin.execution.tasks import TaskResult


@dataclass
class Pace:
    """The pace of the tasks of all jobs, from the costs of those that are done, in this bake-off or a cached one.

    A task is taken to last as long as the others of its model did on average, and one of a model without any as long
    as the average model's.
    """

    jobs: Sequence[Job]
    workers: int  # tasks at a time
    clock: Callable[[], float] = time.monotonic
    _done: int = field(init=False, default=0)
    _changed: float = field(init=False, default=0.0)  # when the last task ended

    def __post_init__(self) -> None:
        self._done, self._changed = self.done, self.clock()

    @property
    def total(self) -> int:
        """The number of tasks."""
        return sum(len(job.tasks) for job in self.jobs)

    @property
    def done(self) -> int:
        """The number of tasks that have ended or need not run."""
        return sum(len(job.tasks) if job.failed else len(job.done) for job in self.jobs)

    def advance(self) -> int:
        """Return how many tasks are done since the last call."""
        before, self._done, self._changed = self._done, self.done, self.clock()
        return self._done - before

    def seconds_left(self) -> float | None:
        """Return the estimated seconds until all tasks are done.

        None as long as no task with known costs is done, and while a task takes much longer than it was estimated to.
        """
        means = {id(job): fmean(seconds) for job in self.jobs if (seconds := _seconds(job))}
        if not means:
            return None
        average = fmean(means.values())
        waiting = running = 0.0
        for job in self.jobs:
            if not job.failed:
                each = means.get(id(job), average)
                running += job.running * each
                waiting += (len(job.tasks) - len(job.done) - job.running) * each
        starts = [job.started for job in self.jobs if job.running]
        since, running = self.clock() - max([self._changed, *starts]), running / self.workers
        if starts and since > 2 * running + 1.0:
            return None
        return waiting / self.workers + max(0.0, running - since)


def _seconds(job: Job) -> list[float]:
    """Return what each task that is done took."""
    costs = [result.costs for result in job.done.values() if isinstance(result, TaskResult)]
    return [cost.start_seconds + cost.seconds for cost in costs]
