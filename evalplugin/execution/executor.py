"""The executor of tasks: each is a call of a session, or one that fits the model and one for each range of users."""

from __future__ import annotations

import math
import pickle
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from evalplugin.base.arrays import Codes
from evalplugin.base.costs import cheap_collections, peak_memory
from evalplugin.base.errors import DataError
from evalplugin.data import Split
from evalplugin.execution.engines import Call, Handle, Session, run_calls
from evalplugin.execution.isolation import failure_of, outcome_of
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Costs
from evalplugin.execution.runner import Result, TaskExecutor
from evalplugin.execution.tasks import (
    Task,
    TaskLists,
    TaskResult,
    Work,
    curve_ks,
    joined_lists,
    measured,
    run_task,
    score_state,
    task_costs,
)
from evalplugin.metrics.scoring import with_ids
from evalplugin.metrics.states import Request, ScorerState, check_mergeable
from evalplugin.models import BLOCK_BYTES, MODELS, Recommender, defines, one_blas_thread
from evalplugin.models.recommend import user_blocks

_SHARED = ("split", "candidates")  # fields of a task that it shares with the other models on its fold


def task_executor(session: Session, observer: Observer, *, users_per_task: int | None = None) -> TaskExecutor:
    """Return an executor that runs tasks as calls of a session.

    Args:
        session: An open engine.
        observer: Receives which tasks are running; in this process, the progress within each.
        users_per_task: Test users above which a task becomes a call that fits the model and one for each range of
            users, where several calls run at a time; None: never.
    """
    if session.in_process:
        return sequential_executor(observer)
    return partial(_run_tasks, _Calls(session, users_per_task), observer)


def _run_tasks(
    calls: _Calls, observer: Observer, tasks: Iterable[tuple[int, str, Task]]
) -> Generator[tuple[int, Result]]:
    waiting, shown = iter(tasks), ExitStack()  # the progress of the running tasks
    running: dict[int, _Running] = {}  # by number of the call
    followers: deque[tuple[Call, _Running]] = deque()  # ranges that are known and have not started

    def start() -> Iterator[Call | None]:
        while True:
            if followers:
                call, task = followers.popleft()
                if task.has_ended:
                    continue
            elif (numbered := next(waiting, None)) is not None:
                task = _Running(*numbered, progress=shown.enter_context(ExitStack()))
                task.progress.enter_context(observer.progress(f"compute {task.label}"))
                call = calls.first(task)
            elif any(task.is_fitting for task in running.values()):
                yield None
                continue
            else:
                return
            running[call.number] = task
            yield call

    with shown, closing(run_calls(calls.session, start())) as ended:
        for number, value in ended:
            task = running.pop(number)
            if isinstance(value, Fitted):
                followers.extend((call, task) for call in calls.ranges(task, value))
                continue
            if task.is_fitting and isinstance(value, TaskResult):
                observer.report(
                    f"{task.label}: the model cannot be pickled, so its users are not split into ranges"
                )
            if (result := task.result_after(number, value)) is not None:
                yield task.number, result


@dataclass(eq=False)
class _Running:
    """A task that has started: one call, or one that fits the model and one for each range of users."""

    number: int
    label: str
    task: Task
    progress: ExitStack  # closed when the task has ended
    is_fitting: bool = False
    has_ended: bool = False
    fitted: Fitted | None = None
    # By number of the call, which is in the order of the ranges.
    parts: dict[int, RangeResult] = field(default_factory=dict)

    def result_after(self, number: int, value: Any) -> Result | None:
        """Return the result of the task after one of its calls; None: others are to come, or it has failed before."""
        if self.has_ended:
            return None
        result: Result = value
        if self.fitted is not None and isinstance(value, RangeResult):
            self.parts[number] = value
            if len(self.parts) < len(self.fitted.ranges):
                return None
            parts = [part for _, part in sorted(self.parts.items())]
            try:
                result = _merged_result(self.task, self.fitted, parts)
            except Exception as error:  # noqa: BLE001 - of a metric of a plugin
                result = failure_of(error)
        self.is_fitting, self.has_ended = False, True
        self.progress.close()
        return result


class _Calls:
    """The calls of tasks in a session, with the data of each fold put once."""

    def __init__(self, session: Session, users_per_task: int | None) -> None:
        self.session, self._users_per_task, self._numbers = session, users_per_task, count()
        # By identity of the fold, which is kept so that no other gets its id.
        self._folds: dict[int, tuple[Split, Handle]] = {}

    def first(self, running: _Running) -> Call:
        """Return the call of a task, or the one that fits its model for ranges of users."""
        task, users = running.task, self._users_per_task
        if users is not None and self.session.slots > 1 and _can_split(task, users):
            running.is_fitting = True
            return self._call(fit_for_ranges, task, users_per_task=users)
        return self._call(_run_fields, task)

    def ranges(self, running: _Running, fitted: Fitted) -> list[Call]:
        """Return a call for each range of users."""
        running.is_fitting, running.fitted = False, replace(fitted, model=b"")
        model = self.session.put({"fitted": fitted.model})
        return [self._call(run_range, running.task, model, users=users) for users in fitted.ranges]

    def _call(self, function: Callable[..., Any], task: Task, *shared: Handle, **rest: Any) -> Call:
        key = id(task.split)
        if key not in self._folds:
            data = self.session.put({name: getattr(task, name) for name in _SHARED})
            self._folds[key] = task.split, data
        own = {f.name: getattr(task, f.name) for f in fields(Task) if f.name not in _SHARED}
        return Call(next(self._numbers), function, [self._folds[key][1], *shared], {**own, **rest})


def sequential_executor(observer: Observer) -> TaskExecutor:
    """Return an executor that runs tasks one after another in this process."""

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        with cheap_collections():
            for number, label, task in tasks:
                # What the task before has imported is left out too.
                with cheap_collections():
                    result = outcome_of(partial(run_task, task, label, observer))
                yield number, result

    return execute


def _run_fields(**task: Any) -> TaskResult:
    """Return the result of the task with these fields, in another process."""
    return run_task(Task(**task), "", Observer())


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, and the users of each range."""

    model: bytes  # pickled
    ranges: Sequence[Codes]  # each ascending; together all test users
    costs: Costs


@dataclass(frozen=True, eq=False)
class RangeResult:
    """The part of a task's result for one range of users."""

    lists: TaskLists
    state: ScorerState
    costs: Costs  # of scoring alone


def _can_split(task: Task, users_per_task: int) -> bool:
    """Return whether the users of a task are split into ranges.

    Not where the model makes all lists at once, where a race may stop after some users, where lists are only scored,
    and where the state of a metric over all lists cannot be merged.
    """
    lists_at_once = defines(MODELS.entry(task.model.type).cls, Recommender.recommend_task)
    if task.race is not None or task.lists is not None or lists_at_once:
        return False
    if len(np.unique(task.split.test.user)) <= users_per_task:
        return False
    request = Request(task.metrics, task.n, 1, tuple(curve_ks(task.n, task.metrics)))
    try:
        check_mergeable(request.every.values())
    except DataError:
        return False
    return True


def fit_for_ranges(users_per_task: int, **task: Any) -> Fitted | TaskResult:
    """Return the fitted model of the task with these fields; its result where the model cannot be pickled."""
    whole = Task(**task)
    work = Work(whole, "", Observer())
    with one_blas_thread():
        model = work.new_model()
        with peak_memory() as peak:
            work.fit(model)
        try:
            pickled = pickle.dumps(model, protocol=5)
        except Exception:  # noqa: BLE001 - a class of its own, a handle, a lock
            return run_task(whole, "", Observer())
        ranges = _ranges(whole, users_per_task)
    return Fitted(pickled, ranges, work.costs(peak))


def _ranges(task: Task, users_per_task: int) -> list[Codes]:
    """Return ranges of whole blocks, so that blocks have the same users as without ranges."""
    users = np.unique(task.split.test.user)
    blocks = list(user_blocks(users, task.split.train.n_items, BLOCK_BYTES))
    size = max(1, math.floor(users_per_task / len(blocks[0])))  # blocks a range
    return [np.concatenate(blocks[start : start + size]) for start in range(0, len(blocks), size)]


def run_range(fitted: bytes, users: Codes, **task: Any) -> RangeResult:
    """Return the lists and the scores of some users by a fitted model."""
    whole = Task(**task)
    test = whole.split.test
    part = replace(whole, split=replace(whole.split, test=test.select(np.isin(test.user, users))))
    work = Work(part, "", Observer())
    with one_blas_thread():
        with peak_memory() as peak:
            model = pickle.loads(fitted)  # our own process pickled it
            work.start(model)
            made = work.make_lists(model)
        lists = replace(made, costs=work.costs(peak))
        return RangeResult(lists, *measured(lambda: score_state(part, lists, log=test)))


def _merged_result(task: Task, fitted: Fitted, parts: Sequence[RangeResult]) -> TaskResult:
    """Return the result of a task from the results of its ranges, in order: the same bits as without ranges."""
    ranges, test, predictions = [part.lists for part in parts], task.split.test, None
    if all(lists.predictions is not None for lists in ranges):
        predictions = np.empty(len(test))
        for users, lists in zip(fitted.ranges, ranges, strict=True):
            predictions[np.isin(test.user, users)] = lists.predictions
    made = TaskLists(
        top_n=joined_lists([lists.top_n for lists in ranges]),
        predictions=predictions,
        costs=sum((lists.costs for lists in ranges), fitted.costs),
        unpredicted=next((lists.unpredicted for lists in ranges if lists.unpredicted), None),
        notes=tuple(dict.fromkeys(note for lists in ranges for note in lists.notes)),
    )
    scores = with_ids(ScorerState.merge([part.state for part in parts]).scores(), task.split)
    costs = task_costs(task, made, sum((part.costs for part in parts), Costs()))
    return TaskResult(made, scores, costs)
