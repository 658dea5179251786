"""The executor of tasks: each is a call of a session, with the data of its fold put once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, fields, replace
from itertools import count, islice
from typing import Any

from evalplugin.base.costs import cheap_collections
from evalplugin.data import Split
from evalplugin.execution.engines import Call, Handle, Session, run_calls
from evalplugin.execution.engines.local import InProcess
from evalplugin.execution.isolation import error_text, isolated, raise_interruption
from evalplugin.execution.observer import Observer
from evalplugin.execution.ranges import (
    Fitted,
    RangeResult,
    can_split,
    fit_for_ranges,
    merged_result,
    run_range,
)
from evalplugin.execution.runner import Result, TaskExecutor
from evalplugin.execution.tasks import Task, TaskFailure, TaskResult, run_task
from evalplugin.files.recording import recorded_inputs

__all__ = ["sequential_executor", "task_executor"]

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
        return sequential_executor(observer, session)
    folds = _Folds(session)
    numbers = count()

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        shown = ExitStack()  # the progress of the running tasks
        running: dict[int, _Running] = {}  # by number of the call
        followers: deque[tuple[Call, _Running]] = deque()  # ranges that are known and have not started

        def calls() -> Iterator[Call | None]:
            waiting = iter(tasks)
            while True:
                if followers:
                    call, one = followers.popleft()
                    if one.failed:
                        continue
                elif (task := next(waiting, None)) is not None:
                    one = _Running(*task, shown)
                    one.show(observer)
                    call = one.first_call(next(numbers), folds, session, users_per_task)
                elif any(one.is_fitting for one in running.values()):
                    yield None
                    continue
                else:
                    return
                running[call.number] = one
                yield call

        with shown, closing(run_calls(session, calls())) as ended:
            for number, value in ended:
                one = running.pop(number)
                if isinstance(value, Fitted):
                    ranges = one.range_calls(value, numbers, folds, session)
                    followers.extend((call, one) for call in ranges)
                elif (result := one.result_of(number, value, observer)) is not None:
                    one.end()
                    yield one.number, result

    return execute


class _Folds:
    """The data of folds, each put once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # By identity of the fold, which is kept so that no other gets its id.
        self._data: dict[int, tuple[Split, Handle]] = {}

    def handle(self, task: Task) -> Handle:
        key = id(task.split)
        if key not in self._data:
            shared = self._session.put({name: getattr(task, name) for name in _SHARED})
            self._data[key] = task.split, shared
        return self._data[key][1]


@dataclass(eq=False)
class _Running:
    """A task that has started: one call, or one that fits the model and one for each range of users."""

    number: int
    label: str
    task: Task
    shown: ExitStack
    end: Callable[[], object] = lambda: None  # ends its progress
    is_fitting: bool = False
    failed: bool = False
    fitted: Fitted | None = None
    parts: dict[int, RangeResult | None] = field(default_factory=dict)  # by number of the call

    def show(self, observer: Observer) -> None:
        progress = ExitStack()
        self.end = self.shown.enter_context(progress).close
        progress.enter_context(observer.progress(f"compute {self.label}"))

    def first_call(self, number: int, folds: _Folds, session: Session, users_per_task: int | None) -> Call:
        rest, shared = self._rest, [folds.handle(self.task)]
        if users_per_task is not None and session.slots > 1 and can_split(self.task, users_per_task):
            self.is_fitting = True
            return Call(number, fit_for_ranges, shared, {**rest, "users_per_task": users_per_task})
        return Call(number, _run_fields, shared, rest)

    def range_calls(
        self, fitted: Fitted, numbers: Iterator[int], folds: _Folds, session: Session
    ) -> list[Call]:
        shared = [folds.handle(self.task), session.put({"fitted": fitted.model})]
        self.is_fitting, self.fitted = False, replace(fitted, model=b"")
        self.parts = dict.fromkeys(islice(numbers, len(fitted.ranges)))
        return [
            Call(number, run_range, shared, {**self._rest, "users": users})
            for number, users in zip(self.parts, fitted.ranges, strict=True)
        ]

    @property
    def _rest(self) -> dict[str, Any]:
        return {f.name: getattr(self.task, f.name) for f in fields(Task) if f.name not in _SHARED}

    def result_of(self, call: int, value: Any, observer: Observer) -> Result | None:
        """Return the result of the task after one of its calls; None if others are still to come, or it has failed."""
        if self.is_fitting and isinstance(value, TaskResult):
            observer.report(
                f"{self.label}: the model cannot be pickled, so its users are not split into ranges"
            )
        self.is_fitting = False
        if self.failed or not isinstance(value, RangeResult):
            is_first, self.failed = not self.failed, isinstance(value, TaskFailure)
            result: Result = value
            return result if is_first else None
        self.parts[call] = value
        parts = [part for part in self.parts.values() if part is not None]
        if self.fitted is None or len(parts) < len(self.parts):
            return None
        try:
            return merged_result(self.task, self.fitted, parts)
        except Exception:  # noqa: BLE001 - of a metric of a plugin
            return TaskFailure(error_text())


def sequential_executor(observer: Observer, session: Session | None = None) -> TaskExecutor:
    """Return an executor that runs tasks in this process, one after another; ``session`` is one of this process."""

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        calls = (
            Call(number, _run_here, rest={"task": task, "label": label, "observer": observer})
            for number, label, task in tasks
        )
        with cheap_collections(), closing(run_calls(session or InProcess(), calls)) as ended:
            yield from ended

    return execute


def _run_here(task: Task, label: str, observer: Observer) -> Result:
    """Return the result of a task, or its failure with what it has read until then."""
    with recorded_inputs(task.inputs, carry=task.runs_plugins) as inputs:
        try:
            with isolated():
                return run_task(task, label, observer)
        except BaseException as error:  # noqa: BLE001 - the edge of a task: recorded whole, the others go on
            raise_interruption(error)
            failure = error_text()
    return TaskFailure(failure, inputs)


def _run_fields(**task: Any) -> TaskResult:
    """Return the result of the task that has these fields, in another process."""
    return run_task(Task(**task), "", Observer())
