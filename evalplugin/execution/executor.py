"""The executor of tasks: each is a call of a session, with the data of its fold put once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from dataclasses import fields
from itertools import count
from typing import Any

from evalplugin.base.costs import cheap_collections
from evalplugin.base.recording import recorded_inputs
from evalplugin.data import Split
from evalplugin.execution.engines import Call, Handle, Session, run_calls
from evalplugin.execution.engines.local import InProcess
from evalplugin.execution.isolation import error_text, isolated, raise_interruption
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import Executor, Result
from evalplugin.execution.tasks import Task, TaskFailure, TaskResult, run_task

__all__ = ["sequential_executor", "task_executor"]

_SHARED = ("split", "candidates")  # fields of a task that it shares with the other models on its fold


def task_executor(session: Session, observer: Observer) -> Executor:
    """Return an executor that runs tasks as calls of a session.

    The observer receives which tasks are running; in this process, the progress within each.
    """
    if session.in_process:
        return _executor_here(session, observer)
    # By identity of the fold, which is kept so that no other gets its id.
    data: dict[int, tuple[Split, Handle]] = {}
    numbers = count()

    def shared(task: Task) -> Handle:
        key = id(task.split)
        if key not in data:
            data[key] = task.split, session.put({name: getattr(task, name) for name in _SHARED})
        return data[key][1]

    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        shown = ExitStack()  # the progress of the running tasks
        running: dict[int, tuple[int, Callable[[], object]]] = {}  # by number of the call

        def calls() -> Iterator[Call]:
            for (number, label, task), call in zip(tasks, numbers):  # noqa: B905 - numbers never end
                progress = ExitStack()
                running[call] = number, shown.enter_context(progress).close
                progress.enter_context(observer.progress(f"compute {label}"))
                rest = {f.name: getattr(task, f.name) for f in fields(task) if f.name not in _SHARED}
                yield Call(call, _run_fields, [shared(task)], rest)

        with shown, closing(run_calls(session, calls())) as ended:
            for call, result in ended:
                number, end = running.pop(call)
                end()
                yield number, result

    return execute


def sequential_executor(observer: Observer) -> Executor:
    """Return an executor that runs tasks in this process, one after another."""
    return _executor_here(InProcess(), observer)


def _executor_here(session: Session, observer: Observer) -> Executor:
    def execute(tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        calls = (
            Call(number, _run_here, rest={"task": task, "label": label, "observer": observer})
            for number, label, task in tasks
        )
        with cheap_collections(), closing(run_calls(session, calls)) as ended:  # one for each task
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
