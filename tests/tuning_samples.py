"""A model with a known optimum, and studies of it that are run without MLflow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

from evalplugin.execution.executor import sequential_executor
from evalplugin.execution.observer import Observer
from evalplugin.execution.results import Tuning
from evalplugin.execution.runner import Job, Result, TaskExecutor, jobs_of, prepare
from evalplugin.execution.store import Store, store_path
from evalplugin.execution.store.steps import StepCache
from evalplugin.execution.tasks import Task
from evalplugin.features.config import load
from evalplugin.features.tuning.engine import run_studies
from evalplugin.features.tuning.feature import studies_of
from evalplugin.features.tuning.study import Study

PLUGIN = '''
from dataclasses import dataclass
from typing import Literal

import numpy as np

import evalplugin


@evalplugin.model("dial")
@dataclass
class Dial:
    """Popularity, and the more noise the farther x is from 3. It cannot learn above 8."""

    x: float = 0.0
    kind: Literal["plain", "shifted", "broken"] = "plain"
    shift: int = 2

    def fit(self, train, rng):
        with open("fits.txt", "a") as file:
            file.write("fit\\n")
        if self.x > 8 or self.kind == "broken":
            raise RuntimeError(f"no dial goes to {self.x:.0f} {self.kind}")
        off = abs(self.x - 3) + (self.shift if self.kind == "shifted" else 0)
        noise = np.random.default_rng(1).random((train.n_users, train.n_items))
        self.values = train.item_counts / train.item_counts.max() + off * noise

    def scores(self, users):
        return self.values[users]
'''
DIAL = {"name": "dial", "type": "dial", "tune": {"x": {"float": [0, 8]}}}
DATA = {"name": "tiny", "type": "synthetic", "n_users": 150, "n_items": 60, "n_interactions": 4000}


def dial_config(**changes: Any) -> dict[str, Any]:
    """Return a config with a tuned dial beside popularity."""
    Path("dial.py").write_text(PLUGIN)
    return {
        "experiment": "tuned",
        "seed": 3,
        "plugins": ["dial.py"],
        "datasets": [DATA],
        "split": {"type": "last_n", "n": 4},
        "recommend": {"n": 10},
        "metrics": ["ndcg@10", "recall@10"],
        "models": ["popularity", DIAL],
        "segments": [],
        "compare": {"baseline": "popularity"},
        "tune": {"budget": {"trials": 10}},
        **changes,
    }


class Counted:
    """An executor that counts its tasks, hands results back in reverse, and may stop like a process that is killed."""

    def __init__(self, stop_after: int | None = None, order: Callable[..., Any] = reversed) -> None:
        self.inner: TaskExecutor = sequential_executor(Observer())
        self.stop_after, self.order = stop_after, order
        self.calls: list[int] = []  # tasks of each call
        self.tasks: list[Task] = []

    def __call__(self, tasks: Iterable[tuple[int, str, Task]]) -> Generator[tuple[int, Result]]:
        numbered = list(self.order(list(tasks)))
        self.calls.append(len(numbered))
        for task, result in zip(numbered, self.inner(iter(numbered)), strict=True):
            if len(self.tasks) == self.stop_after:
                raise KeyboardInterrupt
            self.tasks.append(task[2])
            yield result


def run(
    config: Mapping[str, Any],
    execute: TaskExecutor | None = None,
    *,
    fresh: bool = False,
    observer: Observer | None = None,
) -> tuple[list[Job], list[Study]]:
    """Run the studies of a config, with the cache of the working directory."""
    checked = load(config)
    cache = StepCache(Store(store_path(checked.spec.store.path)), fresh)
    prepared = prepare(checked, None, Observer())
    jobs = jobs_of(checked, prepared)
    studies = studies_of(checked, prepared, jobs)
    execute, observer = execute or sequential_executor(Observer()), observer or Observer()
    return run_studies(studies, jobs, execute, cache, observer), studies


def tuning(
    config: Mapping[str, Any],
    execute: TaskExecutor | None = None,
    model: str = "dial",
    observer: Observer | None = None,
) -> Tuning:
    """Return how the parameters of a model were found."""
    jobs, _ = run(config, execute, observer=observer)
    (found,) = (job.tuning for job in jobs if job.model.name == model)
    return found


def rows(found: Tuning, *columns: str) -> list[dict[str, Any]]:
    """Return the trials, without what differs from run to run."""
    table = found.trials.select(columns) if columns else found.trials
    table = table.drop_columns(
        [name for name in table.column_names if name.endswith("_seconds") or name == "cached"]
    )
    listed: list[dict[str, Any]] = table.to_pylist()
    return listed
