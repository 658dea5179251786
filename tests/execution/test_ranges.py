"""Users of one model in ranges: the same bits as without, and failures of the task as a whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from samples import RecordingObserver, small_config

from evalplugin.execution import executor
from evalplugin.execution.engines import Call
from evalplugin.execution.engines.local import InProcess
from evalplugin.execution.executor import sequential_executor, task_executor
from evalplugin.execution.isolation import TaskFailure
from evalplugin.execution.observer import Observer
from evalplugin.execution.runner import jobs_of, prepare
from evalplugin.execution.tasks import Task, TaskResult
from evalplugin.features.config import load


class SeveralSlots(InProcess):
    """A session that is treated like one of several processes, and runs all here."""

    in_process = False
    slots = 3

    def __init__(self) -> None:
        super().__init__()
        self.functions: list[str] = []

    def submit(self, call: Call) -> None:
        self.functions.append(call.function.__name__)
        super().submit(call)


MODELS = [
    "random",
    "popularity",
    {"type": "ease", "params": {"l2": 9.0}},
    {"type": "surprise.KNNBasic", "params": {"k": 5}},
    {"type": "surprise.SVD", "params": {"n_epochs": 2, "random_state": 1}},
    {"type": "sklearn.NearestNeighbors"},
    {"type": "sklearn.TruncatedSVD", "params": {"n_components": 4}},
]
METRICS = ["ndcg@10", "recall@10", "coverage@10", "gini@10", "personalization@10", "novelty@10", "rmse", "mae",
           "precision_at_recall", "auc"]  # fmt: skip


def numbered(**changes: Any) -> list[tuple[int, str, Task]]:
    config = load(small_config(models=MODELS, metrics=METRICS, compare={}, **changes))
    tasks = [task for job in jobs_of(config, prepare(config, None, Observer())) for task in job.tasks]
    return [(number, task.model.name, task) for number, task in enumerate(tasks)]


def bits(result: Any) -> object:
    assert isinstance(result, TaskResult), result
    scores, lists = result.per_user, result.lists
    arrays = [scores.users, scores.values, lists.top_n.user, lists.top_n.item, lists.top_n.score]
    if lists.predictions is not None:
        arrays.append(lists.predictions)
    figures = repr((scores.overall, scores.means, scores.at_k, scores.pr_curve))
    return [(a.dtype, a.tobytes()) for a in arrays], figures, lists.notes, lists.unpredicted


@pytest.mark.slow
def test_ranges_of_users_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "BLOCK_BYTES", 7 * 80 * 8)  # seven users of 80 items
    tasks, session = numbered(), SeveralSlots()
    here = dict(sequential_executor(Observer())(tasks))
    there = dict(task_executor(session, Observer(), users_per_task=20)(tasks))
    assert sorted(there) == sorted(here)
    for number, name, _ in tasks:
        assert bits(there[number]) == bits(here[number]), name
    assert session.functions.count("fit_for_ranges") == len(MODELS)
    assert session.functions.count("run_range") == len(MODELS) * 5  # 14 users each, of 60


def test_costs_of_ranges_are_those_of_the_fit_and_of_all_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "BLOCK_BYTES", 30 * 80 * 8)
    (task, *_) = numbered()
    rest = {name: getattr(task[2], name) for name in task[2].__dataclass_fields__}
    fitted = executor.fit_for_ranges(30, **rest)
    assert isinstance(fitted, executor.Fitted)
    parts = [executor.run_range(fitted.model, users, **rest) for users in fitted.ranges]
    costs = executor._merged_result(task[2], fitted, parts).costs
    assert costs.fit_seconds == fitted.costs.fit_seconds
    assert costs.recommend_seconds == pytest.approx(sum(part.lists.costs.recommend_seconds for part in parts))
    assert costs.peak_memory_mb == max(
        fitted.costs.peak_memory_mb,
        *(c.peak_memory_mb for part in parts for c in (part.costs, part.lists.costs)),
    )


PLUGIN = """
from dataclasses import dataclass
import numpy as np
import evalplugin

@evalplugin.model("odd")
@dataclass
class Odd:
    how: str = ""

    def fit(self, train, rng):
        self.n_items = train.n_items
        if self.how == "unpicklable":
            self.function = lambda: None
        if self.how == "fit fails":
            raise ValueError("fit fails")

    def scores(self, users):
        if self.how == "range fails" and users[0] > 20:
            raise ValueError("range fails")
        if self.how == "every other range fails" and users[0] // 10 % 2:
            raise ValueError("every other range fails")
        return np.tile(np.arange(self.n_items, dtype=float), (len(users), 1))
"""


def test_failure_in_a_range_is_one_of_the_task(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "BLOCK_BYTES", 10 * 80 * 8)
    (tmp_path / "odd.py").write_text(PLUGIN)
    hows = ["fit fails", "range fails", "every other range fails", "unpicklable", ""]
    config = load(
        small_config(
            plugins=[str(tmp_path / "odd.py")],
            models=[{"name": how or "fine", "type": "odd", "params": {"how": how}} for how in hows],
            compare={},
        )
    )
    jobs = jobs_of(config, prepare(config, None, Observer()))
    tasks = [(number, job.model.name, job.tasks[0]) for number, job in enumerate(jobs)]
    listening = RecordingObserver()
    found = list(task_executor(SeveralSlots(), listening, users_per_task=10)(tasks))
    assert sorted(number for number, _ in found) == [0, 1, 2, 3, 4]  # each ends once
    results = dict(found)
    for number, how in enumerate(hows[:3]):
        failure = results[number]
        assert isinstance(failure, TaskFailure)
        assert f"ValueError: {how}" in failure.error
    assert bits(results[3]) == bits(results[4])
    assert listening.lines == [
        "unpicklable: the model cannot be pickled, so its users are not split into ranges"
    ]


def test_few_users_races_and_models_of_whole_tasks_are_not_split() -> None:
    (_, _, task) = numbered()[0]
    n = len(np.unique(task.split.test.user))
    assert executor._can_split(task, n - 1)
    assert not executor._can_split(task, n)
