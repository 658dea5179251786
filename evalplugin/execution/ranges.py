"""Ranges of users: a model is fitted once, and its lists are made and scored in parts, as calls of their own."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from evalplugin.base.arrays import Codes
from evalplugin.base.costs import Stopwatch, peak_memory
from evalplugin.base.errors import DataError
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Costs
from evalplugin.execution.tasks import (
    Task,
    TaskLists,
    TaskResult,
    costs_of,
    curve_ks,
    fit_model,
    joined_lists,
    list_users,
    run_task,
    start_model,
    task_costs,
)
from evalplugin.files.inputs import Inputs, merged
from evalplugin.files.recording import recorded_inputs
from evalplugin.metrics import Blocks
from evalplugin.metrics.scoring import score_part, with_ids
from evalplugin.metrics.states import Request, ScorerState, check_mergeable
from evalplugin.models import BLOCK_BYTES, MODELS, one_blas_thread
from evalplugin.models.base import BlockOrder
from evalplugin.models.recommend import user_blocks

__all__ = ["Fitted", "RangeResult", "can_split", "fit_for_ranges", "merged_result", "run_range"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model, and the users of each range."""

    model: bytes  # pickled
    ranges: Sequence[Codes]  # each ascending; together all test users
    costs: Costs
    inputs: Inputs


@dataclass(frozen=True, eq=False)
class RangeResult:
    """What the users of a range contribute to the result of a task."""

    lists: TaskLists
    state: ScorerState
    costs: Costs  # of scoring alone
    inputs: Inputs = field(default_factory=dict)  # files that scoring has read, with fingerprints


def can_split(task: Task, users_per_task: int) -> bool:
    """Return whether the users of a task are split into ranges.

    Not those of a model that makes all lists at once, of a race, which stops after some users, of lists that are only
    to be scored, and of metrics over all lists that cannot be merged.
    """
    if task.race is not None or task.lists is not None:
        return False
    if len(np.unique(task.split.test.user)) <= users_per_task:
        return False
    if hasattr(MODELS.entry(task.model.type).cls, "recommend_task"):
        return False
    try:
        check_mergeable(
            Request(task.metrics, task.n, 1, tuple(curve_ks(task.n, task.metrics))).every.values()
        )
    except DataError:
        return False
    return True


def fit_for_ranges(users_per_task: int, **task: Any) -> Fitted | TaskResult:
    """Return the fitted model of the task that has these fields; its result where the model cannot be pickled."""
    made, watch = Task(**task), Stopwatch()
    is_plugin = not MODELS.entry(made.model.type).is_own
    with one_blas_thread(), recorded_inputs(made.inputs, carry=is_plugin) as inputs:
        with ExitStack() as measured:
            model, peak = fit_model(made, "", Observer(), watch, measured)
        try:
            pickled = pickle.dumps(model, protocol=5)
        except Exception:  # noqa: BLE001 - a class of its own, a handle, a lock
            return run_task(made, "", Observer())
        ranges = _ranges(model, made, users_per_task)
    return Fitted(pickled, ranges, costs_of(watch, peak), inputs)


def _ranges(model: object, task: Task, users_per_task: int) -> list[Codes]:
    """Return ranges of whole blocks, so that each block has the users that it has without ranges."""
    users = np.unique(task.split.test.user)
    order = model.block_order(users) if isinstance(model, BlockOrder) else np.arange(len(users))
    blocks = list(user_blocks(order, task.split.train.n_items, BLOCK_BYTES))
    size = max(1, math.floor(users_per_task / len(blocks[0])))  # blocks a range
    return [
        users[np.sort(np.concatenate(blocks[start : start + size]))] for start in range(0, len(blocks), size)
    ]


def run_range(fitted: bytes, users: Codes, **task: Any) -> RangeResult:
    """Return the lists and the scores of some users by a fitted model."""
    whole, watch = Task(**task), Stopwatch()
    test = whole.split.test
    part = replace(whole, split=replace(whole.split, test=test.select(np.isin(test.user, users))))
    with one_blas_thread():
        with recorded_inputs(part.inputs, carry=True) as inputs, peak_memory() as peak:
            model = pickle.loads(fitted)  # our own process pickled it
            start_model(model, watch)
            made = list_users(model, part, "", Observer(), watch)
        lists = replace(made, costs=costs_of(watch, peak), inputs=inputs)
        scoring = Stopwatch()
        with (
            recorded_inputs(carry=part.scores_by_plugins) as read,
            peak_memory() as peak,
            scoring.time("score"),
        ):
            blocks = Blocks.of(
                lists.top_n,
                part.split.test,
                train=part.split.train,
                threshold=part.threshold,
                predictions=lists.predictions if part.needs_predictions else None,
                candidates=part.candidates,
            )
            state = score_part(blocks, part.metrics, curve_ks(part.n, part.metrics))
    costs = Costs(score_seconds=scoring.seconds["score"], peak_memory_mb=peak.mb)
    return RangeResult(lists, state, costs, read)


def merged_result(task: Task, fitted: Fitted, parts: Sequence[RangeResult]) -> TaskResult:
    """Return the result of a task from those of its ranges, in their order: as without ranges, to the last bit."""
    lists = [part.lists for part in parts]
    top_n = joined_lists([one.top_n for one in lists])
    predictions, unpredicted = None, next((one.unpredicted for one in lists if one.unpredicted), None)
    if all(one.predictions is not None for one in lists):
        predictions = np.empty(len(task.split.test))
        for users, one in zip(fitted.ranges, lists, strict=True):
            predictions[np.isin(task.split.test.user, users)] = one.predictions
    made = TaskLists(
        top_n=top_n,
        predictions=predictions,
        costs=sum((part.costs for part in lists), fitted.costs),
        unpredicted=unpredicted,
        notes=tuple(dict.fromkeys(note for one in lists for note in one.notes)),
        inputs=merged([fitted.inputs, *(one.inputs for one in lists)]),
    )
    state = ScorerState.merge([part.state for part in parts])
    return TaskResult(
        made,
        with_ids(state.scores(), task.split.test),
        task_costs(task, made, sum((part.costs for part in parts), Costs())),
        merged([part.inputs for part in parts]),
    )
